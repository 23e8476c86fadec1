"""What the tests of the doors share: a fake store of tokens, a clock, handlers that do as told, and a client."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec.structs import replace

from moot.daemon.clock import ManualClock, SystemClock
from moot.daemon.principal import NewToken, Principal, Principals, make_token
from moot.daemon.requests.admission import Admission, ConnectionLimits
from moot.daemon.requests.exchange import Serving
from moot.daemon.requests.reply import Reply
from moot.domain.errors import BadRequest
from moot.domain.token import Token
from moot.engine.supervisor import Supervisor
from moot.wire import moot_pb2 as pb
from moot.wire.codec import encode_frame

Handler = Callable[[pb.ClientMessage, Principal, Reply], Awaitable[None]]


class TokenStore:
    """The part of a store the doors use."""

    def __init__(self, *made: NewToken) -> None:
        self.by_digest = {each.digest: replace(each.token, sender=each.token.name) for each in made}
        self.looked_up = 0
        self.touched: list[str] = []

    async def find_token(self, digest: str) -> Token | None:
        self.looked_up += 1
        return self.by_digest.get(digest)

    async def touch_token(self, name: str, *, now: float) -> None:
        self.touched.append(name)


class FakeHandlers:
    """Answers each kind of request with the function put in `on`; keeps what it was asked, and by whom."""

    def __init__(self) -> None:
        self.on: dict[str, Handler] = {}
        self.asked: list[tuple[pb.ClientMessage, Principal]] = []

    async def handle(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        self.asked.append((message, principal))
        handler = self.on.get(message.WhichOneof("message") or "")
        if handler is None:
            raise BadRequest("nothing set for this", fix="set it in the test")
        await handler(message, principal, reply)


class House:
    """A serving with one token, `bot`, which also owns `tg:*`."""

    def __init__(self, connection_limits: ConnectionLimits | None = None, **limits: Any) -> None:
        self.bot = make_token("bot", ("tg:*",), now=1.0)
        self.store = TokenStore(self.bot)
        self.clock = ManualClock(1_000.0)
        self.handlers = FakeHandlers()
        self.tasks = Supervisor(SystemClock())
        self.principals = Principals(self.store, self.clock)  # type: ignore[arg-type]
        self.admission = Admission(self.clock, connection_limits)
        self.serving = Serving(
            handlers=self.handlers,
            tasks=self.tasks,
            principals=self.principals,
            admission=self.admission,
            **limits,
        )

    def answer(self, kind: str, *messages: pb.ServerMessage) -> None:
        async def handler(_message: pb.ClientMessage, _principal: Principal, reply: Reply) -> None:
            for message in messages:
                reply.send(message)

        self.handlers.on[kind] = handler

    async def close(self) -> None:
        await self.serving.close(grace=1.0)
        await self.tasks.stop(grace=1.0)


class Peer:
    """A client that speaks bytes, so that it can also speak badly."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, message: pb.ClientMessage) -> None:
        self.writer.write(encode_frame(message))

    async def receive(self) -> pb.ServerMessage:
        async with asyncio.timeout(30):
            (length,) = struct.unpack(">I", await self.reader.readexactly(4))
            return pb.ServerMessage.FromString(await self.reader.readexactly(length))

    async def ask(self, message: pb.ClientMessage) -> pb.ServerMessage:
        self.send(message)
        return await self.receive()

    async def ended(self) -> bool:
        """Whether the other side has closed without another byte."""
        async with asyncio.timeout(30):
            return await self.reader.read(1) == b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def peer(*, path: str = "", address: str = "") -> AsyncIterator[Peer]:
    if path:
        streams = await asyncio.open_unix_connection(path)
    else:
        host, _, port = address.rpartition(":")
        streams = await asyncio.open_connection(host.strip("[]"), int(port))
    client = Peer(*streams)
    try:
        yield client
    finally:
        await client.close()
