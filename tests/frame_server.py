"""A fake daemon in a thread: it answers each frame as the test programs it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moot.wire import moot_pb2 as pb
from moot.wire.codec import FrameDecoder, decode_client, encode_frame

Answer = Callable[[pb.ClientMessage, "Caller"], Awaitable[None]]


class Caller:
    """One client's connection, from the server's side."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    def send(self, request_id: int, **message: Any) -> None:
        self.writer.write(encode_frame(pb.ServerMessage(request_id=request_id, **message)))

    def events(self, request_id: int, *events: pb.StreamEvent) -> None:
        for event in events:
            self.send(request_id, stream=event)

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def hang_up(self) -> None:
        self.writer.close()


class FrameServer:
    """Answers pings; everything else is up to `answer`. `received` holds every message, `wait_for` waits for one."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.received: list[pb.ClientMessage] = []
        self._news = threading.Condition()

    def wait_for(self, kind: str, seconds: float = 10.0) -> pb.ClientMessage:
        with self._news:
            assert self._news.wait_for(lambda: bool(self.of(kind)), seconds), f"no {kind} came"
        return self.of(kind)[-1]

    def of(self, kind: str) -> list[pb.ClientMessage]:
        return [message for message in self.received if message.WhichOneof("message") == kind]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder, caller = FrameDecoder(), Caller(writer)
        try:
            while data := await reader.read(65536):
                decoder.feed(data)
                while (payload := decoder.take()) is not None:
                    await self._take(decode_client(payload), caller)
        except (ConnectionError, OSError):
            pass
        finally:
            writer.close()

    async def _take(self, message: pb.ClientMessage, caller: Caller) -> None:
        with self._news:
            self.received.append(message)
            self._news.notify_all()
        if message.HasField("ping"):
            caller.send(message.request_id, pong=pb.Pong())
        else:
            await self.answer(message, caller)


@contextmanager
def frame_server(socket: Path, answer: Answer) -> Iterator[FrameServer]:
    """Serve on the socket until the block ends."""
    server, ready, stop = FrameServer(answer), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        listening = await asyncio.start_unix_server(server.serve, str(socket))
        ready.set()
        await stop.wait()
        listening.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    socket.parent.mkdir(parents=True, exist_ok=True)
    thread = threading.Thread(target=run, name="frame server")
    thread.start()
    try:
        assert ready.wait(30)
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def event(**kind: Any) -> pb.StreamEvent:
    return pb.StreamEvent(**kind)


def said(text: str, *, agent: str = "ada", outcome: str = "completed", **end: Any) -> list[pb.StreamEvent]:
    """The events of a plain answer."""
    return [
        event(start=pb.StreamStart(agent=agent, user_seq=1)),
        event(text_start=pb.TextStartEvent(agent=agent)),
        *(event(chunk=pb.StreamChunk(content=word)) for word in text.splitlines(keepends=True)),
        event(text_end=pb.TextEndEvent(agent=agent)),
        event(end=pb.StreamEnd(agent=agent, outcome=outcome, model="m", provider="p", **end)),
    ]
