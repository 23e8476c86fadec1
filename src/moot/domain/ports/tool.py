"""The Tool port: a tool, its optional capabilities, and what it knows of the run. Implemented in tools/."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from moot.domain.ask import Binding, Question
from moot.domain.call_shape import CallShape
from moot.domain.conversation import ConversationKey
from moot.domain.events import EventBody
from moot.domain.prompt import Sink, ToolSpec
from moot.domain.safety import Reach
from moot.domain.usage import NO_CHARGE, Charge


class RunContext(Struct, frozen=True, kw_only=True):
    """What a tool may know of the run that calls it."""

    run_id: str
    key: ConversationKey
    speaker: str
    cwd: str
    emit: Callable[[EventBody], None]
    ask: "AskHuman"
    # The PATH of the client; empty if it sent none.
    search_path: str = ""
    # The root conversation, if this is a different one.
    root: ConversationKey | None = None
    # The root run of its tree, if it is a different one.
    root_id: str = ""
    # The run that spawned it.
    parent_id: str = ""
    # The agents from the root of its tree down to its parent.
    chain: tuple[str, ...] = ()
    # The call, and the number of its step.
    call_id: str = ""
    step: int = 0
    # The sources of untrusted text this run's model has seen, such as "web"; empty if there are none.
    taint: frozenset[str] = frozenset()
    # Time spent inside this context does not count, because a person is waited for.
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    # Time spent inside this context counts against the run but not the call, because other runs are waited for.
    attending: Callable[[], AbstractContextManager[None]] = nullcontext
    # Called when the tool itself begins: until then the call has certainly had no effect.
    begin: Callable[[], object] = nullcontext
    # The tools that the model was offered.
    offered: tuple[ToolSpec, ...] = ()
    # The tools that the run may use and was not offered, because not all of them fit.
    loadable: tuple[ToolSpec, ...] = ()
    # What the call was approved to act on; the tool refuses anything else. None if nothing was reviewed.
    agreed: Binding | None = None
    # What the calls of models that the tool makes count against.
    charge: Charge = NO_CHARGE
    # Whether the owner has seen and approved exactly this call.
    granted: bool = False

    def has_tool(self, name: str) -> bool:
        """Whether the run may use a tool without being granted it first."""
        return any(spec.name == name for spec in (*self.offered, *self.loadable))

    @property
    def asks_in(self) -> ConversationKey:
        return self.root or self.key


class AskHuman(Protocol):
    async def __call__(self, questions: Sequence[Question], /) -> str:
        """Wait for a person's answer and return it. Raises MootError when there is none in time."""
        ...


class ToolResult(Struct, frozen=True, kw_only=True):
    """The result of a call. `taint` adds sources to the one that the tool's spec names."""

    content: str
    is_error: bool = False
    # How what was executed failed, in one line, if the result is not an error: a command that exits with another code
    # than 0. Learnings are made of it.
    failure: str = ""
    taint: frozenset[str] = frozenset()
    # The tool belongs to another agent; nothing was executed.
    is_refused: bool = False
    # The reason with which the run escalates its task. The run ends with it.
    escalation: str = ""
    # Not executed, because a person, a rule of the configuration or the lack of a person to ask denied it.
    is_denied: bool = False
    # Not executed, because the conversation is in mode plan.
    is_refused_by_mode: bool = False
    # Nothing was executed: no such tool, unusable arguments, or a command that could not be started or found.
    is_unexecuted: bool = False
    # It was denied because there was nobody to ask.
    unasked: bool = False
    # It has waited for runs that are still active: waiting again is not a loop.
    waited: bool = False
    # How long the call took, set by the loop.
    duration_ms: int = 0
    # The items, such as runs, whose results it shows: recorded as delivered with the message it becomes.
    delivers: tuple[str, ...] = ()
    # The author of a text that the daemon wrote and escaped, marks included; empty for any other text.
    author: str = ""


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> "str | ToolResult":
        """Execute the call and return its result. A MootError becomes an error result the model can read.

        The arguments have been checked against the spec: required ones are present and of the right type.
        """
        ...


@lru_cache(maxsize=4096)
def has_ability(kind: type, ability: Any) -> bool:
    """Whether the class of a tool has the methods of one of the protocols below.

    Ask this before `isinstance`, which checks all methods each time and takes as long as half of all hooks.
    """
    return issubclass(kind, ability)


@runtime_checkable
class Previews(Protocol):
    """A tool that can show what a call would do before it is executed: a diff, a command, a recipient."""

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str: ...


@runtime_checkable
class Checks(Protocol):
    """A tool that can tell that a call would fail, so that nobody is asked about it."""

    async def check(self, arguments: dict[str, Any], context: RunContext) -> None:
        """Raise the MootError that the call would fail with."""
        ...


@runtime_checkable
class Binds(Protocol):
    """A tool that acts on something that can change between approval and call: a file, a script, the sandbox."""

    async def bind(self, arguments: dict[str, Any], context: RunContext) -> Binding: ...


@runtime_checkable
class KnowsSinks(Protocol):
    """A tool of which not every call reaches the sinks of its spec."""

    def find_sinks(self, arguments: dict[str, Any]) -> frozenset[Sink]:
        """Return where the call could send untrusted text."""
        ...


@runtime_checkable
class Reaches(Protocol):
    """A tool that is dangerous in general, and can tell what one call of it reaches."""

    async def reach(self, arguments: dict[str, Any], context: RunContext) -> Reach: ...


@runtime_checkable
class Shapes(Protocol):
    """A tool whose calls can be covered by the pattern of a rule."""

    async def shape(self, arguments: dict[str, Any], context: RunContext) -> CallShape | None:
        """Return what patterns look at; None if no pattern can cover the call."""
        ...


@runtime_checkable
class Renders(Protocol):
    """A tool that can render a call in one line for people; others are shown as their name and arguments."""

    def line(self, arguments: dict[str, Any]) -> str: ...


@runtime_checkable
class ExplainsRefusals(Protocol):
    """A tool that itself says why a caller that does not have it may not call it."""

    def explain_refusal(self, arguments: dict[str, Any], context: RunContext) -> ToolResult | None:
        """Return the refusal, and do nothing else; None if it knows nothing against this caller."""
        ...


@runtime_checkable
class Scripted(Protocol):
    """A tool whose calls run a script of its own; the gate classifies the script like a command."""

    async def script(self) -> str: ...


@runtime_checkable
class Recovers(Protocol):
    """A tool that can recover from a failure; its call is then repeated once."""

    async def recover(self, error: Exception) -> bool:
        """Whether a retry makes sense now."""
        ...


class RunScript(Protocol):
    async def __call__(self, path: str, args: Sequence[str], context: RunContext) -> str | ToolResult:
        """Run a skill's script in the sandbox and return its result."""
        ...
