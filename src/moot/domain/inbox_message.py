"""InboxMessage: mail as it goes from one daemon to another, with its headers and the bytes that are signed. Pure.

Everything that is read here may be hostile. Written by multiagent/peers/transport/relay.py, read by receiver.py.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from moot.domain.errors import BadRequest
from moot.domain.goal import read_goal_id
from moot.domain.mail import MAX_BODY_BYTES, Mail, check_body
from moot.domain.peer_address import is_daemon_name
from moot.domain.uuid_text import is_usual_form, write_uuid

# The subjects of mail and of what became of it end with the id of a goal.
INBOX_SUBJECT = "agent.inbox."
NOTICE_SUBJECT = "agent.notice."
# A body in which every byte is escaped, twice as much for a notice that contains it, and the other fields.
MAX_PAYLOAD_BYTES = 6 * MAX_BODY_BYTES + 16 * 1024

# One header says what a message is, another one who has signed it. A header for each value would take the sender, the
# server and the receiver longer.
ABOUT, SIGNATURE = "Moot-Mail", "Moot-Signature"

_NO_TAINT: frozenset[str] = frozenset()
_MOST_HOPS = 1_000_000
_MOST_TAINTS = 64
_TAINT = re.compile(r"[^,\x00-\x1f]{1,128}")
# Ids that are stored beside the ids of runs must not look like one.
_HEX = "[0-9a-f]"
_MESSAGE_ID = re.compile(rf"(?:mail|notice)-{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}")
_MAIL_ID = "mail-"
# What stands for a field that could not be read.
_UNREADABLE = "unreadable"
_THREAD = re.compile(r"[A-Za-z0-9_.:-]{0,128}")
_EARLIEST, _LATEST = 0.0, 253_402_300_799.0

# The name of a sender that is a person has up to 200 characters, and one before them.
MAX_NAME = 256
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
# A name is shown in the first line of a message, and cannot end that.
_NOT_IN_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class InboxMessage(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A mail on the wire. Unknown fields are ignored, so that others can add some."""

    from_agent_id: _Name
    from_goal_id: UUID
    to_agent_id: _Name
    body: str
    sent_at: Annotated[datetime, Meta(tz=True)]
    correlation_id: UUID | None = None


class NoticeState(StrEnum):
    REFUSED = "refused"
    EVICTED = "evicted"


class MailNotice(Struct, frozen=True, kw_only=True):
    """Tells the sender's daemon that a mail will not be read, with the mail, since it may not have it any more."""

    mail_id: str
    # The goal that the mail was for.
    goal_id: str
    state: NoticeState
    reason: Annotated[str, Meta(max_length=1_000)]
    message: InboxMessage


class MailHeaders(Struct, frozen=True, kw_only=True, gc=False):
    """What goes beside a message: its id, the daemon that sends it, what caused it, and the signature."""

    id: str = ""
    daemon: str = ""
    thread: str = ""
    hops: int = 0
    taint: frozenset[str] = frozenset()
    signature: str = ""
    # That the message is one of those the signature is for; empty if it is the only one.
    proof: str = ""


def make_subject(kind: str, goal_id: str) -> str:
    return f"{kind}{goal_id}"


@lru_cache(maxsize=4096)
def read_subject(subject: str) -> tuple[str, str, int] | None:
    """Return INBOX_SUBJECT or NOTICE_SUBJECT, the id of the goal, and its store; None for any other subject."""
    kind, dot, goal_id = subject.rpartition(".")
    kind += dot
    numbers = read_goal_id(goal_id)
    if kind not in (INBOX_SUBJECT, NOTICE_SUBJECT) or not is_usual_form(goal_id) or numbers is None:
        return None
    return kind, goal_id, numbers[0]


def write_message(mail: Mail, *, from_agent: str = "", to_agent: str = "") -> InboxMessage:
    """Return a mail as it is sent. The names of its agents are those of the mail, unless others are given."""
    return InboxMessage(
        from_agent_id=from_agent or mail.from_agent,
        from_goal_id=_parse_uuid(mail.from_goal),
        to_agent_id=to_agent or mail.to_agent,
        body=mail.body,
        sent_at=datetime.fromtimestamp(mail.sent_at, UTC),
        correlation_id=UUID(mail.correlation_id) if mail.correlation_id else None,
    )


