"""`moot wait` on a terminal: it asks again when an event says that something has changed, and at no other time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from moot.cli.commands import wait
from moot.cli.render.spinner import Spinner
from moot.wire import moot_pb2 as pb


class FakeConnection:
    """A daemon with one run, which asks something from the first event on; the wait ends with `end`."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[pb.AgentEventMsg] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.looked = asyncio.Event()
        self.waits: list[float] = []
        self.info = pb.RunInfo(run_id="arun-1", agent="ada")

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        if message.HasField("list_runs"):
            self.looked.set()
        elif message.wait_runs.seconds:
            self.waits.append(message.wait_runs.seconds)
            await self.ended.wait()
        timed_out = not self.ended.is_set()
        return pb.ServerMessage(run_list=pb.RunList(runs=[self.info], timed_out=timed_out))

    async def subscribe(self, *, without_deltas: bool) -> AsyncGenerator[pb.AgentEventMsg, None]:
        assert without_deltas
        return self._events()

    async def _events(self) -> AsyncGenerator[pb.AgentEventMsg, None]:
        while True:
            yield await self.events.get()


class Lines(Spinner):
    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def say(self, text: str) -> None:
        self.lines.put_nowait(text)

    def update(self, text: str) -> None:
        pass


async def test_one_wait_is_sent_and_only_events_cause_another_look(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, bar = FakeConnection(), Lines()

    @asynccontextmanager
    async def client(*, start: bool) -> AsyncIterator[FakeConnection]:
        assert start
        yield connection

    monkeypatch.setattr(wait, "daemon_client", client)
    monkeypatch.setattr(wait, "_is_watched", lambda: True)
    waiting = asyncio.create_task(wait._wait(pb.WaitRunsMsg(run_ids=["arun-1"]), None, bar))
    await connection.looked.wait()
    assert bar.lines.empty()

    connection.info.ask_id = "ask-1"
    connection.events.put_nowait(pb.AgentEventMsg())
    assert (await bar.lines.get()).startswith("ada (arun-1) waits for you")

    connection.info.outcome = "completed"
    connection.ended.set()
    waited = await waiting
    assert [info.outcome for info in waited.found.runs] == ["completed"]
    # Hours, where a poll would ask for seconds.
    assert connection.waits == [3600.0]
    assert bar.lines.empty()
