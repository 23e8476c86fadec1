"""Hooks wrap a call in the order they are given; the first that refuses ends it."""

import asyncio
from typing import Any

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.message import ToolCall
from moot.domain.ports.hook import GateCall, Proceed
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import ToolSpec
from moot.domain.scope import ALL_TOOLS
from moot.engine.deadline import Deadline
from moot.engine.gate import Gate


class Fetch:
    spec = ToolSpec(name="fetch", description="", parameters={"type": "object", "properties": {}}, taint="web")

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.calls = 0

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        self.calls += 1
        if self.calls <= self.failures:
            raise RuntimeError("broken")
        return ToolResult(content="page", taint=frozenset({"mcp"}))

    async def recover(self, error: Exception) -> bool:
        return str(error) == "broken"


class Mark:
    phase = "pre-execute"

    def __init__(self, name: str, log: list[str], *, refuse: bool = False) -> None:
        self.name = name
        self._log = log
        self._refuse = refuse

    async def __call__(self, call: GateCall, proceed: Proceed) -> ToolResult:
        self._log.append(f"{self.name} before")
        if self._refuse:
            return ToolResult(content=f"{self.name} said no", is_error=True)
        result = await proceed(call)
        self._log.append(f"{self.name} after")
        return result

    def counts(self) -> dict[str, int]:
        return {}


async def _whole(call: GateCall, result: ToolResult) -> ToolResult:
    assert call.tool.spec.name == "fetch"
    return result


async def _nobody(_questions: object) -> str:
    raise AssertionError


CONTEXT = RunContext(
    run_id="r", key=ConversationKey("a", "u"), speaker="a", cwd="/", emit=lambda _event: None, ask=_nobody
)


async def _lost(run_id: str, call_id: str) -> str:
    raise AssertionError((run_id, call_id))


async def run(tool: Fetch, *hooks: Mark) -> ToolResult:
    gate = Gate(tools=lambda: {"fetch": tool}, hooks=lambda _: hooks, budget=_whole, restore=_lost)
    call = ToolCall(id="c", name="fetch", arguments="{}")
    return await gate.box(ALL_TOOLS).execute(call, "", CONTEXT, Deadline(SystemClock(), 1.0), asyncio.Semaphore(8))


async def test_hooks_wrap_the_call_in_order() -> None:
    log: list[str] = []
    await run(Fetch(), Mark("one", log), Mark("two", log))
    assert log == ["one before", "two before", "two after", "one after"]


async def test_a_hook_that_refuses_keeps_the_rest_from_happening() -> None:
    log: list[str] = []
    tool = Fetch()
    result = await run(tool, Mark("one", log), Mark("two", log, refuse=True), Mark("three", log))
    assert (result.content, tool.calls) == ("two said no", 0)
    assert log == ["one before", "two before", "one after"]


async def test_a_result_carries_the_strangers_of_its_tool_and_its_own() -> None:
    assert (await run(Fetch())).taint == {"web", "mcp"}


async def test_a_tool_that_can_put_itself_right_is_tried_once_more() -> None:
    once, twice = Fetch(failures=1), Fetch(failures=2)
    assert (await run(once)).content == "page"
    assert (await run(twice)).is_error
    assert twice.calls == 2