@lru_cache(maxsize=1024)
def _parse_uuid(text: str) -> UUID:
    # Most senders send more than once.
    return UUID(text)


def encode_message(mail: Mail, *, to_agent: str = "") -> bytes:
    return msgspec.json.encode(write_message(mail, to_agent=to_agent))


def encode_notice(mail: Mail, state: NoticeState, reason: str, *, from_agent: str = "") -> bytes:
    message = write_message(mail, from_agent=from_agent)
    notice = MailNotice(mail_id=mail.id, goal_id=mail.goal_id, state=state, reason=reason[:1_000], message=message)
    return msgspec.json.encode(notice)


def read_message(payload: bytes) -> InboxMessage:
    """Read a mail. Raise BadRequest if it is none."""
    message = _decode(payload, _message_decoder)
    _check_message(message)
    return message


def read_notice(payload: bytes) -> MailNotice:
    """Read a notice. Raise BadRequest if it is none."""
    notice = _decode(payload, _notice_decoder)
    if not is_mail_id(notice.mail_id) or read_goal_id(notice.goal_id) is None:
        raise BadRequest("the notice names no mail, or no goal")
    _check_message(notice.message)
    return notice


def is_mail_id(text: str) -> bool:
    return text.startswith(_MAIL_ID) and _MESSAGE_ID.fullmatch(text) is not None


def parse_partially(payload: bytes, from_goal: str) -> InboxMessage:
    """Return what can be read of a malformed message, so that its sender can be told. `from_goal` is the default."""
    given: Any = None
    # Whatever is wrong with it, the text is left.
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        given = msgspec.json.decode(payload[:MAX_PAYLOAD_BYTES])
    fields: dict[str, Any] = given if isinstance(given, dict) else {}
    body = fields.get("body")
    text = body if isinstance(body, str) and body else payload.decode(errors="replace")
    message = InboxMessage(
        from_agent_id=_UNREADABLE,
        from_goal_id=UUID(from_goal),
        to_agent_id=_UNREADABLE,
        body=text.encode()[:MAX_BODY_BYTES].decode(errors="ignore") or _UNREADABLE,
        sent_at=datetime.fromtimestamp(_EARLIEST, UTC),
    )
    for name in ("from_agent_id", "from_goal_id", "to_agent_id", "sent_at", "correlation_id"):
        with suppress(BadRequest):
            message = _replace_field(message, name, fields.get(name))
    return message


def _replace_field(message: InboxMessage, name: str, value: object) -> InboxMessage:
    """Return the message with another value of a field. Raise BadRequest if the value is not valid."""
    if value is None:
        return message
    try:
        changed = msgspec.convert({**msgspec.to_builtins(message), name: value}, InboxMessage)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"`{name}` is not valid: {error}") from None
    _check_message(changed)
    return changed


def make_mail(message: InboxMessage, *, mail_id: str, goal_id: str, headers: MailHeaders, from_agent: str = "") -> Mail:
    """Return the mail that a message contains. Whether its sender is what it says is for the caller to check.

    `from_agent` is the address of the sender, if that is not the name in the message.
    """
    return Mail(
        id=mail_id,
        goal_id=goal_id,
        from_agent=from_agent or message.from_agent_id,
        from_goal=write_uuid(message.from_goal_id.int),
        to_agent=message.to_agent_id,
        body=message.body,
        sent_at=message.sent_at.timestamp(),
        correlation_id=write_uuid(message.correlation_id.int) if message.correlation_id is not None else "",
        thread=headers.thread,
        hops=headers.hops,
        taint=headers.taint,
    )


_T = TypeVar("_T", InboxMessage, MailNotice)
_message_decoder = msgspec.json.Decoder(InboxMessage)
_notice_decoder = msgspec.json.Decoder(MailNotice)


