"""HTTP transport for the MCP SDK that limits the size of every response, compressed or not.

It imports a library of the `mcp` extra, so it is only imported when a server is used.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from moot.domain.ports.clock import Clock
from moot.tools.mcp.message_limits import half_of_the_time, has_too_many_values

MAX_ANSWER = 8 * 1024 * 1024
# What stands between two events.
_GAPS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class BoundedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            # It was asked not to; unpacking is where a small answer becomes a huge one.
            raise httpx2.ReadError("the answer is compressed")
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        kind = _BoundedEvents if is_events else _BoundedStream
        response.stream = kind(response.stream, self._clock)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    """The whole answer in one piece, because only then it is known how many values it has."""

    def __init__(self, inner: Any, clock: Clock) -> None:
        self._clock = clock
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        answer = bytearray()
        async for chunk in self._inner:
            answer += chunk
            _check_length(answer)
        yield _check_values(bytes(answer))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedEvents(_BoundedStream):
    """A stream of events, which may go on for long. Each is handed on when it is complete."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = bytearray()
        async for chunk in self._inner:
            begun += chunk
            _check_length(begun)
            end = max(begun.rfind(gap, max(0, len(begun) - len(chunk) - 3)) + len(gap) for gap in _GAPS)
            if end > 3:
                events = bytes(begun[:end])
                del begun[:end]
                async with half_of_the_time(self._clock):
                    yield _check_values(events)
        if begun:
            yield _check_values(bytes(begun))


def _check_length(answer: bytes | bytearray) -> None:
    if len(answer) > MAX_ANSWER:
        raise httpx2.ReadError("the answer is too long")


def _check_values(answer: bytes) -> bytes:
    if has_too_many_values(answer):
        raise httpx2.ReadError("the answer has too many values")
    return answer
