"""Ids by which a request to the OpenAI endpoint is known when its client sends it again. Used by openai_api."""

import secrets
from hashlib import sha256

from aiohttp import web

# OpenAI's SDKs send the number of retries in this header.
_RETRY_HEADER = "x-stainless-retry-count"
_KEY_HEADER = "Idempotency-Key"
_NONCE_LENGTH = 16
_SDK, _KEY = "sdk-", "key-"


def make_message_id(request: web.Request, body: bytes) -> str:
    """Return the id of a message: the client's own, or one that identifies an SDK's retries of the same body."""
    if key := request.headers.get(_KEY_HEADER):
        return key
    if _RETRY_HEADER not in request.headers:
        return ""
    return f"{_SDK}{sha256(body).hexdigest()[:32]}-{secrets.token_hex(_NONCE_LENGTH // 2)}"


def make_reply_id(request: web.Request, message_id: str) -> str:
    """Return the id of the request as a reply.

    With a client's own key it has a fixed length, so that none is a prefix of another.
    """
    if not request.headers.get(_KEY_HEADER):
        return message_id
    return f"{_KEY}{sha256(message_id.encode('utf-8', 'replace')).hexdigest()}"


def may_be_retry(request: web.Request) -> bool:
    """Return whether the request may be a repetition: it has a client key, or its SDK counts a retry."""
    count = request.headers.get(_RETRY_HEADER, "0")
    # Not converted: a header may have more digits than Python makes a number of.
    return bool(request.headers.get(_KEY_HEADER)) or (count.isdecimal() and count.strip("0") != "")


def reply_prefix(reply_id: str) -> str:
    """Return the prefix that the ids of all repetitions of the request share."""
    return reply_id[:-_NONCE_LENGTH] if reply_id.startswith(_SDK) else reply_id
