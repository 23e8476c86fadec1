"""UserMessage: what an agent with the role assistant sends to the person, read from its calls. Pure.

Sent with tools/user_message.py; shown by the clients. The calls in the history are the only place where it is stored.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.interruption import HARMLESS, UNKNOWN
from moot.domain.message import Message, Role

SEND_USER_MESSAGE = "send_user_message"
# The arguments of a call have at most 1,000,000 characters, and any character can take two of them.
MAX_MESSAGE_BYTES = 512 * 1024
MAX_ATTACHMENTS = 8


class MessageStatus(StrEnum):
    NORMAL = "normal"
    # Sent without being asked: the person may be away.
    PROACTIVE = "proactive"


class Attachment(Struct, frozen=True, kw_only=True):
    """A file that a message names. Only its path and its size are sent."""

    path: str
    size: int


class UserMessage(Struct, frozen=True, kw_only=True):
    content: str
    status: MessageStatus = MessageStatus.NORMAL
    attachments: tuple[Attachment, ...] = ()
    # The call that sent it.
    call_id: str = ""


class _Arguments(Struct):
    message: str
    status: MessageStatus


class _Receipt(Struct):
    """The result of a call that sent a message."""

    sent: bool
    attachments: tuple[Attachment, ...] = ()


def render_receipt(attachments: Iterable[Attachment]) -> str:
    return msgspec.json.encode(_Receipt(sent=True, attachments=tuple(attachments))).decode()


def find_user_messages(messages: Iterable[Message]) -> dict[str, UserMessage]:
    """Return the messages that were sent, by the id of their calls, oldest first.

    A call that was refused sent none. One that was interrupted may have been shown, so it counts.
    """
    waiting: dict[str, _Arguments] = {}
    found: dict[str, UserMessage] = {}
    for message in messages:
        for call in message.tool_calls:
            if call.name == SEND_USER_MESSAGE and (arguments := _decode(call.arguments, _Arguments)) is not None:
                waiting[call.id] = arguments
        if message.role is not Role.TOOL or message.tool_call_id not in waiting:
            continue
        arguments = waiting.pop(message.tool_call_id)
        receipt: _Receipt | None
        if message.content in (UNKNOWN, HARMLESS):
            receipt = _Receipt(sent=bool(arguments.message.strip()))
        else:
            receipt = None if message.is_error else _decode(message.content, _Receipt)
        if receipt is not None and receipt.sent:
            found[message.tool_call_id] = UserMessage(
                content=arguments.message,
                status=arguments.status,
                attachments=receipt.attachments,
                call_id=message.tool_call_id,
            )
    return found


def join_contents(messages: Iterable[UserMessage]) -> str:
    """Return the messages as one text."""
    return "\n\n".join(message.content for message in messages)


def _decode(text: str, shape: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=shape)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
