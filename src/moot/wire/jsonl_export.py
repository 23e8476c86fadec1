"""Writes a conversation as JSON lines, in the format that `jsonl` reads. Pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from moot.domain.conversation import Archive, Conversation, StoppedTurn
from moot.domain.message import Entry, Role, ToolCall, begins_turn
from moot.domain.text import clean

LATEST = 2.0**37

_Line = dict[str, Any]


def export_lines(
    conversation: Conversation,
    entries: Sequence[Entry],
    archives: Sequence[Archive],
    stopped: Sequence[StoppedTurn] = (),
) -> str:
    """Return the whole conversation, also archived messages, as text.

    Importing the text and exporting it again gives the same text, except for the working directory, which is not
    imported.
    """
    return _join_lines([_make_facts_line(conversation), *_make_message_lines(conversation, entries, archives, stopped)])


def export_part(
    conversation: Conversation,
    entries: Sequence[Entry],
    archives: Sequence[Archive],
    stopped: Sequence[StoppedTurn] = (),
) -> str:
    """Return a part of that text; all parts of a conversation in order are the whole text.

    `stopped` begins with the turn that the first entry belongs to.
    """
    first, last = (entries[0].seq, entries[-1].seq) if entries else (1, 0)
    inside = [archive for archive in archives if first <= archive.last_seq <= last]
    if first == 1:
        return export_lines(conversation, entries, inside, stopped)
    return _join_lines(_make_message_lines(conversation, entries, inside, stopped))


def _make_message_lines(
    conversation: Conversation,
    entries: Sequence[Entry],
    archives: Sequence[Archive],
    stopped: Sequence[StoppedTurn],
) -> Iterator[_Line]:
    trusted = conversation.trusted_seq
    stops = _find_stops(entries, {turn.user_seq: _make_stop_fields(turn, conversation.key.agent) for turn in stopped})
    waiting = list(archives)
    for entry in entries:
        while waiting and waiting[0].last_seq < entry.seq:
            archive = waiting.pop(0)
            yield _make_marker_line(archive) | _make_taint_fields(archive.taint, archive.last_seq > trusted)
        yield (
            _make_message_line(entry)
            | stops.get(entry.seq, {})
            | _make_taint_fields(entry.message.taint, entry.seq > trusted)
        )
    for archive in waiting:
        yield _make_marker_line(archive) | _make_taint_fields(archive.taint, archive.last_seq > trusted)


def _find_stops(entries: Sequence[Entry], stops: dict[int, _Line]) -> dict[int, _Line]:
    """Return the fields of all messages whose turn ended without an answer, also of those that steered its run.

    `stops` has them by the first message of the turn. That of the first entry may precede it.
    """
    found: dict[int, _Line] = {}
    first = min(stops, default=0)
    # A turn that begins later says nothing about the turn of the first entry.
    fields = stops[first] if entries and 0 < first < entries[0].seq else {}
    before = entries[0] if entries else None
    for entry in entries:
        if begins_turn(entry, before) or entry.seq in stops:
            fields = stops.get(entry.seq, {})
        if entry.message.role is Role.USER:
            found[entry.seq] = fields
        before = entry
    return found


def _make_stop_fields(turn: StoppedTurn, primary: str) -> _Line:
    """Return how the turn of a message ended without an answer, and its speaker if that was a guest."""
    line: _Line = {"outcome": turn.outcome}
    return line if turn.speaker == primary else line | {"speaker": clean(turn.speaker)}


def _make_taint_fields(taint: frozenset[str], counts: bool) -> _Line:
    """Return the taint of a line; none if the owner has marked it as trusted."""
    return {"taint": sorted(taint)} if taint and counts else {}


def _join_lines(lines: Iterable[_Line]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)


def _make_facts_line(conversation: Conversation) -> _Line:
    line: _Line = {
        "agent": clean(conversation.key.agent),
        "created_by": clean(conversation.key.sender),
        "created_at": _format_time(conversation.created_at),
        "title": clean(conversation.title),
        "uptime_secs": max(0, round(conversation.updated_at - conversation.created_at)),
    }
    if conversation.cwd:
        line["cwd"] = clean(conversation.cwd)
    return line


def _make_message_line(entry: Entry) -> _Line:
    message = entry.message
    line: _Line = {"role": message.role.value, "content": clean(message.content)}
    if message.agent:
        line["agent"] = clean(message.agent)
    if message.tool_calls:
        line["tool_calls"] = [
            {"id": clean(call.id), "type": "function", "function": _make_function_fields(call)}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        line["tool_call_id"] = clean(message.tool_call_id)
    if message.is_error:
        line["is_error"] = True
    if message.is_private:
        line["private"] = True
    if message.thinking:
        # Without the signature: a provider rejects one that it did not make for exactly this request.
        line["thinking"] = [clean(thinking.text) for thinking in message.thinking]
    line["created_at"] = _format_time(entry.created_at)
    return line


def _make_function_fields(call: ToolCall) -> _Line:
    return {"name": clean(call.name), "arguments": clean(call.arguments)}


def _make_marker_line(archive: Archive) -> _Line:
    line: _Line = {
        "compact": clean(archive.summary),
        "title": clean(archive.title),
        "archived_at": _format_time(archive.archived_at),
    }
    if archive.is_closed:
        line["closed"] = True
    if archive.resumed:
        line["resumed"] = archive.resumed
    return line


def _format_time(seconds: float) -> str:
    # The clock may have been far off when this was stored.
    return datetime.fromtimestamp(min(max(seconds, 0.0), LATEST - 1), UTC).isoformat().replace("+00:00", "Z")
