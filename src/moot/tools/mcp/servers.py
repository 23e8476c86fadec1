"""All configured MCP servers, and their tools behind the Tool port."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.approval import digest
from moot.domain.ask import Binding
from moot.domain.errors import MootError, NotFound
from moot.domain.mcp import McpConfig, Offer, OfferState
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.tools.mcp.server import ConnectionLost, McpDependencies, McpServer


class McpTool(Struct, frozen=True):
    """A tool of a server. It is only ever called through the gate, like every other."""

    _server: McpServer
    _offer: Offer
    spec: ToolSpec

    def line(self, arguments: dict[str, Any]) -> str:
        return f"{self._server.config.name}: {self._offer.tool} {msgspec.json.encode(arguments).decode()}"

    async def bind(self, _arguments: dict[str, Any], _context: RunContext) -> Binding:
        """Return the binding: server and tool in their current form, because others may get the same names."""
        config = self._server.config
        target = (config.command, *config.args, config.cwd, config.url, config.sandbox, str(config.network))
        held = digest(self._offer.digest, *target)
        return Binding(what=f"with its server and its description as they are (sha256 {held[:32]})")

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return await self._server.call(self._offer.tool, arguments, context)

    async def recover(self, error: Exception) -> bool:
        """Reconnect after the server was lost; return whether it is back and the call may be repeated."""
        if not isinstance(error, ConnectionLost) or self.spec.safety is not Safety.SAFE:
            return False
        try:
            await self._server.refresh(again=True)
        except MootError:
            # `problem` says it to whoever asks.
            return False
        return True


class McpServers:
    """All configured servers. None is started before `refresh` or the first call of a known tool."""

    def __init__(self, configs: Mapping[str, McpConfig], needs: McpDependencies) -> None:
        self._needs = needs
        self._servers = {name: self._server(config) for name, config in configs.items()}
        # Removed servers that are being closed.
        self._closing: set[McpServer] = set()
        self._is_closed = False

    def _server(self, config: McpConfig) -> McpServer:
        return McpServer(config, self._needs)

    def names(self) -> list[str]:
        return list(self._servers)

    def config(self, name: str) -> McpConfig:
        return self._find_server(name).config

    def tools(self) -> list[Tool]:
        """Return the tools that can be used now."""
        return [
            McpTool(server, one.offer, one.spec)
            for server in self._servers.values()
            for one in server.list_tools()
            if one.spec is not None and one.offer.state is OfferState.READY
        ]

    def is_boxed(self, name: str) -> bool:
        """Return whether the server is a program in the sandbox."""
        return self._find_server(name).is_boxed

    def offers(self, name: str) -> list[Offer]:
        """Return the tools that the server listed last, usable or not."""
        return sorted((one.offer for one in self._find_server(name).list_tools()), key=lambda offer: offer.tool)

    def problem(self, name: str) -> str:
        """Return why the server cannot be used; empty if no problem is known."""
        return self._find_server(name).problem

    async def refresh(self, name: str = "") -> None:
        """Connect and list the tools of one server, raising errors; or of all, with errors reported by `problem`."""
        if name:
            await self._find_server(name).refresh(again=True)
            return
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(_refresh_quietly(server))

    async def refresh_changed(self) -> None:
        """List again the tools of connected servers that have said that their tools changed."""
        async with asyncio.TaskGroup() as group:
            for server in self._servers.values():
                group.create_task(_refresh_if_changed(server))

    async def decide(self, name: str, digests: Collection[str], *, approved: bool) -> list[Offer]:
        """Approve or deny the tools of a server that have these texts."""
        return await self._find_server(name).decide(digests, approved=approved)

    async def replace(self, configs: Mapping[str, McpConfig], needs: McpDependencies) -> None:
        """Apply a new configuration: unchanged servers stay connected, the others are closed."""
        if self._is_closed:
            return
        self._needs = needs
        gone = [server for name, server in self._servers.items() if not server.suits(configs.get(name), needs)]
        kept = {name: server for name, server in self._servers.items() if server not in gone}
        self._servers = {name: kept.get(name) or self._server(config) for name, config in configs.items()}
        self._closing.update(gone)
        await _close(gone)
        self._closing.difference_update(gone)

    async def close(self) -> None:
        """Close all servers for good, and wait also for those that were removed shortly before."""
        self._is_closed = True
        closing = self._needs.start("close mcp servers", _close([*self._servers.values(), *self._closing]))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            # Its processes would be left behind; waiting for their ends is bounded.
            await closing
            raise

    def _find_server(self, name: str) -> McpServer:
        server = self._servers.get(name)
        if server is None:
            raise NotFound(f"there is no MCP server {name!r}", fix="`moot mcp list` lists them.")
        return server


async def _refresh_quietly(server: McpServer) -> None:
    try:
        await server.refresh()
    except MootError:
        # `problem` says it to whoever asks.
        return


async def _refresh_if_changed(server: McpServer) -> None:
    try:
        await server.refresh_if_changed()
    except MootError:
        # What it listed before is shown; its next use connects again.
        return


async def _close(servers: list[McpServer]) -> None:
    async with asyncio.TaskGroup() as group:
        for server in servers:
            group.create_task(server.close())
