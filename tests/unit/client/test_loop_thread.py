"""The loop of the synchronous client: an interrupt at any point cancels what was called."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from moot.client.sync_client import LoopThread


async def _work(log: list[str], begun: threading.Event) -> None:
    log.append("begun")
    begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        log.append("ended")


@pytest.mark.parametrize("begins", [True, False])
def test_an_interrupt_while_a_call_is_handed_over_cancels_it(monkeypatch: pytest.MonkeyPatch, begins: bool) -> None:
    """The work may have begun by then, or not."""
    thread = LoopThread()
    log: list[str] = []
    begun = threading.Event()
    hand_over = thread._loop.call_soon_threadsafe

    def interrupted(callback: Callable[..., Any], *arguments: Any) -> None:
        monkeypatch.undo()
        if begins:
            hand_over(callback, *arguments)
            begun.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(thread._loop, "call_soon_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.call(_work(log, begun))
    assert log == (["begun", "ended"] if begins else [])
    thread.stop()


def test_a_call_returns_the_result_or_raises_the_error() -> None:
    thread = LoopThread()

    async def fail() -> None:
        raise StopAsyncIteration

    assert thread.call(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(StopAsyncIteration):
        thread.call(fail())
    thread.stop()
    with pytest.raises(RuntimeError, match="closed"):
        thread.call(asyncio.sleep(0))
