"""Keeps a client connected: opens a `connection` when needed, again after a loss; starts the daemon if wanted."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

from moot.client import daemon_process
from moot.client.connection import Connection, connect
from moot.client.errors import Unreachable
from moot.daemon.paths import Paths
from moot.wire import moot_pb2 as pb

_RETRY_SECONDS = 0.2


class Link:
    """The one connection of a client. After a loss, `reopen` waits for the daemon for at most `patience` seconds."""

    def __init__(self, address: str, token: str, *, home: Path | None, start: bool, patience: float) -> None:
        self._address = address
        # A daemon elsewhere has other folders and programs.
        self.is_local = not address
        self._token = token
        self._environment = dict(os.environ) | ({"MOOT_HOME": str(home)} if home is not None else {})
        self._start = start and not address
        self._patience = patience
        self._connection: Connection | None = None
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()

    async def open(self) -> Connection:
        """The connection; a new one if there is none or the last one was lost."""
        async with self._opening:
            if self._connection is None or self._connection.is_lost:
                await self.close()
                self._connection = await self._connect()
            return self._connection

    async def reopen(self, loss: Unreachable) -> None:
        """Connect again after a loss. Raises the loss if the daemon does not come back in time."""
        try:
            async with asyncio.timeout(self._patience):
                while True:
                    try:
                        await self.open()
                    except Unreachable:
                        await asyncio.sleep(_RETRY_SECONDS)
                    else:
                        return
        except TimeoutError:
            raise loss from None

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        return await (await self.open()).request(message)

    async def close(self) -> None:
        self._connection = None
        await self._stack.aclose()

    async def _connect(self) -> Connection:
        if self._address:
            return await self._stack.enter_async_context(connect(self._address, token=self._token))
        paths = Paths.find(self._environment)
        if self._start and not await daemon_process.is_answering(paths):
            await daemon_process.start(paths, self._environment)
        return await self._stack.enter_async_context(connect(paths.socket))
