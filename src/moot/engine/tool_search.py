"""tool_search: finds tools for which a request had no room, and loads them for the following steps of a conversation.

Which tools are loaded is not stored by itself: they are those that results of tool_search in the history name. So they
are the same after a restart, and an archived search no longer counts. `offer` decides which tools have room at first.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from moot.domain.message import Entry, Role
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.scope import TOOL_SEARCH
from moot.domain.tokens import BYTES_PER_TOKEN, tool_bytes

MOST_FOUND = 5
# The most tools that are loaded at a time; the ones that were found first make room.
_MOST_LOADED = 20
# The share of the window for loaded tools (one sixth), besides the third for those that are always offered.
_SHARE = 6
_MOST_NAMED = 60
_SHOWN_DESCRIPTION = 200
# A word in the name of a tool says more than one in its description.
_NAME_WEIGHT = 4.0
_WORD = re.compile(r"[a-z0-9]+")


class _FoundTool(msgspec.Struct):
    name: str
    description: str = ""


class _Found(msgspec.Struct):
    """The result of a search, as it is in the history."""

    loaded: list[_FoundTool]


class ToolSearch:
    spec = ToolSpec(
        name=TOOL_SEARCH,
        safety=Safety.SAFE,
        group="conversation",
        repeatable=True,
        description="There are more tools than are listed. Find those for a purpose by words, such as `github issue`, "
        "and load them; they can be called from the next step on.",
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What the tool should do, or its name."}},
            "required": ["query"],
        },
    )

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        found = search_tools(context.loadable, arguments["query"])
        if not found:
            names = ", ".join(spec.name for spec in context.loadable[:_MOST_NAMED]) or "none"
            return ToolResult(content=f"No other tool matches. There are: {names}.", is_error=True)
        loaded = [_FoundTool(spec.name, spec.description[:_SHOWN_DESCRIPTION]) for spec in found]
        return ToolResult(content=msgspec.json.encode(_Found(loaded)).decode())

    def line(self, arguments: dict[str, Any]) -> str:
        return f"find a tool: {arguments.get('query', '')}"


def search_tools(specs: Sequence[ToolSpec], query: str) -> list[ToolSpec]:
    """Return the tools that match best. A tool that is named is the best; rare words count more than common ones."""
    named = [spec for spec in specs if spec.name in query]
    wanted = set(_split_words(query))
    words = [_count_words(spec) for spec in specs]
    spread = Counter(word for counted in words for word in counted)
    scored = [
        (sum(counted[word] * math.log(1 + len(specs) / spread[word]) for word in wanted & counted.keys()), spec)
        for counted, spec in zip(words, specs, strict=True)
    ]
    ranked = [spec for score, spec in sorted(scored, key=lambda each: -each[0]) if score > 0]
    return list({spec.name: spec for spec in (*named, *ranked)}.values())[:MOST_FOUND]


def find_loaded(entries: Iterable[Entry]) -> list[str]:
    """Return the names of the tools that searches have loaded, oldest first; `entries` are at least the searches."""
    searches: set[str] = set()
    found: dict[str, None] = {}
    for entry in entries:
        message = entry.message
        if message.role is Role.ASSISTANT and not message.agent:
            searches |= {call.id for call in message.tool_calls if call.name == TOOL_SEARCH}
        elif message.tool_call_id in searches and not message.is_error:
            for name in _parse_names(message.content):
                # The newest search decides how long a tool stays.
                found.pop(name, None)
                found[name] = None
    return list(found)


def choose_loaded(left_out: Sequence[ToolSpec], names: Sequence[str], window: int) -> tuple[ToolSpec, ...]:
    """Return the loaded tools that have room, in the order in which they were found."""
    by_name = {spec.name: spec for spec in left_out}
    room = window // _SHARE * BYTES_PER_TOKEN if window else math.inf
    kept: list[ToolSpec] = []
    for name in reversed([name for name in names if name in by_name][-_MOST_LOADED:]):
        size = tool_bytes(by_name[name])
        if size <= room:
            room -= size
            kept.append(by_name[name])
    return tuple(reversed(kept))


def _parse_names(content: str) -> list[str]:
    try:
        return [each.name for each in msgspec.json.decode(content, type=_Found).loaded[:MOST_FOUND]]
    except msgspec.MsgspecError:
        return []


def _count_words(spec: ToolSpec) -> dict[str, float]:
    counted = dict.fromkeys(_split_words(spec.description), 1.0)
    return counted | dict.fromkeys(_split_words(spec.name.replace("_", " ")), _NAME_WEIGHT)


def _split_words(text: str) -> list[str]:
    # A plural finds its singular.
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in _WORD.findall(text.lower())]
