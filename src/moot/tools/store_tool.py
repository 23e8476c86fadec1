"""Tools of which the work is a function of one call to the stores: their specs, arguments and answers.

Used by the tools on knowledge (tools/knowledge) and on the knowledge graph (tools/graph).
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.senders import owner_of

# Characters of an argument that the line of a call shows.
LINE = 120

Arguments = dict[str, Any]


class StoreCall(Struct, frozen=True, kw_only=True):
    """One call: the run that calls, and the time. Subclasses add the stores."""

    context: RunContext
    now: float

    @property
    def owner(self) -> str:
        """The sender whose data it is: that of the conversation that the run belongs to, also for teammates."""
        return owner_of(self.context.asks_in.sender)


C = TypeVar("C", bound=StoreCall)


class ToolPlan(Struct, Generic[C], frozen=True):
    """A tool before it has stores to work on."""

    spec: ToolSpec
    line: Callable[[Arguments], str]
    run: Callable[[C, Arguments], Awaitable[ToolResult]]

    def build(self, make_call: Callable[[RunContext], C]) -> "StoreTool[C]":
        return StoreTool(self, make_call)


class StoreTool(Generic[C]):
    def __init__(self, plan: ToolPlan[C], make_call: Callable[[RunContext], C]) -> None:
        self.spec = plan.spec
        self._plan = plan
        self._make_call = make_call

    def line(self, arguments: Arguments) -> str:
        return self._plan.line({name: str(value)[:LINE] for name, value in arguments.items()})

    async def __call__(self, arguments: Arguments, context: RunContext) -> ToolResult:
        return await self._plan.run(self._make_call(context), arguments)


def make_store_spec(  # noqa: PLR0913 - what the spec of one tool consists of
    name: str,
    description: str,
    required: dict[str, Any],
    optional: dict[str, Any] | None = None,
    *,
    group: str,
    changes: bool = False,
    repeatable: bool = True,
) -> ToolSpec:
    """Return the spec of a tool; a parameter given as a text is a string with that description.

    A tool that `changes` what is stored is not safe.
    """
    given = {**required, **(optional or {})}
    properties = {
        each: {"type": "string", "description": described} if isinstance(described, str) else described
        for each, described in given.items()
    }
    return ToolSpec(
        name=name,
        description=description,
        safety=Safety.MODERATE if changes else Safety.SAFE,
        group=group,
        deferred=True,
        in_order=changes,
        repeatable=repeatable,
        fine=frozenset(optional or ()),
        parameters={"type": "object", "properties": properties, "required": list(required)},
    )


def join_taint(*taints: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(each for group in taints for each in group))


def answer(data: dict[str, Any], taint: frozenset[str] = frozenset(), *, is_error: bool = False) -> ToolResult:
    return ToolResult(content=msgspec.json.encode(data).decode(), taint=taint, is_error=is_error)
