"""The gate: the one way to execute a tool, through scope, arguments and the hook chain, always ending in a result."""

import asyncio
import logging
from asyncio import Semaphore
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from moot.domain.errors import MootError
from moot.domain.message import ToolCall
from moot.domain.ports.hook import GateCall, Hook, Proceed
from moot.domain.ports.model import Model
from moot.domain.ports.tool import Recovers, Renders, RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.redaction import has_secret_arguments, is_masked, mask_call
from moot.domain.scope import ALL_TOOLS, Scope
from moot.domain.text import clean
from moot.engine.deadline import Deadline
from moot.engine.offer import choose_tools
from moot.failpoint import reach

logger = logging.getLogger(__name__)

_MOST_BOXES = 256
_LINE = 400
# How much of an argument's name is looked at, how many are named, and how alike two must be to be meant as one.
_NAME = 64
_MOST_NAMED = 5
_LIKENESS = 0.75
# As many tools of one run are at work at a time; a model that asks for more gets their results a little later.
AT_ONCE = 8
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Budget(Protocol):
    """Keeps what is too long for a model, and says how to read on."""

    async def __call__(self, call: GateCall, result: ToolResult, /) -> ToolResult: ...


# The chain a call passes, outermost first, as it is at this moment; of no call, the one that is live.
Chain = Callable[[GateCall | None], Sequence[Hook]]
# The exact arguments of a call, by the ids of its run and its own, where those at hand are masked. May raise MootError.
Restore = Callable[[str, str], Awaitable[str]]
# Who has a tool that is not among those a run has, as a sentence; empty where nobody does.
DescribeOwner = Callable[[str, Collection[str]], str]


def describe_no_owner(_tool: str, _offered: Collection[str]) -> str:
    return ""


class Gate:
    """The tools of the daemon and the chain in front of them."""

    def __init__(
        self,
        *,
        tools: Callable[[], Mapping[str, Tool]],
        hooks: Chain,
        budget: Budget,
        restore: Restore,
        describe_owner: DescribeOwner = describe_no_owner,
    ) -> None:
        self._tools = tools
        self.hooks = hooks
        self._budget = budget
        self.restore = restore
        self.describe_owner = describe_owner
        self._boxed: Mapping[str, Tool] = {}
        self._boxes: dict[Scope, Toolbox] = {}

    def box(self, scope: Scope) -> "Toolbox":
        """What a run may use. The scope is applied here and nowhere else; a box lasts until the tools change."""
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

    def line(self, call: ToolCall) -> str:
        """The call in one line as its tool says it; empty where it cannot, or is not there any more."""
        tool = self._tools().get(call.name)
        return _line(tool, call) if tool is not None and _renders(type(tool)) else ""

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
    """The last link: the tool itself, tried once more where it knows how to put itself right."""

    __slots__ = ("_at_work", "_deadline")

    def __init__(self, deadline: Deadline, at_work: Semaphore) -> None:
        self._deadline = deadline
        self._at_work = at_work

    async def __call__(self, call: GateCall) -> ToolResult:
        try:
            # Waiting for its turn is not the tool's own time.
            async with self._at_work, self._deadline:
                return await self._run_with_recovery(call)
        except MootError as error:
            # Refused before anyone outside had answered, there is nobody else's word in it.
            own = ToolResult(content=clean(error.sentence), is_error=True)
            return own if error.is_ours else _failure(call, own.content)
        except TimeoutError:
            return _failure(call, f"{call.tool.spec.name} took too long and was stopped.")
        except asyncio.CancelledError:
            raise
        except Exception:
            # A tool's own failure must not end the run; the model is told, the operator finds the cause in the log.
            logger.exception("tool %s failed", call.tool.spec.name)
            return _failure(call, f"{call.tool.spec.name} failed inside; the daemon's log has the cause.")

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
    said = await call.tool(call.arguments, call.context)
    reach("tool.after")
    result = said if isinstance(said, ToolResult) else ToolResult(content=said)
    return replace(result, content=clean(result.content), taint=result.taint | _own_taint(call))


def _failure(call: GateCall, told: str) -> ToolResult:
    """A stranger's words come back in errors too: an address, a media type, what a server said before it gave up."""
    return ToolResult(content=told, is_error=True, taint=_own_taint(call))


