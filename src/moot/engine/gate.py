"""The gate: the only way to execute a tool. Applies scope, argument checks and hooks, and always returns a result."""

import asyncio
import logging
from asyncio import Semaphore
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from moot.domain.approval import COMMANDS
from moot.domain.errors import Fenced, MootError
from moot.domain.message import ToolCall
from moot.domain.ports.hook import GateCall, Hook, Proceed
from moot.domain.ports.model import Model
from moot.domain.ports.tool import Recovers, Renders, RunContext, Tool, ToolResult, has_ability
from moot.domain.prompt import CALLABLE_WHEN_GONE, Safety, ToolSpec
from moot.domain.redaction import has_secret_arguments, is_masked, mask_call
from moot.domain.scope import ALL_TOOLS, Scope
from moot.domain.text import clean
from moot.domain.visible import show_start
from moot.engine.arguments import add_ignored, parse_arguments
from moot.engine.deadline import Deadline
from moot.engine.effects import Effects
from moot.engine.offer import Offer, make_offer
from moot.engine.unknown_tools import describe_unknown, explain_refusal
from moot.failpoint import reach

logger = logging.getLogger(__name__)

_MOST_BOXES = 256
_LINE = 400
# How many tools of one run execute at the same time; further calls wait.
AT_ONCE = 8


class StoreResult(Protocol):
    """Stores a result that is too long for a model, and says how to read the rest."""

    async def __call__(self, call: GateCall, result: ToolResult, /) -> ToolResult: ...


# Returns the current hook chain for a call, outermost hook first; without a call, the chain in use.
Chain = Callable[[GateCall | None], Sequence[Hook]]
# Returns the exact arguments of a call that is stored with masked ones, by run id and call id. May raise MootError.
Restore = Callable[[str, str], Awaitable[str]]
# Returns a sentence that names the agent that has a tool the run does not have; empty if no agent has it.
DescribeOwner = Callable[[str, Collection[str]], str]


# Returns what a run waits for before it uses tools, because some are still being listed; None if all are known.
FindListing = Callable[[], Awaitable[None] | None]


def find_no_listing() -> None:
    return None


def describe_no_owner(_tool: str, _offered: Collection[str]) -> str:
    return ""


class Gate:
    """All tools of the daemon, and the hook chain that every call passes."""

    def __init__(
        self,
        *,
        tools: Callable[[], Mapping[str, Tool]],
        hooks: Chain,
        budget: StoreResult,
        restore: Restore,
        describe_owner: DescribeOwner = describe_no_owner,
        find_listing: FindListing = find_no_listing,
    ) -> None:
        self._tools = tools
        self.find_listing = find_listing
        self.hooks = hooks
        self._budget = budget
        self.restore = restore
        self.describe_owner = describe_owner
        self._boxed: Mapping[str, Tool] = {}
        self._boxes: dict[Scope, Toolbox] = {}

    def box(self, scope: Scope) -> "Toolbox":
        """Return the tools that a run may use.

        The scope is applied only here; boxes are cached until the tools change.
        """
        tools = self._tools()
        if tools is not self._boxed or len(self._boxes) > _MOST_BOXES:
            self._boxed, self._boxes = tools, {}
        box = self._boxes.get(scope)
        if box is None:
            box = Toolbox(self, {name: tool for name, tool in tools.items() if scope.allows(name)})
            self._boxes[scope] = box
        return box

    def has(self, name: str) -> bool:
        return name in self._tools()

    def find(self, name: str) -> Tool | None:
        return self._tools().get(name)

    def line(self, call: ToolCall) -> str:
        """Return the call rendered in one line by its tool; empty if the tool cannot, or no longer exists."""
        tool = self._tools().get(call.name)
        return _render_line(tool, call) if tool is not None and has_ability(type(tool), Renders) else ""

    async def pass_through(self, call: GateCall, deadline: Deadline, at_work: Semaphore) -> ToolResult:
        proceed: Proceed = _Execution(deadline, at_work)
        for hook in reversed(self.hooks(call)):
            proceed = _Link(hook, proceed)
        return await self._budget(call, await proceed(call))


