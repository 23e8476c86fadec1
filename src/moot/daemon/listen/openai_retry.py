"""Ids by which a request to the OpenAI endpoint is known when its client sends it again. Used by openai_api."""

import secrets
from hashlib import sha256

from aiohttp import web

# OpenAI's SDKs count here how often they have sent the same request.
_RETRY_HEADER = "x-stainless-retry-count"
_KEY_HEADER = "Idempotency-Key"
_NONCE_LENGTH = 16
_SDK, _KEY = "sdk-", "key-"


def make_message_id(request: web.Request, body: bytes) -> str:
    """The id a message is sent under: the client's own, or one by which an SDK's retries of the same body are known."""
    if key := request.headers.get(_KEY_HEADER):
        return key
    if _RETRY_HEADER not in request.headers:
        return ""
    return f"{_SDK}{sha256(body).hexdigest()[:32]}-{secrets.token_hex(_NONCE_LENGTH // 2)}"


def make_reply_id(request: web.Request, message_id: str) -> str:
    """The id of the same request as a reply. A client's own key has one of a fixed length: none begins with another."""
    if not request.headers.get(_KEY_HEADER):
        return message_id
    return f"{_KEY}{sha256(message_id.encode('utf-8', 'replace')).hexdigest()}"


def may_be_retry(request: web.Request) -> bool:
    """Whether the request may have come before: under the client's own key, or counted by its SDK."""
    count = request.headers.get(_RETRY_HEADER, "0")
    return bool(request.headers.get(_KEY_HEADER)) or (count.isdecimal() and int(count) > 0)


def reply_prefix(reply_id: str) -> str:
    """What the id of the same request begins with, whenever it is sent."""
    return reply_id[:-_NONCE_LENGTH] if reply_id.startswith(_SDK) else reply_id
