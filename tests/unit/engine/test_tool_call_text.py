"""What a run tells of its calls: in the words of the tool, and how long the tool itself took."""

from pathlib import Path
from typing import Any

import pytest

from moot.domain.events import EventBody, ToolFinished, ToolsStarted
from moot.domain.message import ToolCall
from moot.domain.ports.hook import GateCall
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.prompt import ToolSpec
from moot.engine.gate import Gate
from tests.unit.engine.engine_kit import engine


class Look:
    spec = ToolSpec(
        name="look",
        description="Look.",
        parameters={"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    )

    def line(self, arguments: dict[str, Any]) -> str:
        if arguments["at"] == "break":
            raise ValueError("inside")
        return f"look at {arguments['at']}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        return "seen"


class Mute:
    spec = ToolSpec(name="mute", description="Says nothing of itself.", parameters={"type": "object"})

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        return "done"


async def _whole(_call: GateCall, result: ToolResult) -> ToolResult:
    return result


async def _lost(run_id: str, call_id: str) -> str:
    raise AssertionError((run_id, call_id))


GATE = Gate(tools=lambda: {"look": Look(), "mute": Mute()}, hooks=lambda _: [], budget=_whole, restore=_lost)


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("look", '{"at": "it\\nand\\u0000 there"}', "look at it ⏎ and there"),
        ("look", '{"at": "' + "x" * 1000 + '"}', "look at " + "x" * 392 + " … 608 more characters"),
        ("look", '{"at": "break"}', ""),
        ("look", '{"at": 7}', ""),
        ("look", "not JSON", ""),
        ("mute", "{}", ""),
        ("gone", "{}", ""),
    ],
)
def test_a_call_is_said_by_its_tool_in_one_line_or_not_at_all(name: str, arguments: str, line: str) -> None:
    said = GATE.line(ToolCall(id="c", name=name, arguments=arguments))

    assert said.replace("\ufffd", "") == line


async def test_a_run_tells_the_line_and_leaves_the_wait_for_people_out_of_what_a_call_took(tmp_path: Path) -> None:
    told: list[EventBody] = []
    async with engine(tmp_path) as desk:

        def first(context: RunContext) -> None:
            with context.waiting():
                desk.clock.at += 100
            desk.clock.at += 2

        desk.act.first = first
        desk.bus.observe(lambda event: told.append(event.body), ToolsStarted, ToolFinished)
        await desk.say("act", "r")

    (started,) = [event for event in told if isinstance(event, ToolsStarted)]
    (finished,) = [event for event in told if isinstance(event, ToolFinished)]
    assert started.lines == ("do ⏎ it",)
    assert 2000 <= finished.duration_ms < 100_000
