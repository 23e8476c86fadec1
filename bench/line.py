"""A lean client of the daemon's socket: it decodes every event and counts what came, and does nothing else."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from bench.raw import Timed
from moot.wire import moot_pb2 as pb
from moot.wire.codec import FrameDecoder, decode_server, encode_frame

_SECONDS = 60.0


class Line(asyncio.Protocol):
    """One connection with one request on it at a time."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[pb.ServerMessage] | None = None
        self._started = 0.0
        self._first = 0.0
        self._pieces: list[str] = []
        self._begun = False

    async def turn(self, agent: str, sender: str, content: str) -> Timed:
        """One turn as a client sees it: sent, first token, end of the run. The end comes after the second fsync."""
        self._pieces, self._first, self._begun = [], 0.0, False
        self._started = time.perf_counter()
        message = pb.StreamMsg(agent=agent, sender=sender, content=content)
        answer = await self.request(pb.ClientMessage(stream=message))
        total = time.perf_counter() - self._started
        end = answer.stream.end
        if end.outcome != "completed" or not self._begun:
            raise RuntimeError(f"a turn ended {end.outcome}: {end.error or answer.error.message}")
        return Timed(self._first, total, "".join(self._pieces), len(self._pieces))

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        """Send one message and wait for its answer, or for the end of its stream."""
        assert self._transport is not None
        message.request_id = 1
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(encode_frame(message))
        async with asyncio.timeout(_SECONDS):
            return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._decoder.feed(data)
        while (payload := self._decoder.take()) is not None:
            self.take(decode_server(payload))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the daemon closed the connection"))

    def take(self, message: pb.ServerMessage) -> None:
        if message.WhichOneof("message") == "stream":
            kind = message.stream.WhichOneof("event")
            if kind == "chunk":
                self._first = self._first or time.perf_counter() - self._started
                self._pieces.append(message.stream.chunk.content)
                return
            self._begun = self._begun or kind == "start"
            if kind != "end":
                return
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(message)


class Watcher(Line):
    """Is told of every event of every conversation, and keeps what the ones it is interested in said."""

    def __init__(self, senders: Iterable[str]) -> None:
        super().__init__()
        self.said = dict.fromkeys(senders, "")
        self.ended: set[str] = set()
        self.all_ended = asyncio.Event()

    def take(self, message: pb.ServerMessage) -> None:
        event = message.agent_event
        if event.sender not in self.said:
            super().take(message)
        elif event.kind == pb.TEXT_DELTA:
            self.said[event.sender] += event.content
        elif event.kind == pb.DONE:
            self.ended.add(event.sender)
            if len(self.ended) == len(self.said):
                self.all_ended.set()


@asynccontextmanager
async def connect(socket: Path) -> AsyncIterator[Line]:
    async with _opened(socket, Line()) as line:
        yield line


@asynccontextmanager
async def watch(socket: Path, senders: Iterable[str]) -> AsyncIterator[Watcher]:
    """A subscription that misses nothing from here on."""
    watcher = Watcher(senders)
    async with _opened(socket, watcher):
        await watcher.request(pb.ClientMessage(subscribe_events=pb.SubscribeEvents()))
        yield watcher


@asynccontextmanager
async def _opened(socket: Path, line: Line) -> AsyncIterator[Line]:
    await asyncio.get_running_loop().create_unix_connection(lambda: line, str(socket))
    try:
        yield line
    finally:
        line.close()
