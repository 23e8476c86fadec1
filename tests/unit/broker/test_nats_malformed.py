"""What no daemon would receive is removed from the stream, and each message that was removed is reported."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from moot.broker.nats_link import NatsLink
from moot.broker.nats_malformed import remove_malformed
from moot.daemon.clock import ManualClock

SUBJECT = "agent.inbox.garbage"


class SlowServer:
    """A stream with messages on one subject. The answer to each acknowledgement takes three seconds."""

    def __init__(self, count: int) -> None:
        self.clock = ManualClock()
        self.removed = 0
        self._count = count
        self.settings = SimpleNamespace(name="desk")
        self.jetstream = self
        self.client = self

    async def call(self, request: Coroutine[Any, Any, Any]) -> Any:
        return await request

    async def stream_info(self, _stream: str, subjects_filter: str = "") -> Any:
        subjects = {SUBJECT: self._count} if subjects_filter else None
        return SimpleNamespace(state=SimpleNamespace(messages=self._count, subjects=subjects))

    def new_inbox(self) -> str:
        return "inbox"

    async def subscribe(self, _inbox: str, cb: Callable[[Any], Awaitable[None]]) -> Any:
        self._deliver = cb
        return SimpleNamespace(unsubscribe=lambda: asyncio.sleep(0))

    async def add_consumer(self, _stream: str, _config: Any) -> Any:
        for number in range(self._count):
            await self._deliver(SimpleNamespace(subject=SUBJECT, reply=f"reply {number}"))
        return SimpleNamespace(num_pending=self._count, num_ack_pending=0)

    async def request(self, _reply: str, _payload: bytes) -> None:
        self.removed += 1
        await self.clock.advance(3.0)

    async def delete_consumer(self, _stream: str, _name: str) -> None:
        return


async def test_what_was_removed_is_reported_however_long_the_server_takes_to_say_so() -> None:
    server = SlowServer(3)
    reported: list[str] = []
    await remove_malformed(cast(NatsLink, server), reported.append)
    assert (server.removed, reported) == (3, [SUBJECT] * 3)
