"""A call that may have effects is on disk before it runs; where the disk refuses it, it does not run."""

import asyncio
from pathlib import Path

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.errors import MootError
from moot.domain.message import ToolCall, assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.store.sqlite import open_store
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


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_an_open_call_of_a_resumed_run_is_made_unless_another_daemon_has_taken_the_run_over(
    tmp_path: Path, is_taken_over: bool
) -> None:
    """A daemon that was paused while it started learns of that only by writing: it reads what it finds, not whose."""
    async with engine(tmp_path) as desk:
        await desk.store.begin(RunRequest(id="r", key=ADA, speaker="ada", content="act"), now=0.0)
        call = ToolCall(id="call-1", name="act", arguments="{}")
        await desk.store.append(ADA, "r", [assistant("", tool_calls=(call,))], now=0.0)
        left = await desk.store.get_run("r")
        assert left is not None
        if is_taken_over:
            other = await open_store(desk.store.path, SystemClock())
            assert [each.run.id for each in await other.recover()] == ["r"]
            await other.close()
        end = await desk.follow(desk.runs.resume(left))
        assert isinstance(end, RunEnd)
        if is_taken_over:
            assert (end.outcome, "another daemon has taken over" in end.error) == (Outcome.INTERRUPTED, True)
            assert desk.act.found == []
        else:
            assert (end.outcome, end.content) == (Outcome.COMPLETED, "Done.")
            assert desk.act.found == [["act"]]


async def test_an_open_call_of_a_resumed_run_waits_for_the_disk(tmp_path: Path) -> None:
    async with engine(tmp_path) as desk:
        await desk.store.begin(RunRequest(id="r", key=ADA, speaker="ada", content="act"), now=0.0)
        call = ToolCall(id="call-1", name="act", arguments="{}")
        await desk.store.append(ADA, "r", [assistant("", tool_calls=(call,))], now=0.0)
        left = await desk.store.get_run("r")
        assert left is not None
        desk.disk.appends.clear()
        resumed = asyncio.ensure_future(desk.follow(desk.runs.resume(left)))
        async with asyncio.timeout(30):
            await desk.disk.append_asked.wait()
        await ticks()
        assert desk.act.found == []
        desk.disk.appends.set()
        await resumed
        assert desk.act.found == [["act"]]
