"""HTTP transport for the MCP SDK that limits the size of every response, compressed or not.

It imports a library of the `mcp` extra, so it is only imported when a server is used.
"""

from collections.abc import AsyncIterator
from typing import Any

import httpx2

MAX_ANSWER = 8 * 1024 * 1024


class BoundedTransport(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            # It was asked not to; unpacking is where a small answer becomes a huge one.
            raise httpx2.ReadError("the answer is compressed")
        # A stream of events may go on for long; the SDK bounds each event of it.
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._left = MAX_ANSWER

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.ReadError("the answer is too long")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
