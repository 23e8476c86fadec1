"""Reads conversations from JSON lines. Pure. `jsonl_export` writes them.

The format is that of the agent-first protocol. Older forms are read as well: markers without title and time, markers
that name an archive stored elsewhere, a message inside an envelope, and lines of events between messages.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import Archive, Conversation, ConversationKey, StoppedTurn
from moot.domain.errors import BadRequest
from moot.domain.mail import MAIL_AUTHOR, is_mail_text
from moot.domain.message import Message, Role, Thinking, ToolCall, injected_message, tool_result, user
from moot.domain.run import Outcome
from moot.domain.task_notification import TASK_AUTHOR, list_notifications_in
from moot.domain.text import clean
from moot.domain.title import clip_title, title_of
from moot.wire.jsonl_export import LATEST
from moot.wire.strict_json import strict_object

NO_RESULT = "The call was interrupted: the imported file has no result for it."

MAX_LINES = 100_000
MAX_CALLS = 256
MAX_SKIPPED = 1000

_Line = dict[str, Any]
_NAME_LENGTH = 64
# The sources of untrusted text in a line: a few short names.
_TAINT = re.compile(r"[a-z0-9_-]{1,32}")
_MOST_TAINTS = 16
# The characters that not every provider accepts in the name of a tool.
_NOT_IN_TOOL_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_STOPPED_OUTCOMES = frozenset(outcome.value for outcome in Outcome) - {Outcome.COMPLETED.value}


class ImportedConversation(Struct, frozen=True, kw_only=True):
    """The contents of a file. `skipped` says which lines could not be used, and why."""

    conversation: Conversation
    messages: tuple[tuple[Message, float], ...]
    archives: tuple[Archive, ...]
    # The turns that ended without an answer. An empty speaker is the agent the conversation is with.
    stopped: tuple[StoppedTurn, ...]
    skipped: tuple[str, ...]


def import_lines(text: str, *, agent: str = "", sender: str = "") -> ImportedConversation:
    """Read a file from an untrusted source. A given agent or sender replaces that of the file."""
    reader = _Reader(agent, sender)
    for number, line in _parse_objects(text, reader.skipped):
        reader.read(number, line)
    return reader.finish()


def _parse_objects(text: str, skipped: list[str]) -> Iterator[tuple[int, _Line]]:
    # Only \n ends a line: text may contain any other separator.
    rows = text.removeprefix("\ufeff").split("\n")
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            line = json.loads(row)
        except (ValueError, RecursionError):
            torn = number == len(rows)
            _skip(skipped, number, "cut off before its end" if torn else "not JSON")
            continue
        if isinstance(line, dict):
            yield number, line
        else:
            _skip(skipped, number, "not a JSON object")


def _skip(skipped: list[str], number: int, reason: str) -> None:
    """Record which line was left out, and why; the number of records is limited."""
    if len(skipped) < MAX_SKIPPED:
        skipped.append(f"line {number}: {reason}")
    elif len(skipped) == MAX_SKIPPED:
        skipped.append(f"line {number} and perhaps others behind it")


class _Reader:
    """Builds a valid history line by line: every call gets a result, and no line can claim to be the daemon's."""

    def __init__(self, agent: str, sender: str) -> None:
        self.skipped: list[str] = []
        self._agent = agent
        # The agent of the file: lines without a name are by it, also if another agent continues the conversation.
        self._file_agent = ""
        self._sender = sender
        self._facts: _Line | None = None
        self._created_at = 0.0
        self._messages: list[tuple[Message, float]] = []
        self._archives: list[Archive] = []
        self._stopped: list[StoppedTurn] = []
        self._lines = 0
        self._ids = _CallIds()
        # By the id that a result names: the ids of the calls that have no result yet. A file may use an id twice.
        self._open_calls: dict[str, list[str]] = {}

    def read(self, number: int, line: _Line) -> None:
        if "compact" in line or "archive_name" in line:
            self._read_marker(number, line)
        elif "event" in line or line.get("auto_injected") is True:
            return
        elif isinstance(line.get("message"), dict):
            self._read_message(number, {**line["message"], "agent": line.get("agent") or line["message"].get("agent")})
        elif "role" in line:
            self._read_message(number, line)
        elif "agent" in line or "created_by" in line:
            self._read_facts(number, line)
        else:
            _skip(self.skipped, number, "neither a message nor a marker")

    def finish(self) -> ImportedConversation:
        self._close_calls()
        facts = self._facts or {}
        key = ConversationKey(self._agent, self._sender or _as_text(facts.get("created_by")))
        if not key.agent:
            raise BadRequest(
                "the file does not say which agent it was with", fix="Name the agent: moot import --agent AGENT FILE."
            )
        uptime = facts.get("uptime_secs")
        lasted = float(uptime) if isinstance(uptime, int) and 0 <= uptime < 2**40 else 0.0
        conversation = Conversation(
            key=key,
            # Without the working directory of the file: tools would work there although nobody here has chosen it.
            title=clip_title(_as_text(facts.get("title"))),
            created_at=self._created_at,
            updated_at=min(self._created_at + lasted, LATEST),
            last_seq=len(self._messages),
            message_count=len(self._messages),
            archive_count=len(self._archives),
        )
        return ImportedConversation(
            conversation=conversation,
            messages=tuple(self._messages),
            archives=tuple(self._archives),
            stopped=tuple(self._stopped),
            skipped=tuple(self.skipped),
        )

    def _read_facts(self, number: int, line: _Line) -> None:
        if self._facts is not None or self._messages or self._archives:
            _skip(self.skipped, number, "a second line of facts")
            return
        self._facts = line
        self._file_agent = _as_text(line.get("agent"))
        self._agent = self._agent or self._file_agent
        self._created_at = _parse_time(line.get("created_at"), 0.0)

    def _read_message(self, number: int, line: _Line) -> None:
        self._count_line()
        reason = self._add(line)
        if reason:
            _skip(self.skipped, number, reason)

    def _add(self, line: _Line) -> str:
        """Add a message. Return why it cannot be added, or ""."""
        role, content = line.get("role"), _parse_content(line.get("content"))
        at = _parse_time(line.get("created_at"), self._last_time())
        if role == Role.TOOL:
            return self._add_result(line, content, at)
        if role not in (Role.USER, Role.ASSISTANT, Role.INJECTED):
            # System messages were made for one run; the daemon writes its own.
            return f"role {_as_text(role)[:_NAME_LENGTH] or '?'} has no place in a history"
        self._close_calls()
        if role == Role.USER:
            if not content.strip():
                return "an empty message"
            self._messages.append((user(content, author=_parse_author(line, content), taint=_parse_taint(line)), at))
            self._add_stop(line)
            return ""
        if role == Role.INJECTED and content.strip():
            self._messages.append(
                (injected_message(content, author=_parse_author(line, content), taint=_parse_taint(line)), at)
            )
            return ""
        waiting: dict[str, list[str]] = {}
        calls = self._parse_calls(line.get("tool_calls"), waiting)
        if not content.strip() and not calls:
            return "an empty message"
        message = Message(
            role=Role.ASSISTANT,
            content=content,
            agent=self._parse_speaker(line.get("agent")),
            tool_calls=calls,
            thinking=_parse_thinking(line),
            taint=_parse_taint(line),
            is_private=line.get("private") is True,
        )
        self._messages.append((message, at))
        self._open_calls = waiting
        return ""

    def _add_stop(self, line: _Line) -> None:
        """Record that the newest message was not answered. A file can say nothing else about a run."""
        outcome = line.get("outcome")
        if isinstance(outcome, str) and outcome in _STOPPED_OUTCOMES:
            speaker = self._parse_speaker(line.get("speaker"))
            self._stopped.append(StoppedTurn(user_seq=len(self._messages), speaker=speaker, outcome=outcome))

    def _add_result(self, line: _Line, content: str, at: float) -> str:
        waiting = self._open_calls.get(_as_text(line.get("tool_call_id")))
        if not waiting:
            return "a tool result without its call"
        call_id = waiting.pop(0)
        # Only mail and notifications have an author here; the result of a tool has none.
        author = _parse_author(line, content)
        author = author if author in (MAIL_AUTHOR, TASK_AUTHOR) else ""
        result = tool_result(call_id, content, is_error=line.get("is_error") is True, author=author)
        self._messages.append((replace(result, taint=_parse_taint(line)), at))
        return ""

    def _read_marker(self, number: int, line: _Line) -> None:
        self._count_line()
        self._close_calls()
        is_closed, resumed = line.get("closed") is True, line.get("resumed")
        name = _as_text(line.get("archive_name")).strip() or "unnamed"
        summary, title = _as_text(line.get("compact")), _as_text(line.get("title"))
        if not summary.strip() and not is_closed:
            # The summary is in another file; only its name is known here.
            summary, title = f"[archived context unavailable: {name}]", title or name
        at = _parse_time(line.get("archived_at"), self._last_time())
        first = self._archives[-1].last_seq + 1 if self._archives else 1
        if first > len(self._messages) and not summary.strip():
            _skip(self.skipped, number, "a marker without messages")
            return
        if first > len(self._messages):
            # The file begins with a summary of messages that it lacks; an archive needs at least one message.
            self._messages.append((replace(user(summary), taint=_parse_taint(line)), at))
        archive = Archive(
            number=len(self._archives) + 1,
            first_seq=first,
            last_seq=len(self._messages),
            title=clip_title(title) or title_of(summary) or "untitled",
            summary=summary,
            archived_at=at,
            taint=_parse_taint(line),
            is_closed=is_closed,
            resumed=resumed if is_closed and type(resumed) is int and 0 < resumed <= len(self._archives) + 1 else 0,
        )
        self._archives.append(archive)

    def _close_calls(self) -> None:
        at = self._last_time()
        left = (call_id for waiting in self._open_calls.values() for call_id in waiting)
        self._messages.extend((tool_result(call_id, NO_RESULT, is_error=True), at) for call_id in left)
        self._open_calls = {}

    def _count_line(self) -> None:
        self._lines += 1
        if self._lines > MAX_LINES:
            raise BadRequest(
                f"the file has more than {MAX_LINES} messages and markers",
                fix="Cut it into several files, each for another sender.",
            )

    def _parse_calls(self, value: object, waiting: dict[str, list[str]]) -> tuple[ToolCall, ...]:
        """Return the calls of one message, given in `function` or directly."""
        items = value if isinstance(value, list) else []
        if len(items) > MAX_CALLS:
            raise BadRequest(
                f"a message of the file has more than {MAX_CALLS} tool calls", fix="Take that message out of the file."
            )
        calls: list[ToolCall] = []
        for index, item in enumerate(items):
            inner = item.get("function") if isinstance(item, dict) else None
            function = inner if isinstance(inner, dict) else item
            name = _as_text(function.get("name")) if isinstance(function, dict) else ""
            if not name:
                continue
            given = _as_text(item.get("id")) or f"imported-{len(self._messages)}-{index}"
            call_id = self._ids.make_unique(given)
            waiting.setdefault(given, []).append(call_id)
            name = _NOT_IN_TOOL_NAME.sub("_", name[:_NAME_LENGTH])
            calls.append(ToolCall(id=call_id, name=name, arguments=_parse_arguments(function.get("arguments"))))
        return tuple(calls)

    def _last_time(self) -> float:
        return self._messages[-1][1] if self._messages else self._created_at

    def _parse_speaker(self, value: object) -> str:
        """Return the agent that wrote the line; empty if it is the one that the conversation is imported for."""
        name = _clean_name(_as_text(value) or self._file_agent)
        return "" if name == self._agent else name


