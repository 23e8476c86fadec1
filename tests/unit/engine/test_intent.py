"""A call that may have effects is on disk before it runs; where the disk refuses it, it does not run."""

import asyncio
from pathlib import Path

import pytest

from moot.domain.errors import MootError
from moot.domain.run import Outcome, RunEnd
from tests.unit.engine.engine_kit import engine
from tests.unit.shelves import ADA


async def ticks(count: int = 200) -> None:
    """Let everything run that can run; nothing here waits for time."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("earlier", [0, 1])
async def test_no_call_runs_before_its_intent_is_on_disk(tmp_path: Path, earlier: int) -> None:
    async with engine(tmp_path) as desk:
        for number in range(earlier):
            await desk.say("hello", f"before-{number}")
        desk.disk.appends.clear()
        turn = desk.start("act", "r")
        async with asyncio.timeout(30):
            await desk.disk.append_asked.wait()
        await ticks()
        # The disk has not said yet that it has the call, and so nothing is done.
        assert desk.act.found == []
        assert [entry for entry in await desk.store.list_entries(ADA) if entry.message.tool_calls] == []
        desk.disk.appends.set()
        end = await turn
        assert isinstance(end, RunEnd)
        assert end.outcome is Outcome.COMPLETED
        # The tool itself looked: when it ran, its call was there.
        assert desk.act.found == [["act"]]


async def test_a_call_whose_intent_the_disk_refuses_does_not_run(tmp_path: Path) -> None:
    async with engine(tmp_path) as desk:
        desk.disk.failing["append"] = "before"
        end = await desk.say("act", "r")
        assert isinstance(end, RunEnd)
        assert end.outcome is Outcome.INTERNAL_ERROR
        assert desk.act.found == []


async def test_a_call_of_a_message_the_disk_refuses_does_not_run(tmp_path: Path) -> None:
    """The model may read a message while the disk takes it; it must not act on one that the disk did not take."""
    async with engine(tmp_path) as desk:
        await desk.say("hello", "before")
        desk.disk.failing["begin"] = "before"
        assert isinstance(await desk.say("act", "r"), MootError)
        assert desk.act.found == []
        assert [entry.message.content for entry in await desk.store.list_entries(ADA)] == ["hello", "You said: hello"]


async def test_each_of_several_steps_waits_for_its_own_intent(tmp_path: Path) -> None:
    async with engine(tmp_path) as desk:
        await desk.say("act", "one")
        await desk.say("act again", "two")
        assert desk.act.found == [["act"], ["act", "act"]]
