"""The clock of a deadline stands still while somebody is being asked."""

import asyncio

import pytest

from moot.daemon.clock import ManualClock
from moot.engine.deadline import Deadline


async def expire(clock: ManualClock, work: "asyncio.Task[None]", *, after: float) -> None:
    """The work is still under way just before the time is up, and times out then."""
    await clock.advance(after - 0.001)
    assert not work.done()
    await clock.advance(0.001)
    assert work.done()
    with pytest.raises(TimeoutError):
        await work


async def wait_inside(deadline: Deadline) -> None:
    async with deadline:
        await asyncio.Event().wait()


async def test_time_runs_out() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 10.0)
    await expire(clock, asyncio.create_task(wait_inside(deadline)), after=10.0)
    assert deadline.expired
    assert deadline.limit == "seconds"


async def test_a_pause_does_not_count() -> None:
    clock = ManualClock()
    async with Deadline(clock, 10.0) as deadline:
        with deadline.pause():
            await clock.advance(1000.0)
        await clock.advance(9.0)
    assert not deadline.expired


async def test_time_runs_on_after_the_last_of_several_pauses() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 10.0)

    async def work() -> None:
        async with deadline:
            await clock.sleep(4.0)
            with deadline.pause():
                with deadline.pause():
                    await clock.sleep(100.0)
                await clock.sleep(100.0)
            await asyncio.Event().wait()

    await expire(clock, asyncio.create_task(work()), after=4.0 + 200.0 + 6.0)


async def test_no_seconds_are_no_limit() -> None:
    clock = ManualClock()
    async with Deadline(clock, None) as deadline:
        with deadline.pause():
            await clock.advance(1e6)
        await clock.advance(1e6)
    assert not deadline.expired


async def test_silence_runs_out_before_the_seconds_do() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 30.0, idle_seconds=2.0)
    await expire(clock, asyncio.create_task(wait_inside(deadline)), after=2.0)
    assert deadline.expired
    assert deadline.limit == "idle_seconds"


async def test_whatever_stirs_puts_silence_off_up_to_the_seconds() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 15.0, idle_seconds=10.0)

    async def work() -> None:
        async with deadline:
            while True:
                await clock.sleep(4.0)
                deadline.reset_idle()

    await expire(clock, asyncio.create_task(work()), after=15.0)
    assert deadline.limit == "seconds"


async def test_a_tool_at_work_and_a_human_who_is_asked_may_be_silent() -> None:
    clock = ManualClock()
    async with Deadline(clock, 30.0, idle_seconds=2.0) as deadline:
        with deadline.tool():
            await clock.advance(8.0)
        with deadline.pause():
            await clock.advance(8.0)
        await clock.advance(1.0)
    assert not deadline.expired


async def test_time_at_work_is_counted_without_the_pauses() -> None:
    clock = ManualClock()
    async with Deadline(clock, None) as deadline:
        await clock.advance(3.0)
        with deadline.pause():
            await clock.advance(50.0)
            assert deadline.worked == 3.0
        await clock.advance(4.0)
        assert deadline.worked == 7.0
