"""Writes a conversation as JSON lines, in the format that `jsonl` reads. Pure."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from moot.domain.conversation import Archive, Conversation, StoppedTurn
from moot.domain.message import Entry, ToolCall
from moot.domain.text import clean

LATEST = 2.0**37

_Line = dict[str, Any]


def export_lines(
    conversation: Conversation,
    entries: Sequence[Entry],
    archives: Sequence[Archive],
    stopped: Sequence[StoppedTurn] = (),
) -> str:
    """The whole conversation, archived messages too. Reading it back and writing it again gives the same text,
    but for the folder: that is for whoever reads it to choose.
    """
    return _join_lines([_facts_line(conversation), *_message_lines(conversation, entries, archives, stopped)])


def export_part(
    conversation: Conversation,
    entries: Sequence[Entry],
    archives: Sequence[Archive],
    stopped: Sequence[StoppedTurn] = (),
) -> str:
    """A part of the same text: the parts of a conversation, put together in order, are the whole."""
    first, last = (entries[0].seq, entries[-1].seq) if entries else (1, 0)
    inside = [archive for archive in archives if first <= archive.last_seq <= last]
    if first == 1:
        return export_lines(conversation, entries, inside, stopped)
    return _join_lines(_message_lines(conversation, entries, inside, stopped))


def _message_lines(
    conversation: Conversation,
    entries: Sequence[Entry],
    archives: Sequence[Archive],
    stopped: Sequence[StoppedTurn],
) -> Iterator[_Line]:
    trusted = conversation.trusted_seq
    stops = {turn.user_seq: _stop_fields(turn, conversation.key.agent) for turn in stopped}
    waiting = list(archives)
    for entry in entries:
        while waiting and waiting[0].last_seq < entry.seq:
            archive = waiting.pop(0)
            yield _marker_line(archive) | _taint_fields(archive.taint, archive.last_seq > trusted)
        yield _message_line(entry) | stops.get(entry.seq, {}) | _taint_fields(entry.message.taint, entry.seq > trusted)
    for archive in waiting:
        yield _marker_line(archive) | _taint_fields(archive.taint, archive.last_seq > trusted)


def _stop_fields(turn: StoppedTurn, primary: str) -> _Line:
    """How the turn of a message ended without an answer, and who was to answer where that was a guest."""
    line: _Line = {"outcome": turn.outcome}
    return line if turn.speaker == primary else line | {"speaker": clean(turn.speaker)}


def _taint_fields(strangers: frozenset[str], counts: bool) -> _Line:
    """The strangers whose words a line holds. What its owner has trusted says nothing of them."""
    return {"taint": sorted(strangers)} if strangers and counts else {}


def _join_lines(lines: Iterable[_Line]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)


def _facts_line(conversation: Conversation) -> _Line:
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


def _message_line(entry: Entry) -> _Line:
    message = entry.message
    line: _Line = {"role": message.role.value, "content": clean(message.content)}
    if message.agent:
        line["agent"] = clean(message.agent)
    if message.tool_calls:
        line["tool_calls"] = [
            {"id": clean(call.id), "type": "function", "function": _function_fields(call)}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        line["tool_call_id"] = clean(message.tool_call_id)
    if message.is_error:
        line["is_error"] = True
    if message.is_private:
        line["private"] = True
    if message.thinking:
        # Without its signature: a provider refuses one it did not make for exactly this request.
        line["thinking"] = [clean(thinking.text) for thinking in message.thinking]
    line["created_at"] = _format_time(entry.created_at)
    return line


def _function_fields(call: ToolCall) -> _Line:
    return {"name": clean(call.name), "arguments": clean(call.arguments)}


def _marker_line(archive: Archive) -> _Line:
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
    # A clock may have been wrong by ages when this was stored.
    return datetime.fromtimestamp(min(max(seconds, 0.0), LATEST - 1), UTC).isoformat().replace("+00:00", "Z")