def _parse_author(line: _Line, content: str) -> str:
    """Return the author of a user message. Text that only pretends to be mail or a notification has none."""
    author = _as_text(line.get("agent"))
    if author == MAIL_AUTHOR:
        return author if is_mail_text(content) else ""
    if author == TASK_AUTHOR:
        return author if list_notifications_in(content) else ""
    return _clean_name(author)


def _clean_name(given: str) -> str:
    """Return an agent's name without characters that could end the mark in which it is written."""
    name = "".join(c for c in given if c.isalnum() or c in "-_.")[:_NAME_LENGTH]
    return "unknown" if given and not name else name


def _parse_taint(line: _Line) -> frozenset[str]:
    """Return the taint that the line names. It may be incomplete, so the daemon adds its own."""
    value = line.get("taint")
    names = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
    return frozenset([name for name in names if _TAINT.fullmatch(name)][:_MOST_TAINTS])


def _as_text(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


def _parse_content(value: object) -> str:
    """Return a text, or the joined text parts of a message that has parts."""
    if not isinstance(value, list):
        return _as_text(value)
    parts = (part.get("text") if isinstance(part, dict) else part for part in value)
    return "\n".join(_as_text(part) for part in parts if isinstance(part, str))


class _CallIds:
    """Makes the ids of calls unique: a provider rejects a history that has one twice."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def make_unique(self, given: str) -> str:
        made, number = given, self._next.get(given, 2)
        while made in self._used:
            made, number = f"{given}-{number}", number + 1
        self._used.add(made)
        self._next[given] = number
        return made


def _parse_arguments(value: object) -> str:
    """Return the arguments as the text of a JSON object: a provider rejects a history with anything else."""
    text = _as_text(value)
    try:
        if isinstance(value, dict):
            text = json.dumps(value)
        return strict_object(text) if text else "{}"
    except (ValueError, RecursionError):
        return json.dumps({"unreadable": text}, ensure_ascii=False)


def _parse_thinking(line: _Line) -> tuple[Thinking, ...]:
    value = line.get("thinking", line.get("reasoning_content"))
    items = value if isinstance(value, list) else [value]
    texts = (_as_text(item.get("text") if isinstance(item, dict) else item) for item in items)
    return tuple(Thinking(text=text) for text in texts if text)


def _parse_time(value: object, fallback: float) -> float:
    """Parse a time given as ISO 8601 or in seconds since the epoch; return the fallback if it is neither."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            value = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return fallback
    if isinstance(value, (int, float)) and 0 <= value < LATEST:
        return float(value)
    return fallback
