"""The clock of a deadline stands still while somebody is being asked."""

import asyncio

import pytest

from moot.engine.deadline import Deadline

VIRTUAL_TIME = True


async def test_time_runs_out() -> None:
    deadline = Deadline(0.01)
    with pytest.raises(TimeoutError):
        async with deadline:
            await asyncio.Event().wait()
    assert deadline.expired


async def test_a_pause_does_not_count() -> None:
    deadline = Deadline(0.05)
    async with deadline:
        with deadline.paused():
            await asyncio.sleep(0.12)
        await asyncio.sleep(0)
    assert not deadline.expired


async def test_time_runs_on_after_the_last_of_several_pauses() -> None:
    deadline = Deadline(0.05)
    survived: list[str] = []

    async def work() -> None:
        async with deadline:
            with deadline.paused():
                with deadline.paused():
                    await asyncio.sleep(0.08)
                await asyncio.sleep(0.08)
            survived.append("both pauses")
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await work()
    assert survived == ["both pauses"]


async def test_no_seconds_are_no_limit() -> None:
    async with Deadline(None) as deadline:
        with deadline.paused():
            await asyncio.sleep(0)
    assert not deadline.expired


async def test_silence_runs_out_before_the_seconds_do() -> None:
    deadline = Deadline(30.0, idle_seconds=0.02)
    with pytest.raises(TimeoutError):
        async with deadline:
            await asyncio.Event().wait()
    assert deadline.expired
    assert deadline.limit == "idle_seconds"


async def test_whatever_stirs_puts_silence_off_up_to_the_seconds() -> None:
    deadline = Deadline(1.5, idle_seconds=1.0)

    async def work() -> None:
        async with deadline:
            while True:
                await asyncio.sleep(0.01)
                deadline.stir()

    with pytest.raises(TimeoutError):
        await work()
    assert deadline.limit == "seconds"


async def test_a_tool_at_work_and_a_human_who_is_asked_may_be_silent() -> None:
    async with Deadline(30.0, idle_seconds=0.02) as deadline:
        with deadline.tool():
            await asyncio.sleep(0.08)
        with deadline.paused():
            await asyncio.sleep(0.08)
        await asyncio.sleep(0)
    assert not deadline.expired


async def test_time_at_work_is_counted_without_the_pauses() -> None:
    async with Deadline(None) as deadline:
        await asyncio.sleep(0.01)
        with deadline.paused():
            before = deadline.worked
            await asyncio.sleep(0.05)
            assert deadline.worked == before
        assert before >= 0.01
        assert deadline.worked >= before
