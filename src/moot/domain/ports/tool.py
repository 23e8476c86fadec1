"""The Tool port: a tool, its optional abilities, and what it knows of the run. Implemented in tools/."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from moot.domain.ask import Binding, Question
from moot.domain.conversation import ConversationKey
from moot.domain.events import EventBody
from moot.domain.prompt import ToolSpec


class RunContext(Struct, frozen=True, kw_only=True):
    """What a tool may know of the run that calls it."""

    run_id: str
    key: ConversationKey
    speaker: str
    cwd: str
    emit: Callable[[EventBody], None]
    ask: "AskHuman"
    # The conversation a person is in, where this is not it.
    root: ConversationKey | None = None
    # The top run of the tree it belongs to, where that is another.
    root_id: str = ""
    # The run that spawned it.
    parent_id: str = ""
    # The call, and the number of the step it was made in.
    call_id: str = ""
    step: int = 0
    # The strangers whose words this run's model has seen, such as "web"; empty while there are none.
    taint: frozenset[str] = frozenset()
    # Time spent inside this does not count: a human is being waited for.
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    # Time spent inside this does not count against the call, only against the run: others are at work for it.
    attending: Callable[[], AbstractContextManager[None]] = nullcontext
    # Called when the tool itself is entered: until then the call has certainly had no effect.
    begin: Callable[[], object] = nullcontext
    # What the call was allowed to act on; a tool that finds something else refuses. None where nothing was looked at.
    agreed: Binding | None = None
    # Whether the owner has seen this very call and said yes to it.
    granted: bool = False

    @property
    def asks_in(self) -> ConversationKey:
        return self.root or self.key


class AskHuman(Protocol):
    async def __call__(self, questions: Sequence[Question], /) -> str:
        """Wait for a human's answer. Raises MootError when none comes in time."""
        ...


class ToolResult(Struct, frozen=True, kw_only=True):
    """What came of a call. `taint` adds strangers to those the tool's spec names."""

    content: str
    is_error: bool = False
    taint: frozenset[str] = frozenset()
    # The call was of a tool that is another agent's; nothing was run.
    is_refused: bool = False
    # The sentence with which the run hands its task back. It ends there.
    escalation: str = ""
    # Not run because a person would have had to be asked, and nobody is there.
    unasked: bool = False
    # It has waited for others who still work: to wait again is no circle.
    waited: bool = False
    # The items, such as runs, whose results it shows: recorded as delivered with the message it becomes.
    delivers: tuple[str, ...] = ()


class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> "str | ToolResult":
        """Do it and say what came of it. A MootError becomes an error result the model can read.

        The arguments have been checked against the spec: required ones are there and of the right type.
        """
        ...


@runtime_checkable
class Previews(Protocol):
    """A tool that can show a person what a call would do before it does it: a diff, a command, a recipient."""

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str: ...


@runtime_checkable
class Binds(Protocol):
    """A tool that acts on something that can change between a yes and the call: a file, a script, the sandbox."""

    async def bind(self, arguments: dict[str, Any], context: RunContext) -> Binding: ...


@runtime_checkable
class Renders(Protocol):
    """A tool that can say a call in one line for people; others are shown as their name and arguments."""

    def line(self, arguments: dict[str, Any]) -> str: ...


@runtime_checkable
class Scripted(Protocol):
    """A tool whose calls run a script of its own; the gate judges the script as it judges a command."""

    async def script(self) -> str: ...


@runtime_checkable
class Recovers(Protocol):
    """A tool that can put itself right after a failure; its call is then made once more."""

    async def recover(self, error: Exception) -> bool:
        """Whether trying again makes sense now."""
        ...


class RunScript(Protocol):
    async def __call__(self, path: str, args: Sequence[str], context: RunContext) -> str | ToolResult:
        """Run a skill's script in the sandbox and say what came of it."""
        ...
