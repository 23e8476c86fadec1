"""The memory tools of an agent: save, recall, forget. They use the memories port."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from moot.domain.config import MemoryConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest
from moot.domain.memory import Memory, MemoryKind, check_sizes, clamp, find_memory_owner, kind_of
from moot.domain.ports.agent_data import Memories
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.text import clean, normalize_name

_FOUND = 10
_MOST_FOUND = 50
_LINE = 120


def tools(
    *, memories: Memories, config: Callable[[], MemoryConfig], lasting: Callable[[], bool], clock: Clock
) -> list[Tool]:
    """Build the memory tools. `lasting`: whether teammates keep memories from one run to the next."""
    owner = Owner(lasting)
    return [
        MemorySave(memories, owner, config, clock),
        MemoryRecall(memories, owner, clock),
        MemoryForget(memories, owner),
    ]


class Owner:
    """The owner of the memories of a run, as the configuration is now."""

    def __init__(self, lasting: Callable[[], bool]) -> None:
        self._lasting = lasting

    def __call__(self, context: RunContext) -> ConversationKey:
        return find_memory_owner(context.speaker, context.key, context.asks_in, is_lasting=self._lasting())


class MemorySave:
    spec = ToolSpec(
        name="memory_agent_save",
        safety=Safety.MODERATE,
        group="memory",
        description="Remember something about this person or this work for later conversations. "
        "A key that exists is overwritten.",
        parameters={
            "type": "object",
            "properties": {
                "key": {"type": "string", "description": "A short name to find and overwrite it by."},
                "content": {"type": "string", "description": "What to remember, in full sentences."},
                "kind": {"type": "string", "enum": list(MemoryKind), "description": "Default: fact."},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags to find it by."},
                "confidence": {"type": "number", "description": "Confidence from 0 to 1; default 0.5."},
            },
            "required": ["key", "content"],
        },
    )

    def __init__(self, memories: Memories, owner: Owner, config: Callable[[], MemoryConfig], clock: Clock) -> None:
        self._memories = memories
        self._owner = owner
        self._config = config
        self._clock = clock

    def line(self, arguments: dict[str, Any]) -> str:
        return f"remember {arguments.get('key', '')}: {str(arguments.get('content', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        key, content = _normalize_key(arguments["key"]), clean(str(arguments["content"]))
        tags = _parse_tags(arguments.get("tags"))
        check_sizes(key, content, tags)
        confidence = arguments.get("confidence")
        memory = Memory(
            key=key,
            content=content,
            kind=kind_of(str(arguments.get("kind") or MemoryKind.FACT)),
            tags=tags,
            confidence=0.5 if confidence is None else clamp(confidence),
            taint=context.taint,
        )
        new = await self._memories.save(
            self._owner(context), memory, max_entries=self._config().max_entries, now=self._clock.now()
        )
        message = f"{key} is remembered." if new else f"{key} was overwritten."
        return _to_json(status="saved", key=key, agent=context.speaker, message=message)


class MemoryRecall:
    spec = ToolSpec(
        name="memory_agent_recall",
        safety=Safety.SAFE,
        group="memory",
        description="Search what you saved in your memory about this person and this work.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words that it probably contains."},
                "limit": {"type": "integer", "description": f"How many at most; {_FOUND} if not given."},
                "kind": {"type": "string", "enum": list(MemoryKind), "description": "Only memories of this kind."},
            },
            "required": ["query"],
        },
    )

    def __init__(self, memories: Memories, owner: Owner, clock: Clock) -> None:
        self._memories = memories
        self._owner = owner
        self._clock = clock

    def line(self, arguments: dict[str, Any]) -> str:
        return f"search memory for {str(arguments.get('query', ''))[:_LINE]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        kind = str(arguments.get("kind") or "")
        found = await self._memories.recall(
            self._owner(context),
            clean(str(arguments["query"])),
            limit=max(1, min(_MOST_FOUND, int(arguments.get("limit") or _FOUND))),
            kind=kind_of(kind) if kind else None,
            now=self._clock.now(),
        )
        content = _to_json(results=[_memory_data(memory) for memory in found], count=len(found), agent=context.speaker)
        return ToolResult(content=content, taint=frozenset().union(*(memory.taint for memory in found)))


class MemoryForget:
    spec = ToolSpec(
        name="memory_agent_forget",
        safety=Safety.MODERATE,
        group="memory",
        description="Delete a memory permanently.",
        parameters={
            "type": "object",
            "properties": {"key": {"type": "string", "description": "The key it was saved under."}},
            "required": ["key"],
        },
    )

    def __init__(self, memories: Memories, owner: Owner) -> None:
        self._memories = memories
        self._owner = owner

    def line(self, arguments: dict[str, Any]) -> str:
        return f"forget {arguments.get('key', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        key = _normalize_key(arguments["key"])
        was_there = await self._memories.forget(self._owner(context), key)
        message = f"{key} is forgotten." if was_there else f"There is no memory {key}."
        return _to_json(status="forgotten", key=key, agent=context.speaker, message=message)


def _normalize_key(value: Any) -> str:
    """Return a key as it is stored."""
    key = normalize_name(str(value))
    if not key:
        raise BadRequest("the key is empty", fix="Give the memory a short name.")
    return key


def _parse_tags(value: Any) -> tuple[str, ...]:
    tags = (" ".join(clean(str(tag)).split()) for tag in value or ())
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def _memory_data(memory: Memory) -> dict[str, Any]:
    return {
        "key": memory.key,
        "kind": memory.kind,
        "content": memory.content,
        "tags": memory.tags,
        "confidence": memory.confidence,
        "use_count": memory.uses,
        "created_at": datetime.fromtimestamp(memory.created_at, UTC).isoformat(timespec="seconds"),
        "updated_at": datetime.fromtimestamp(memory.updated_at, UTC).isoformat(timespec="seconds"),
    }


def _to_json(**fields: Any) -> str:
    return msgspec.json.encode(fields).decode()
