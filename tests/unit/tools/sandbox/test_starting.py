"""A process is started whole or not at all, whenever it is broken off."""

import asyncio

import pytest

from moot.daemon.clock import SystemClock
from moot.tools.sandbox.starting import start_whole


class Start:
    """Something that takes until it is let go, and can be undone."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.undone: list[str] = []

    async def begin(self) -> str:
        await self.go.wait()
        return "process"

    async def run(self) -> str:
        return await start_whole(self.begin(), self.undone.append, SystemClock())


async def _begun(start: Start) -> asyncio.Task[str]:
    task = asyncio.get_running_loop().create_task(start.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_what_is_left_alone_is_started_and_not_undone() -> None:
    start = Start()
    task = await _begun(start)
    start.go.set()
    assert await task == "process"
    assert start.undone == []


async def test_who_is_stopped_waits_until_it_is_undone() -> None:
    start = Start()
    task = await _begun(start)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    start.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert start.undone == ["process"]


async def test_who_is_stopped_twice_waits_no_longer_and_it_is_undone_all_the_same() -> None:
    start = Start()
    task = await _begun(start)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert task.cancelled()
    assert start.undone == []
    start.go.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert start.undone == ["process"]


async def test_it_is_undone_when_the_stop_comes_just_as_it_stands() -> None:
    for turns in range(6):
        start = Start()
        task = await _begun(start)
        start.go.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
            assert start.undone == ["process"]


async def test_a_start_that_fails_says_why() -> None:
    async def fail() -> str:
        raise FileNotFoundError("no such program")

    with pytest.raises(FileNotFoundError):
        await start_whole(fail(), lambda _: None, SystemClock())
