"""A live connection to one MCP server, owned by one task. Used by `server`."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from moot import __version__
from moot.domain.errors import MootError, Unavailable
from moot.domain.ports.clock import Clock
from moot.tools.mcp.offers import MOST_TOOLS, ListedTool

Streams = AbstractAsyncContextManager[tuple[Any, Any]]
# Handles a server's question to a person: the SDK's request and response.
Elicit = Callable[[Any], Awaitable[Any]]

_MOST_PAGES = 32


class McpConnection:
    """`hold` connects and stays until `drop`; everything else may be called from any task once `opened` says so."""

    def __init__(
        self, streams: Callable[["McpConnection"], Streams], elicit: Elicit, *, seconds: float, clock: Clock
    ) -> None:
        self._streams = streams
        self._clock = clock
        self._seconds = seconds
        self._elicit = elicit
        self._over = asyncio.Event()
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Retrieve the exception, as nobody may wait for the future when it fails.
        self._opened.add_done_callback(lambda future: future.cancelled() or future.exception())
        self.stale = True

    @property
    def alive(self) -> bool:
        return not self._over.is_set()

    def drop(self) -> None:
        self._over.set()

    async def wait_until_open(self) -> None:
        """Wait for the connection. Raise MootError if it failed."""
        await asyncio.shield(self._opened)

    async def hold(self) -> None:
        try:
            # In a thread, because the imports take half a second.
            client_class, info = await asyncio.to_thread(_import_sdk)
            client = client_class(
                _screen_streams(self._streams(self)),
                client_info=info,
                cache=None,
                elicitation_callback=self._on_elicitation,
                message_handler=self._on_message,
            )
            async with AsyncExitStack() as stack:
                async with self._clock.timeout(self._seconds):
                    connected = await stack.enter_async_context(client)
                self._opened.set_result(connected)
                await self._over.wait()
        except TimeoutError:
            self._fail(Unavailable(f"it did not answer within {self._seconds:g} seconds"))
        except MootError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  a foreign program can fail in any way, and each means the same
            self._fail(Unavailable(_describe_error(error)))
        finally:
            self._over.set()
            if not self._opened.done():
                self._opened.set_exception(Unavailable("it was closed before it answered"))

    def _fail(self, error: MootError) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)

    async def tools(self) -> list[ListedTool]:
        """Return the tools the server lists, up to slightly more than the accepted number."""
        found: list[ListedTool] = []
        cursor: str | None = None
        self.stale = False
        for _ in range(_MOST_PAGES):
            page = await self._opened.result().list_tools(cursor=cursor)
            found += [
                ListedTool(name=tool.name, description=tool.description or "", schema=tool.input_schema)
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None or len(found) > MOST_TOOLS:
                break
        return found[: MOST_TOOLS + 1]

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return await self._opened.result().call_tool(tool, arguments)

    async def _on_elicitation(self, _context: Any, params: Any) -> Any:
        return await self._elicit(params)

    async def _on_message(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self.stale = True


@asynccontextmanager
async def _screen_streams(streams: Streams) -> AsyncIterator[tuple[Any, Any]]:
    async with streams as (read, write):
        yield _ScreenedStream(read), write


class _ScreenedStream:
    """Removes the output schemas from the tools that a server lists.

    The SDK would validate every result against them, with patterns that the server chose. Such a pattern can block the
    event loop for ever, and Moot does not need the schemas.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        return _without_output_schemas(await self._inner.receive())

    def __aiter__(self) -> "_ScreenedStream":
        return self

    async def __anext__(self) -> Any:
        return _without_output_schemas(await self._inner.__anext__())

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> "_ScreenedStream":
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


def _without_output_schemas(item: Any) -> Any:
    result = getattr(getattr(item, "message", None), "result", None)
    listed = result.get("tools") if isinstance(result, dict) else None
    for tool in listed if isinstance(listed, list) else ():
        if isinstance(tool, dict):
            tool.pop("outputSchema", None)
    return item


def _import_sdk() -> tuple[Any, Any]:
    try:
        from mcp import Client  # noqa: PLC0415  an extra, and slow to import
        from mcp_types import Implementation  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "MCP servers need an optional package that is not installed", fix="Run: pip install 'moot[mcp]'"
        ).mark_untainted() from error
    # Data from servers must not be logged, nor URLs, which may contain secrets.
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return Client, Implementation(name="moot", version=__version__)


def _describe_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
