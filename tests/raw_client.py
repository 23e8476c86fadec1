"""A client that sends raw bytes, for invalid requests, and the addresses of a daemon's other listeners."""

import asyncio
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from moot.wire import moot_pb2 as pb
from moot.wire.codec import encode_frame
from tests.daemon_process import LiveDaemon


class Raw:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def receive(self) -> pb.ServerMessage:
        async with asyncio.timeout(30):
            (length,) = struct.unpack(">I", await self.reader.readexactly(4))
            return pb.ServerMessage.FromString(await self.reader.readexactly(length))

    async def ask(self, message: pb.ClientMessage) -> pb.ServerMessage:
        self.writer.write(encode_frame(message))
        return await self.receive()

    async def ended(self) -> bool:
        """Whether the daemon closed without another byte."""
        async with asyncio.timeout(30):
            return await self.reader.read() == b""


@asynccontextmanager
async def raw(daemon: LiveDaemon) -> AsyncIterator[Raw]:
    client = Raw(*await asyncio.open_unix_connection(str(daemon.home.socket)))
    try:
        yield client
    finally:
        client.writer.close()
        with suppress(ConnectionError):
            await client.writer.wait_closed()


def http_address(daemon: LiveDaemon) -> str:
    found = re.search(r"http://\S+", daemon.ready_line)
    assert found
    return found[0]


def tcp_address(daemon: LiveDaemon) -> str:
    found = re.search(r"tcp:(\S+)", daemon.ready_line)
    assert found
    return found[1]
