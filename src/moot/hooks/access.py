"""AccessControl hook: a call to a tool that a teammate was not given waits for a grant."""

from collections import Counter
from collections.abc import Awaitable, Callable

from moot.domain.ports.hook import FindRefusal, GateCall, Proceed
from moot.domain.ports.tool import ToolResult

# The granted call; the same call if no grant was needed; or the result that the model gets instead.
Admit = Callable[[GateCall], Awaitable[GateCall | ToolResult]]


class AccessControl:
    name = "AccessControl"
    phase = "pre-execute"

    def __init__(self, admit: Admit, *, find_refusal: FindRefusal) -> None:
        self._admit = admit
        self._find_refusal = find_refusal
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        admitted = await self._admit(call)
        if isinstance(admitted, ToolResult):
            self._counts["refused"] += 1
            return admitted
        if admitted is call:
            self._counts["passed"] += 1
            return await proceed(call)
        # A day may have passed, so the call is checked again: what is blocked by now stays blocked.
        refusal = await self._find_refusal(admitted)
        if refusal is not None:
            self._counts["refused"] += 1
            return refusal
        self._counts["granted"] += 1
        return await proceed(admitted)