class _Link:
    __slots__ = ("_hook", "_proceed")

    def __init__(self, hook: Hook, proceed: Proceed) -> None:
        self._hook = hook
        self._proceed = proceed

    async def __call__(self, call: GateCall) -> ToolResult:
        return await self._hook(call, self._proceed)


class _Execution:
    """The last link of the chain: executes the tool, and retries once if the tool can recover from the error."""

    __slots__ = ("_at_work", "_deadline")

    def __init__(self, deadline: Deadline, at_work: Semaphore) -> None:
        self._deadline = deadline
        self._at_work = at_work

    async def __call__(self, call: GateCall) -> ToolResult:
        try:
            # Waiting for a free place does not count against the tool's timeout.
            async with self._at_work, self._deadline:
                return await self._run_with_recovery(call)
        except Fenced:
            raise
        except MootError as error:
            # An error raised before anything external has answered contains no untrusted text.
            # What a command itself does wrong is a result; this one was not started.
            is_unexecuted = call.tool.spec.name in COMMANDS
            own = ToolResult(
                content=clean(error.sentence), is_error=True, taint=error.taint, is_unexecuted=is_unexecuted
            )
            return own if error.is_untainted else replace(own, taint=own.taint | _find_taint(call))
        except TimeoutError:
            return _make_failure(call, f"{call.tool.spec.name} took too long and was stopped.")
        except asyncio.CancelledError:
            raise
        except Exception:
            # A failing tool must not end the run: the model gets an error result, the operator finds the cause in the
            # log.
            logger.exception("tool %s failed", call.tool.spec.name)
            return _make_failure(call, f"{call.tool.spec.name} failed inside; the daemon's log has the cause.")

    async def _run_with_recovery(self, call: GateCall) -> ToolResult:
        try:
            return await _run(call)
        except Exception as error:
            if not (isinstance(call.tool, Recovers) and await call.tool.recover(error)):
                raise
            logger.info("tool %s was put right and is called once more", call.tool.spec.name)
            return await _run(call)


async def _run(call: GateCall) -> ToolResult:
    call.context.begin()
    reach("tool.before")
    returned = await call.tool(call.arguments, call.context)
    reach("tool.after")
    result = returned if isinstance(returned, ToolResult) else ToolResult(content=returned)
    return replace(result, content=clean(result.content), taint=result.taint | _find_taint(call))


def _make_failure(call: GateCall, text: str) -> ToolResult:
    """Return an error result with the tool's taint: errors can quote untrusted text, such as a server's message."""
    return ToolResult(content=text, is_error=True, taint=_find_taint(call))


def _find_taint(call: GateCall) -> frozenset[str]:
    own = call.tool.spec.taint
    return frozenset({own}) if own else frozenset()


