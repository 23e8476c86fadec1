"""A reader that does not keep up is told so once and let go; the others lose nothing."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from moot.daemon.listen import http, unix
from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.events import TextChunk
from moot.wire import moot_pb2 as pb
from tests.unit.daemon.listen.listener_fakes import House, peer
from tests.unit.events import event as event_of

STREAM = pb.ClientMessage(request_id=1, stream=pb.StreamMsg(agent="crab", content="go"))
UNSENT = 256 * 1024
PIECE = "x" * 4096


class Speaker:
    """Sends to every reader that has asked, until each has had enough."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.joined = asyncio.Event()

    async def stream(self, _message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
        self.replies.append(reply)
        self.joined.set()
        await reply.closed.wait()

    async def wait_for(self, readers: int) -> None:
        async with asyncio.timeout(30):
            while len(self.replies) < readers:
                self.joined.clear()
                await self.joined.wait()


def test_a_reader_that_stalls_gets_one_error_and_another_gets_everything(tmp_path: Path) -> None:
    async def scene() -> None:
        house, speaker = House(max_unsent=UNSENT), Speaker()
        house.handlers.on["stream"] = speaker.stream
        path = tmp_path / "moot.sock"
        listener = await unix.listen(unix.open_socket(path), house.serving)
        async with peer(path=str(path)) as slow, peer(path=str(path)) as quick:
            slow.send(STREAM)
            await speaker.wait_for(1)
            quick.send(STREAM)
            await speaker.wait_for(2)
            slow_reply, quick_reply = speaker.replies
            slow.reader._transport.pause_reading()  # type: ignore[attr-defined]

            sent = 0
            while not slow_reply.closed.is_set():
                event = event_of(TextChunk(PIECE))
                slow_reply.event(event)
                assert quick_reply.event(event)
                sent += 1
                assert (await quick.receive()).stream.chunk.content == PIECE
            assert slow_reply.event(event_of(TextChunk("more"))) is False
            assert sent * len(PIECE) < UNSENT + 2_000_000

            slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
            received = 0
            while not (answer := await slow.receive()).HasField("error"):
                received += 1
            assert received < sent
            assert (answer.request_id, answer.error.code, answer.error.type) == (1, 429, "fell_behind")
            assert "attach" in answer.error.fix
            assert (await slow.ask(pb.ClientMessage(request_id=2, ping=pb.Ping()))).request_id == 2
            assert quick_reply.event(event_of(TextChunk("the end")))
            assert (await quick.receive()).stream.chunk.content == "the end"
        await listener.close()
        await house.close()

    asyncio.run(scene())


def test_a_client_that_asks_and_never_reads_is_cut_off_before_it_fills_the_memory(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House(max_unsent=UNSENT)
        house.answer("export", pb.ServerMessage(exported=pb.Exported(jsonl="x" * 1_000_000)))
        path = tmp_path / "moot.sock"
        listener = await unix.listen(unix.open_socket(path), house.serving)
        async with peer(path=str(path)) as client:
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            for number in range(200):
                client.send(pb.ClientMessage(request_id=number, export=pb.ExportMsg(agent="crab")))
            client.reader._transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await client.reader.read()) < 20 * 1_000_000
            assert not house.serving.connections
        await listener.close()
        await house.close()

    asyncio.run(scene())


def test_a_websocket_that_stalls_gets_one_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        house, speaker = House(max_unsent=UNSENT), Speaker()
        house.handlers.on["stream"] = speaker.stream
        listener = await http.listen(http.open_port("127.0.0.1:0"), house.serving)
        headers = {"Authorization": f"Bearer {house.bot.secret}"}
        async with (
            aiohttp.ClientSession() as client,
            client.ws_connect(f"http://{listener.address}/ws", headers=headers) as slow,
        ):
            await slow.send_str('{"request_id": "1", "stream": {"agent": "crab", "content": "go"}}')
            await speaker.wait_for(1)
            (reply,) = speaker.replies
            sent = 0
            while reply.event(event_of(TextChunk(PIECE))):
                sent += 1
                # The client's buffer takes some before it stops reading: let it fill.
                await asyncio.sleep(0)
                assert sent < 100_000
            received = 0
            async with asyncio.timeout(20):
                while "fell_behind" not in (text := (await slow.receive_str())):
                    received += 1
            assert received == sent
            assert '"request_id": "1"' in text
        await listener.close()
        await house.close()

    asyncio.run(scene())
    assert not caplog.records
