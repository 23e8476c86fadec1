"""Limits how much of a history goes into one answer. Pure."""

from collections.abc import Sequence

import msgspec

from moot.domain.message import Entry, Message

# The size of a page of a history; with its envelope well below the largest frame.
PAGE_BYTES = 6 * 1024 * 1024


def take_page(entries: Sequence[Entry], first_seq: int) -> tuple[Sequence[Entry], int]:
    """Return the entries from first_seq on that fit into one answer, and the number of the next, 0 at the end."""
    wanted = [entry for entry in entries if entry.seq >= first_seq] if first_seq else entries
    used = 0
    for index, entry in enumerate(wanted):
        used += _message_size(entry.message) + 256
        if used > PAGE_BYTES and index:
            return wanted[:index], entry.seq
    return wanted, 0


def _message_size(message: Message) -> int:
    """Return the size of a message in the largest encoding: JSON, where a control character takes six bytes."""
    texts = [message.content, message.agent, message.tool_call_id, *(each.text for each in message.thinking)]
    for call in message.tool_calls:
        texts += (call.id, call.name, call.arguments)
    return sum(len(msgspec.json.encode(text)) for text in texts) + 64 * len(message.tool_calls)
