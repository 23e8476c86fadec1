"""A web server on loopback and a resolver, both programmed by the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from moot.domain.config import WebConfig
from moot.domain.conversation import ConversationKey
from moot.domain.ports.tool import RunContext

Handler = Callable[[Any], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    port: int
    requests: list[web.BaseRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def config(self, **values: Any) -> WebConfig:
        """A configuration that may reach this server and nothing else on the machine."""
        return WebConfig(allow_private=(f"127.0.0.1:{self.port}",), **values)


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Site]:
    site = Site(port=0)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        site.requests.append(request)
        return await handler(request)

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    assert isinstance(listening._server, asyncio.Server)
    site.port = listening._server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        await runner.cleanup()


class Names(AbstractResolver):
    """Answers each look-up with the next list of addresses, and stays with the last."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        return None


async def nobody(questions: Any) -> str:
    raise AssertionError("nobody is to be asked")


def context(*, ask: Any = nobody, cwd: str = "/") -> RunContext:
    return RunContext(
        run_id="r1", key=ConversationKey("ada", "user"), speaker="ada", cwd=cwd, emit=lambda event: None, ask=ask
    )
