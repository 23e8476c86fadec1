"""The `recall` tool: searches a conversation's archives and the agent's own memory, and reads on in a message."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from moot.domain.conversation import Passage, Recollection
from moot.domain.errors import BadRequest
from moot.domain.memory import Memory
from moot.domain.message import Message, Role
from moot.domain.ports.agent_data import Memories
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.text import clean, defuse
from moot.tools.memory import Owner

_FOUND = 5
_MOST_FOUND = 20
# Characters of a message returned at once.
_READ = 4_000
_LINE = 120


class Recall:
    """Quotes every line of stored text with `> `, so that it cannot imitate the tool's own output."""

    spec = ToolSpec(
        name="recall",
        safety=Safety.SAFE,
        group="conversation",
        description="Search your memory: what was said in this conversation before it was summarised, and what you "
        "saved. Each result quotes the passage that matches. To read more of a message, pass its number and an offset.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words that were probably used."},
                "limit": {"type": "integer", "description": f"How many results at most; {_FOUND} if not given."},
                "message": {"type": "integer", "description": "Read this message instead of searching."},
                "offset": {"type": "integer", "description": "The character of the message to read from."},
            },
        },
        fine=frozenset({"limit"}),
    )

    def __init__(
        self, store: Store, clock: Clock, redact: Callable[[str], str], *, memories: Memories, owner: Owner
    ) -> None:
        self._store = store
        self._clock = clock
        self._redact = redact
        self._memories = memories
        self._owner = owner

    def line(self, arguments: dict[str, Any]) -> str:
        if arguments.get("message"):
            return f"read message {arguments['message']}"
        return f"recall {str(arguments.get('query', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str | ToolResult:
        if arguments.get("message"):
            return await self._read(int(arguments["message"]), int(arguments.get("offset") or 0), context)
        query = clean(str(arguments.get("query") or ""))
        if not query.strip():
            raise BadRequest("the query is empty", fix="Pass words to search for, or the number of a message to read.")
        limit = max(1, min(_MOST_FOUND, int(arguments.get("limit") or _FOUND)))
        return await self._search(query, limit, context)

    async def _search(self, query: str, limit: int, context: RunContext) -> str | ToolResult:
        now = self._clock.now()
        found = await self._store.recall(context.key, query, limit=limit, now=now)
        saved = await self._memories.recall(self._owner(context), query, limit=limit, now=now)
        if not found and not saved:
            return "Nothing in the archives or in your memory matches."
        blocks = [self._archive(each, primary=context.key.agent) for each in found]
        blocks += map(self._memory, saved)
        taint = frozenset().union(*map(_collect_taint, found), *(memory.taint for memory in saved))
        return ToolResult(content="\n\n".join(blocks), taint=taint)

    async def _read(self, seq: int, offset: int, context: RunContext) -> str | ToolResult:
        entries = await self._store.list_entries(context.key, first=seq, last=seq) if seq > 0 else []
        if not entries:
            raise BadRequest(f"there is no message {seq} in this conversation", fix="Search for it with a query first.")
        message = entries[0].message
        text = self._redact(message.content)
        if not 0 <= offset <= len(text):
            raise BadRequest(f"message {seq} has {len(text)} characters", fix="Pass a smaller offset.")
        lines = _quote_message(
            seq, _speaker(message, context.key.agent), text, (offset, min(len(text), offset + _READ))
        )
        return ToolResult(content="\n".join(lines), taint=message.taint)

    def _archive(self, found: Recollection, *, primary: str) -> str:
        archive = found.archive
        summary, (start, end) = self._within(archive.summary, found.summary_span)
        lines = [f"Archive {archive.number} of {_day(archive.archived_at)}: {_on_one_line(archive.title)}", "Summary:"]
        lines += _quote(_elide(summary, start, end))
        for passage in found.passages:
            lines += self._passage(passage, primary)
        return "\n".join(lines)

    def _passage(self, passage: Passage, primary: str) -> Iterator[str]:
        """The passage with its author, which summaries often lose."""
        message = passage.entry.message
        text, span = self._within(message.content, (passage.start, passage.end))
        return _quote_message(passage.entry.seq, _speaker(message, primary), text, span)

    def _memory(self, memory: Memory) -> str:
        head = f"Memory ({memory.kind}) of {_day(memory.updated_at)}: {_on_one_line(self._redact(memory.key))}"
        return "\n".join([head, *_quote(self._redact(memory.content))])

    def _within(self, text: str, span: tuple[int, int]) -> tuple[str, tuple[int, int]]:
        """The redacted text and the position of the span in it. Cutting first could leave part of a secret."""
        start, end = span
        cleaned = self._redact(text)
        if cleaned == text:
            return text, span
        moved = min(len(self._redact(text[:start])), len(cleaned))
        return cleaned, (moved, min(len(cleaned), moved + end - start))


def _collect_taint(found: Recollection) -> frozenset[str]:
    return found.archive.taint.union(*(entry.message.taint for entry in found.entries))


def _quote_message(seq: int, speaker: str, text: str, span: tuple[int, int]) -> Iterator[str]:
    start, end = span
    whole = end - start == len(text)
    yield f"Message {seq} by {speaker}" + (":" if whole else f", characters {start} to {end} of {len(text)}:")
    yield from _quote(text[start:end])
    if end < len(text):
        yield f"To read on: recall with message {seq} and offset {end}."


def _elide(text: str, start: int, end: int) -> str:
    return ("… " if start else "") + text[start:end] + (" …" if end < len(text) else "")


def _quote(text: str) -> Sequence[str]:
    return [f"> {line}" for line in defuse(text).splitlines()] or ["> "]


def _speaker(message: Message, primary: str) -> str:
    if message.agent:
        return _on_one_line(message.agent)
    return {Role.ASSISTANT: primary, Role.TOOL: "a tool"}.get(message.role, "the user")


def _on_one_line(text: str) -> str:
    return defuse(" ".join(text.split()))


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
