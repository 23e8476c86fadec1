"""Tools on the conversation itself: its title, and what its archives remember."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from moot.domain.conversation import Recollection
from moot.domain.errors import BadRequest
from moot.domain.message import Entry
from moot.domain.ports import Clock, RunContext, Store, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.text import defuse
from moot.domain.title import TITLE_LENGTH

_EXCERPT = 600
_FOUND = 5


class SetTitle:
    spec = ToolSpec(
        name="set_title",
        safety=Safety.SAFE,
        group="conversation",
        description="Give this conversation a short title that a person will recognise in a list.",
        parameters={
            "type": "object",
            "properties": {"title": {"type": "string", "description": f"At most {TITLE_LENGTH} characters."}},
            "required": ["title"],
        },
    )

    def __init__(self, store: Store) -> None:
        self._store = store

    def line(self, arguments: dict[str, Any]) -> str:
        return f"title the conversation {arguments.get('title', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        title = " ".join(str(arguments["title"]).split())
        if not title:
            raise BadRequest("the title is empty")
        if len(title) > TITLE_LENGTH:
            raise BadRequest(f"the title has {len(title)} characters; at most {TITLE_LENGTH} are shown")
        await self._store.set_title(context.key, title)
        return f"The title is now: {title}"


def _strangers(found: Recollection) -> frozenset[str]:
    return found.archive.taint.union(*(entry.message.taint for entry in found.entries))


class Recall:
    spec = ToolSpec(
        name="recall",
        safety=Safety.SAFE,
        group="conversation",
        description="Search what was said in this conversation before it was summarised and put away.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words that were probably used."},
                "limit": {"type": "integer", "description": f"How many stretches at most; {_FOUND} if not given."},
            },
            "required": ["query"],
        },
    )

    def __init__(self, store: Store, clock: Clock, redact: Callable[[str], str]) -> None:
        self._store = store
        self._clock = clock
        self._redact = redact

    def line(self, arguments: dict[str, Any]) -> str:
        return f"recall {arguments.get('query', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str | ToolResult:
        limit = max(1, min(20, int(arguments.get("limit") or _FOUND)))
        found = await self._store.recall(context.key, str(arguments["query"]), limit=limit, now=self._clock.now())
        if not found:
            return "Nothing in the archives matches."
        told = "\n\n".join(self._told(recollection, primary=context.key.agent) for recollection in found)
        return ToolResult(content=told, taint=frozenset().union(*(_strangers(each) for each in found)))

    def _told(self, recollection: Recollection, *, primary: str) -> str:
        archive = recollection.archive
        day = datetime.fromtimestamp(archive.archived_at, UTC).strftime("%Y-%m-%d")
        lines = [f"## {defuse(archive.title)} (put away on {day})", defuse(archive.summary)]
        lines.extend(self._quotes(recollection.entries, primary=primary))
        return "\n".join(lines)

    def _quotes(self, entries: Sequence[Entry], *, primary: str) -> list[str]:
        """The matching messages, each with who said it: the attribution is what a summary loses first."""
        quotes: list[str] = []
        for entry in entries:
            message = entry.message
            speaker = message.agent or (primary if message.role == "assistant" else str(message.role))
            text = " ".join(self._redact(message.content).split())
            cut = f"{text[:_EXCERPT]} …" if len(text) > _EXCERPT else text
            quotes.append(f"- {speaker} said: {defuse(cut)}")
        return quotes
