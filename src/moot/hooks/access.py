"""AccessControl: a call outside what a teammate was allowed waits for its owner to grant the tool."""

from collections import Counter
from collections.abc import Awaitable, Callable

from moot.domain.ports import GateCall, Proceed, ToolResult

# The granted call; the same call where nothing had to be granted; or a sentence on why it may not be made.
Admit = Callable[[GateCall], Awaitable[GateCall | str]]


class AccessControl:
    name = "AccessControl"
    phase = "pre-execute"

    def __init__(self, admit: Admit, refusal: Callable[[GateCall], Awaitable[str]]) -> None:
        self._admit = admit
        self._refusal = refusal
        self._counts: Counter[str] = Counter()

    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        admitted = await self._admit(call)
        if isinstance(admitted, GateCall) and admitted is not call:
            # A day may have passed: what is blocked by now stays blocked.
            admitted = await self._refusal(admitted) or admitted
        if isinstance(admitted, str):
            self._counts["refused"] += 1
            return ToolResult(content=admitted, is_error=True)
        self._counts["passed" if admitted is call else "granted"] += 1
        return await proceed(admitted)