def _own_taint(call: GateCall) -> frozenset[str]:
    own = call.tool.spec.taint
    return frozenset({own}) if own else frozenset()


class Toolbox:
    """The tools one run has."""

    def __init__(self, gate: Gate, tools: Mapping[str, Tool]) -> None:
        self._gate = gate
        self._tools = tools
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in tools.values())
        self._offered: dict[tuple[str, int, tuple[str, ...] | None, Scope], tuple[ToolSpec, ...]] = {}

    def choose_tools(
        self, model: Model, prefixes: tuple[str, ...] | None, within: Scope = ALL_TOOLS
    ) -> tuple[ToolSpec, ...]:
        """What a model is told of them for an agent with these prefixes: the same at every step and in every turn."""
        asked = (model.tools, model.window, prefixes, within)
        found = self._offered.get(asked)
        if found is None:
            specs = [spec for spec in self.specs if within.allows(spec.name)]
            found = self._offered[asked] = choose_tools(specs, model, prefixes)
        return found

    def mask_call(self, call: ToolCall) -> ToolCall:
        """The call as it may be written down: without the arguments that are for the tool alone."""
        tool = self._tools.get(call.name)
        if tool is None or not has_secret_arguments(tool.spec):
            return call
        return replace(call, arguments=mask_call(tool.spec, call.arguments))

    def is_harmless(self, name: str) -> bool:
        """Whether a call of the tool that was broken off leaves nothing in doubt."""
        tool = self._tools.get(name)
        return tool is not None and tool.spec.repeatable and tool.spec.safety is Safety.SAFE

    def line(self, call: ToolCall) -> str:
        return self._gate.line(call) if call.name in self._tools else ""

    async def execute(
        self, call: ToolCall, flaw: str, context: RunContext, deadline: Deadline, at_work: Semaphore
    ) -> ToolResult:
        """Make one call. `at_work` has a place for each tool of the run that may be at work at a time."""
        unknown = self.reject_unknown(call.name, self.specs)
        if unknown is not None:
            return unknown
        tool = self._tools[call.name]
        try:
            call = await self._whole(call, tool.spec, context)
            arguments = flaw or _arguments(call, tool.spec)
            if isinstance(arguments, str):
                return ToolResult(content=arguments, is_error=True)
            passing = GateCall(id=call.id, tool=tool, arguments=arguments, context=context)
            result = await self._gate.pass_through(passing, deadline, at_work)
            return _with_strays(result, arguments, tool.spec)
        except MootError as error:
            return ToolResult(content=error.sentence, is_error=True)
        except Exception:
            # A preview or a schema that nobody thought of ends this call, and not the run.
            logger.exception("a call of %s did not get through the gate", call.name)
            return ToolResult(content=f"{call.name} failed at the gate; the daemon's log has the cause.", is_error=True)

    def reject_unknown(self, name: str, offered: Sequence[ToolSpec]) -> ToolResult | None:
        """What a call of a tool comes to that the run does not have; `offered` are those its model was told of."""
        if name in self._tools:
            return None
        names = sorted(spec.name for spec in offered)
        hint = self._gate.describe_owner(name, names) or f"There are: {', '.join(names) or 'none'}."
        told = f"There is no tool {clean(name)!r} here. {hint}"
        # A tool that nobody has is a mistake to mend; one of another agent tells that the task is not for this one.
        return ToolResult(content=told, is_error=True, is_refused=self._gate.has(name))

    async def _whole(self, call: ToolCall, spec: ToolSpec, context: RunContext) -> ToolCall:
        """The call with what was masked when it was written down; only one taken up after a restart lacks it."""
        if not is_masked(spec, call.arguments):
            return call
        exact = await self._gate.restore(context.run_id, call.id)
        return replace(call, arguments=exact)


@lru_cache(maxsize=1024)
def _renders(kind: type) -> bool:
    # Asked anew for every call, a protocol costs as much as half the chain.
    return issubclass(kind, Renders)


def _line(tool: Any, call: ToolCall) -> str:
    arguments = _arguments(call, tool.spec)
    if isinstance(arguments, str):
        return ""
    try:
        said = " ".join(clean(tool.line(arguments)).split())
    except Exception:
        # What a person is told of a call must not end the run.
        logger.exception("tool %s cannot say a call in one line", call.name)
        return ""
    return said if len(said) <= _LINE else f"{said[:_LINE]}…"


