"""MCP over streamable HTTP: the SDK's transport on a `bounded` client."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from moot.domain.ports.clock import Clock

_READ_SECONDS = 300.0


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], *, seconds: float, clock: Clock
) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams that the SDK uses. Redirects are only followed within the server's origin."""
    import httpx2  # noqa: PLC0415  comes with the extra
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415  an extra, and slow to import

    from moot.tools.mcp.bounded import BoundedTransport  # noqa: PLC0415  imports the extra

    client = httpx2.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(seconds, read=_READ_SECONDS),
        transport=BoundedTransport(clock),
        trust_env=False,
        follow_redirects=False,
    )
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams
