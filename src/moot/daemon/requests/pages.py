"""Limits how much of a history goes into one answer. Pure."""

import json
from collections.abc import Sequence

from moot.domain.message import Entry, Message

# A page of a history; with what it is wrapped in, well below the largest frame.
PAGE_BYTES = 6 * 1024 * 1024


def take_page(entries: Sequence[Entry], first_seq: int) -> tuple[Sequence[Entry], int]:
    """The entries from first_seq on that fit into one answer, and the number of the next one, 0 at the end."""
    wanted = [entry for entry in entries if entry.seq >= first_seq] if first_seq else entries
    used = 0
    for index, entry in enumerate(wanted):
        used += _message_size(entry.message) + 256
        if used > PAGE_BYTES and index:
            return wanted[:index], entry.seq
    return wanted, 0


def _message_size(message: Message) -> int:
    """The bytes of a message where it takes most of them: as JSON, where a control character becomes six."""
    texts = [message.content, message.agent, message.tool_call_id, *(each.text for each in message.thinking)]
    for call in message.tool_calls:
        texts += (call.id, call.name, call.arguments)
    return sum(len(json.dumps(text, ensure_ascii=False).encode()) for text in texts) + 64 * len(message.tool_calls)
