"""Shared by the tools on knowledge and learnings: the owner, specs, arguments and JSON."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.knowledge import KnowledgeReader
from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import KnowledgeStore, Learnings
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.senders import owner_of
from moot.domain.text import clean

LINE = 120
FOUND = 10

Arguments = dict[str, Any]


class KnowledgeCall(Struct, frozen=True):
    """One call: the stores, the time, and the run that calls."""

    knowledge: KnowledgeStore
    learnings: Learnings
    now: float
    context: RunContext

    @property
    def owner(self) -> str:
        """The sender whose knowledge it is: that of the conversation that the run belongs to, also for teammates."""
        return owner_of(self.context.asks_in.sender)

    @property
    def reader(self) -> KnowledgeReader:
        return KnowledgeReader(self.owner, self.context.speaker)


Run = Callable[[KnowledgeCall, Arguments], Awaitable[ToolResult]]


class KnowledgeTool:
    """A tool of which the work is a function of the call."""

    def __init__(
        self,
        spec: ToolSpec,
        line: Callable[[Arguments], str],
        run: Run,
        *,
        knowledge: KnowledgeStore,
        learnings: Learnings,
        clock: Clock,
    ) -> None:
        self.spec = spec
        self._line = line
        self._run = run
        self._knowledge = knowledge
        self._learnings = learnings
        self._clock = clock

    def line(self, arguments: Arguments) -> str:
        return self._line({name: str(value)[:LINE] for name, value in arguments.items()})

    async def __call__(self, arguments: Arguments, context: RunContext) -> ToolResult:
        return await self._run(KnowledgeCall(self._knowledge, self._learnings, self._clock.now(), context), arguments)


class ToolPlan(Struct, frozen=True):
    """A tool before it has stores to work on."""

    spec: ToolSpec
    line: Callable[[Arguments], str]
    run: Run

    def build(self, knowledge: KnowledgeStore, learnings: Learnings, clock: Clock) -> KnowledgeTool:
        return KnowledgeTool(self.spec, self.line, self.run, knowledge=knowledge, learnings=learnings, clock=clock)


def make_spec(
    name: str,
    description: str,
    required: dict[str, Any],
    optional: dict[str, Any] | None = None,
    *,
    changes: bool = False,
) -> ToolSpec:
    """Return the spec of a tool; a parameter given as a text is a string with that description."""
    given = {**required, **(optional or {})}
    properties = {
        each: {"type": "string", "description": described} if isinstance(described, str) else described
        for each, described in given.items()
    }
    return ToolSpec(
        name=name,
        description=description,
        safety=Safety.MODERATE if changes else Safety.SAFE,
        group="knowledge",
        deferred=True,
        in_order=changes,
        repeatable=True,
        fine=frozenset(optional or ()),
        parameters={"type": "object", "properties": properties, "required": list(required)},
    )


def one_of(names: Iterable[str], description: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(names), "description": description}


def get_text(arguments: Arguments, name: str) -> str:
    return clean(str(arguments.get(name) or "")).strip()


def get_tags(arguments: Arguments) -> tuple[str, ...]:
    tags = (" ".join(clean(str(tag)).split()) for tag in arguments.get("tags") or ())
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def join_taint(taints: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*taints)


def answer(data: dict[str, Any], taint: frozenset[str] = frozenset()) -> ToolResult:
    return ToolResult(content=msgspec.json.encode(data).decode(), taint=taint)
