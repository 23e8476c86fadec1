"""The clock of a deadline stands still while somebody is being asked."""

import asyncio

import pytest

from moot.engine.deadline import Deadline


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