def _arguments(call: ToolCall, spec: ToolSpec) -> dict[str, Any] | str:
    """The arguments, or a sentence on what is wrong with them."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError) as error:
        return f"The arguments of {call.name} are not valid JSON: {error}."
    if not isinstance(arguments, dict):
        return f"The arguments of {call.name} must be a JSON object."
    return _mismatch(call.name, arguments, spec) or _drop_nulls(arguments, spec)


def _drop_nulls(arguments: dict[str, Any], spec: ToolSpec) -> dict[str, Any]:
    """The arguments without those that say nothing: many models write null for what they leave out."""
    if None not in arguments.values():
        return arguments
    properties: dict[str, dict[str, Any]] = spec.parameters.get("properties", {})
    return {
        name: value for name, value in arguments.items() if value is not None or not _is_plain(properties.get(name, {}))
    }


def _mismatch(name: str, arguments: dict[str, Any], spec: ToolSpec) -> str:
    required: Sequence[str] = spec.parameters.get("required", ())
    properties: dict[str, dict[str, Any]] = spec.parameters.get("properties", {})
    for parameter in required:
        if parameter not in arguments or _says_nothing(arguments[parameter], properties.get(parameter, {})):
            return f"missing {parameter} parameter"
    for parameter, value in arguments.items():
        if value is None and parameter not in required:
            continue
        kinds = _kinds(properties.get(parameter, {}))
        expected = tuple(kind for each in kinds for kind in _TYPES[each])
        wrong_bool = isinstance(value, bool) and bool not in expected
        if kinds and (wrong_bool or not isinstance(value, expected)):
            return f"{name}: {parameter} must be of type {' or '.join(kinds)}"
    return _misspelt(name, arguments, spec)


def _misspelt(name: str, arguments: dict[str, Any], spec: ToolSpec) -> str:
    """What is said of an argument the tool does not have. Left out unseen, a limit that was misspelt would be none."""
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    for stray in _strays(arguments, spec):
        nearest = get_close_matches(_plainly(stray), map(_plainly, properties), n=1, cutoff=_LIKENESS)
        meant = next((each for each in properties if _plainly(each) in nearest), "")
        if meant or spec.parameters.get("additionalProperties") is False:
            did = f"did you mean {meant!r}? Nothing was done" if meant else f"it has {', '.join(properties)}"
            return f"{name} has no parameter {clean(stray[:_NAME])!r}; {did}"
    return ""


def _strays(arguments: dict[str, Any], spec: ToolSpec) -> list[str]:
    """The arguments that the tool does not know. Many models add some of their own, and write null for none."""
    known, more = spec.parameters.get("properties"), spec.parameters.get("additionalProperties")
    if more is not False and (more or spec.takes_more or known is None):
        return []
    return [each for each, value in arguments.items() if each not in (known or {}) and value is not None]


def _plainly(parameter: str) -> str:
    """A name without what spellings differ in: maxLength is max_length."""
    return "".join(parameter[:_NAME].lower().replace("-", "_").split("_"))


def _with_strays(result: ToolResult, arguments: dict[str, Any], spec: ToolSpec) -> ToolResult:
    """The result, and what of the arguments came to nothing. Where the call failed, its own words come first."""
    strays = [] if result.is_error else _strays(arguments, spec)
    if not strays:
        return result
    named = ", ".join(repr(clean(each[:_NAME])) for each in strays[:_MOST_NAMED])
    return replace(result, content=f"{result.content}\n({spec.name} does not know {named}, which came to nothing.)")


def _kinds(described: dict[str, Any]) -> list[str]:
    """The types a schema names; none where it names none, or any that is not known. It may be a stranger's."""
    named = described.get("type")
    kinds: list[Any] = named if isinstance(named, list) else [named]
    return kinds if all(isinstance(kind, str) and kind in _TYPES for kind in kinds) else []


def _is_plain(described: dict[str, Any]) -> bool:
    """Whether null is no value here: a schema that names no plain type may mean it."""
    return "null" not in _kinds(described) and bool(_kinds(described))


def _says_nothing(value: Any, described: dict[str, Any]) -> bool:
    """Nothing at all is a value only where a schema says so: the content of an empty file, or null."""
    return (value is None and "null" not in _kinds(described)) or (value == "" and described.get("minLength") != 0)