def _decode(payload: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise BadRequest(f"the message has {len(payload)} bytes, max {MAX_PAYLOAD_BYTES}")
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the message is malformed: {error}") from None


def _check_message(message: InboxMessage) -> None:
    _check_name(message.from_agent_id)
    _check_name(message.to_agent_id)
    check_body(message.body)
    if not _EARLIEST <= message.sent_at.timestamp() <= _LATEST:
        raise BadRequest("`sent_at` is not a valid time")


@lru_cache(maxsize=1024)
def _check_name(name: str) -> None:
    # Most senders send more than once.
    if _NOT_IN_NAME.search(name):
        raise BadRequest("the message is malformed: the name of an agent has a line break or a control character")


def write_about(daemon: str, thread: str = "", hops: int = 0, taint: frozenset[str] = _NO_TAINT) -> str:
    """Return what one header says of a message: its daemon, thread and hops, and the taint if there is some."""
    about = f"{daemon} {thread} {hops}"
    return f"{about} {_write_taint(taint)}" if taint else about


def write_headers(about: str, signature: str, proof: str = "") -> dict[str, str]:
    """Return the headers as they are sent. The proof of a message that has a signature of its own is empty."""
    return {ABOUT: about, SIGNATURE: f"{signature} {proof}" if proof else signature}


def check_sendable(mail: Mail) -> None:
    """Raise BadRequest for a mail that no other daemon could read: it would be dropped there."""
    _check_cause(mail.thread, mail.taint)
    if len(mail.from_agent) > MAX_NAME or not 0 <= mail.hops <= _MOST_HOPS:
        raise BadRequest("its sender has too long a name, or it is the result of too many others")


def read_headers(message_id: str, given: Mapping[str, str]) -> MailHeaders:
    """Read the headers of a message that a daemon signed. Raise BadRequest if they are not valid."""
    try:
        daemon, thread, hops, *rest = given[ABOUT].split(" ", 3)
    except (KeyError, ValueError):
        raise BadRequest(f"`{ABOUT}` is not valid") from None
    if _MESSAGE_ID.fullmatch(message_id) is None:
        raise BadRequest("its id is not valid")
    if not is_daemon_name(daemon):
        raise BadRequest(f"the daemon in `{ABOUT}` is not valid")
    taint = _read_taint(rest[0]) if rest else _NO_TAINT
    _check_cause(thread, taint)
    signature, _, proof = given.get(SIGNATURE, "").partition(" ")
    return MailHeaders(
        id=message_id,
        daemon=daemon,
        thread=thread,
        hops=_read_hops(hops),
        taint=taint,
        signature=signature,
        proof=proof,
    )


def _check_cause(thread: str, taint: frozenset[str]) -> None:
    if _THREAD.fullmatch(thread) is None:
        raise BadRequest("its thread is not valid")
    if taint:
        _check_taint(taint)


@lru_cache(maxsize=64)
def _read_hops(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or int(text) > _MOST_HOPS:
        raise BadRequest("its hops are not valid")
    return int(text)


@lru_cache(maxsize=64)
def _write_taint(taint: frozenset[str]) -> str:
    return json.dumps(sorted(taint))


def _read_taint(text: str) -> frozenset[str]:
    try:
        found = msgspec.json.decode(text, type=list[str])
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise BadRequest("its taint is not valid") from None
    if len(found) > _MOST_TAINTS:
        raise BadRequest("its taint is not valid")
    return frozenset(found)


@lru_cache(maxsize=64)
def _check_taint(taint: frozenset[str]) -> None:
    if len(taint) > _MOST_TAINTS or not all(map(_TAINT.fullmatch, taint)):
        raise BadRequest("its taint is not valid")


def list_signed_bytes(subject: str, message_id: str, about: str, payload: bytes) -> bytes:
    """Return the bytes that are signed. The length before each part makes them different for any two messages."""
    parts = f"moot-mail-2:{len(subject)}:{subject}{len(message_id)}:{message_id}{len(about)}:{about}"
    return parts.encode() + payload
