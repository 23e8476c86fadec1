"""The Hook port: wraps each tool call on its way through engine/gate.py. Implemented in hooks/."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Struct

from moot.domain.auto_approve import AutoApproveLevel
from moot.domain.mode import ConversationMode
from moot.domain.ports.tool import RunContext, Tool, ToolResult


class GateCall(Struct, frozen=True, kw_only=True):
    """One call on its way through the hook chain."""

    id: str
    tool: Tool
    arguments: dict[str, Any]
    context: RunContext
    # Why a person must review the call first, regardless of other permissions; empty if there is no reason.
    doubt: str = ""
    # Why the owner is asked about the secrets it uses; empty if it uses none, or only inside their scope.
    uses: str = ""
    # Whether its owner has seen exactly this call and approved it.
    approved: bool = False


Proceed = Callable[[GateCall], Awaitable[ToolResult]]
# Returns the result of a call that may not be executed after all; None if it may.
FindRefusal = Callable[[GateCall], Awaitable[ToolResult | None]]


class FindsMode(Protocol):
    """Knows the mode of runs. Implemented in engine/modes.py."""

    async def find_of_run(self, context: RunContext) -> ConversationMode: ...
    async def find_level_of_run(self, context: RunContext) -> AutoApproveLevel:
        """Return the level of the dial for calls of the run."""
        ...


class Hook(Protocol):
    """Wraps the execution of one call. It may change the call, refuse it, or inspect its result."""

    @property
    def name(self) -> str: ...
    @property
    def phase(self) -> str:
        """pre-execute or post-execute, for display."""
        ...

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult: ...

    def counts(self) -> dict[str, int]:
        """Return counters since the daemon started, such as {"blocked": 2}."""
        ...
