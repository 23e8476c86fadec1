"""What a tool may be able to do beside running: show, bind, say, script and mend its calls."""

from typing import Any, Protocol, runtime_checkable

from moot.domain.ask import Binding
from moot.domain.ports import RunContext


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
