"""Shared by the tools on the knowledge graph: the owner of the graph, arguments, and the JSON of facts."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.domain.graph import Conflict as FactConflict
from moot.domain.graph import Fact, NewFact, Period, Statement, check_confidence, check_source, normalize_id
from moot.domain.ontology import dump_fact, parse_validity
from moot.domain.ports.clock import Clock
from moot.domain.ports.graph import Graph
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.senders import owner_of

_LINE = 120

Arguments = dict[str, Any]


class GraphCall(Struct, frozen=True):
    """One call: the graph, the time, and the run that calls."""

    graph: Graph
    now: float
    context: RunContext

    @property
    def owner(self) -> str:
        """The sender whose graph it is: that of the conversation that the run belongs to, also for teammates."""
        return owner_of(self.context.asks_in.sender)

    @property
    def statement(self) -> Statement:
        return Statement(now=self.now, run_id=self.context.run_id, taint=self.context.taint)

    @property
    def today(self) -> Period:
        return Period(self.now, self.now)


class GraphTool:
    """A tool of which the work is a function of the call."""

    def __init__(
        self,
        spec: ToolSpec,
        line: Callable[[Arguments], str],
        run: Callable[[GraphCall, Arguments], Awaitable[ToolResult]],
        *,
        graph: Graph,
        clock: Clock,
    ) -> None:
        self.spec = spec
        self._line = line
        self._run = run
        self._graph = graph
        self._clock = clock

    def line(self, arguments: Arguments) -> str:
        return self._line({name: str(value)[:_LINE] for name, value in arguments.items()})

    async def __call__(self, arguments: Arguments, context: RunContext) -> ToolResult:
        return await self._run(GraphCall(self._graph, self._clock.now(), context), arguments)


class ToolPlan(Struct, frozen=True):
    """A tool before it has a graph to work on."""

    spec: ToolSpec
    line: Callable[[Arguments], str]
    run: Callable[[GraphCall, Arguments], Awaitable[ToolResult]]

    def build(self, graph: Graph, clock: Clock) -> GraphTool:
        return GraphTool(self.spec, self.line, self.run, graph=graph, clock=clock)


def make_spec(
    name: str,
    description: str,
    required: dict[str, str],
    optional: dict[str, dict[str, Any]] | None = None,
    *,
    changes: bool = False,
    repeatable: bool = True,
) -> ToolSpec:
    """Return the spec of a tool: required parameters are texts; one that `changes` the graph is not safe."""
    properties: dict[str, Any] = {each: {"type": "string", "description": text} for each, text in required.items()}
    return ToolSpec(
        name=name,
        description=description,
        safety=Safety.MODERATE if changes else Safety.SAFE,
        group="graph",
        deferred=True,
        in_order=changes,
        repeatable=repeatable,
        fine=frozenset(optional or ()),
        parameters={"type": "object", "properties": properties | (optional or {}), "required": list(required)},
    )


# ---- arguments ------------------------------------------------------------------------------------

CONFIDENCE = {"type": "number", "description": "From 0 to 1; default 0.8."}
VALID_FROM = {"type": "string", "description": "Since when it is true: a time or a day; default: now."}
VALID_TO = {"type": "string", "description": "Until when it is true: a time or a day; default: no end."}


def get_text(arguments: Arguments, name: str) -> str:
    return str(arguments.get(name) or "").strip()


def get_id(arguments: Arguments, name: str) -> str:
    return normalize_id(str(arguments.get(name) or ""), name)


def get_limit(arguments: Arguments, name: str, default: int, most: int) -> int:
    value = int(arguments.get(name) or default)
    if value < 1:
        raise BadRequest(f"{name} must be at least 1", fix=f"Leave it out for {default}.")
    return min(value, most)


def read_fact(arguments: Arguments) -> NewFact:
    confidence = arguments.get("confidence")
    new = NewFact(
        subject=get_id(arguments, "subject"),
        predicate=get_text(arguments, "predicate"),
        object=get_id(arguments, "object"),
        subject_type=get_text(arguments, "subject_type"),
        object_type=get_text(arguments, "object_type"),
        source=check_source(get_text(arguments, "source")),
        valid=parse_validity(get_text(arguments, "valid_from"), get_text(arguments, "valid_to")),
    )
    return new if confidence is None else msgspec.structs.replace(new, confidence=check_confidence(confidence))


# ---- results --------------------------------------------------------------------------------------


def dump_triple(fact: Fact) -> dict[str, Any]:
    return {
        "Subject": fact.subject,
        "Predicate": fact.predicate,
        "Object": fact.object,
        "SubjectType": fact.subject_type,
        "ObjectType": fact.object_type,
        "Metadata": dump_fact(fact),
    }


def dump_conflict(conflict: FactConflict) -> dict[str, Any]:
    return {
        "id": conflict.id,
        "subject": conflict.subject,
        "predicate": conflict.predicate,
        "facts": [dump_triple(fact) for fact in conflict.facts],
    }


def join_taint(*taints: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(each for group in taints for each in group))


def answer(data: dict[str, Any], taint: frozenset[str] = frozenset(), *, is_error: bool = False) -> ToolResult:
    return ToolResult(content=msgspec.json.encode(data).decode(), taint=taint, is_error=is_error)


def answer_facts(name: str, facts: Iterable[Fact], **more: Any) -> ToolResult:
    found = list(facts)
    data = {name: [dump_triple(fact) for fact in found], "count": len(found), **more}
    return answer(data, join_taint(fact.taint for fact in found))