class Toolbox:
    """The tools of one run."""

    def __init__(self, gate: Gate, tools: Mapping[str, Tool]) -> None:
        self._gate = gate
        self._tools = tools
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools.values())
        self.effects = Effects(tools)
        self._offered: dict[tuple[str, int, bool, tuple[str, ...] | None, Scope, int], Offer] = {}

    def choose_tools(
        self, model: Model, prefixes: tuple[str, ...] | None, within: Scope = ALL_TOOLS, *, most: int = 0
    ) -> Offer:
        """Return the specs a model is offered for an agent with these prefixes, and those that were left out.

        Cached: the same at every step and turn.
        """
        key = (model.tools, model.window, model.config.small, prefixes, within, most)
        found = self._offered.get(key)
        if found is None:
            specs = [spec for spec in self.specs if within.allows(spec.name)]
            found = self._offered[key] = make_offer(specs, model, prefixes, most=most)
        return found

    def mask_call(self, call: ToolCall) -> ToolCall:
        """Return the call as it may be stored: with secret arguments masked."""
        tool = self._tools.get(call.name)
        if tool is None or not has_secret_arguments(tool.spec):
            return call
        return replace(call, arguments=mask_call(tool.spec, call.arguments))

    def is_harmless(self, name: str) -> bool:
        """Whether an interrupted call of the tool leaves no doubt about its effect."""
        tool = self._tools.get(name)
        return tool is not None and tool.spec.repeatable and tool.spec.safety is Safety.SAFE

    def is_repeatable(self, name: str) -> bool:
        """Whether making a call of the tool again after a restart does what the first one would have done."""
        tool = self._tools.get(name)
        return tool is not None and tool.spec.repeatable

    def line(self, call: ToolCall) -> str:
        return self._gate.line(call) if call.name in self._tools else ""

    async def execute(
        self, call: ToolCall, flaw: str, context: RunContext, deadline: Deadline, at_work: Semaphore
    ) -> ToolResult:
        """Execute one call and return its result.

        `at_work` limits how many tools of the run execute at the same time.
        """
        unknown = self.reject_unknown(call, self.specs, context)
        if unknown is not None:
            return unknown
        # The tool as it is configured now: a reload applies from the next call on.
        tool = self._gate.find(call.name) or self._tools[call.name]
        if tool.spec.group not in CALLABLE_WHEN_GONE and not self._gate.has(call.name):
            return ToolResult(
                content=f"{call.name} is no longer available; it was not run.", is_error=True, is_unexecuted=True
            )
        try:
            call = await self._restore_arguments(call, tool.spec, context)
            shown = next((each for each in context.offered if each.name == call.name), None)
            arguments = flaw or parse_arguments(call, tool.spec, shown)
            if isinstance(arguments, str):
                return ToolResult(content=arguments, is_error=True, is_unexecuted=True)
            passing = GateCall(id=call.id, tool=tool, arguments=arguments, context=context)
            result = await self._gate.pass_through(passing, deadline, at_work)
            return add_ignored(result, arguments, tool.spec)
        except Fenced:
            # Another daemon has taken over the run; the model of this one is asked nothing more.
            raise
        except MootError as error:
            return ToolResult(content=clean(error.sentence), is_error=True, taint=error.taint)
        except Exception:
            # An unexpected error in a preview or schema ends this call, not the run.
            logger.exception("a call of %s did not get through the gate", call.name)
            return ToolResult(content=f"{call.name} failed at the gate; the daemon's log has the cause.", is_error=True)

    def reject_unknown(self, call: ToolCall, offered: Sequence[ToolSpec], context: RunContext) -> ToolResult | None:
        """Return the error result for a tool the run does not have; `offered` are the specs its model was given."""
        if (name := call.name) in self._tools:
            return None
        if (refusal := explain_refusal(call, self._gate.find(name), context)) is not None:
            return refusal
        text = describe_unknown(name, offered, self._gate.describe_owner(name, [spec.name for spec in offered]))
        # An unknown tool is the model's mistake. A tool of another agent shows that the task belongs to that agent.
        is_elsewhere = self._gate.has(name)
        return ToolResult(content=text, is_error=True, is_refused=is_elsewhere, is_unexecuted=True)

    async def _restore_arguments(self, call: ToolCall, spec: ToolSpec, context: RunContext) -> ToolCall:
        """Return the call with its masked arguments restored. Only calls resumed after a restart are masked."""
        if not is_masked(spec, call.arguments):
            return call
        exact = await self._gate.restore(context.run_id, call.id)
        return replace(call, arguments=exact)


def _render_line(tool: Any, call: ToolCall) -> str:
    arguments = parse_arguments(call, tool.spec)
    if isinstance(arguments, str):
        return ""
    try:
        return show_start(clean(tool.line(arguments)), _LINE)
    except Exception:
        # A display line that fails must not end the run.
        logger.exception("tool %s cannot say a call in one line", call.name)
        return ""
