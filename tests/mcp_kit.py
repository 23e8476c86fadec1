"""Starts the MCP server of the tests and builds the classes that connect to it, with a real store and supervisor."""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from moot.daemon.clock import SystemClock
from moot.domain.config import SandboxConfig
from moot.domain.mcp import WAITING, McpConfig
from moot.domain.ports.tool import ToolResult
from moot.engine.supervisor import Supervisor
from moot.redaction.redactor import Redactor
from moot.store.mcp_decisions import SqliteMcpDecisions
from moot.store.sqlite import open_store
from moot.tools.mcp.server import McpDependencies
from moot.tools.mcp.servers import McpServers
from moot.tools.sandbox.sandbox import Sandbox
from tests.configured_keys import reveal
from tests.daemon_process import LiveDaemon
from tests.web_server import context, nobody

SCRIPT = Path(__file__).with_name("mcp_server.py")


class Time(SystemClock):
    """The real clock, which a test can move on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def tool(name: str, description: str = "does it", **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


class Kit:
    def __init__(self, folder: Path, servers: McpServers, needs: McpDependencies, clock: Time) -> None:
        self.folder = folder
        self.servers = servers
        self.needs = needs
        self.clock = clock

    def offer(self, *tools: dict[str, Any], **state: Any) -> None:
        write_state(self.folder, *tools, **state)

    async def approve(self) -> list[str]:
        """Connect, approve everything that waits, and return the names of these tools."""
        name = next(iter(self.servers.names()))
        await self.servers.refresh()
        waiting = [offer.digest for offer in self.servers.offers(name) if offer.state in WAITING]
        return [offer.tool for offer in await self.servers.decide(name, waiting, approved=True)] if waiting else []

    async def call(self, name: str, arguments: dict[str, Any] | None = None, *, ask: Any = nobody) -> ToolResult:
        found = next(tool for tool in self.servers.tools() if tool.spec.name == name)
        result = await found(arguments or {}, context(ask=ask))
        assert isinstance(result, ToolResult)
        return result


def approve_tools(daemon: LiveDaemon, name: str) -> list[dict[str, Any]]:
    """Approve everything that a server of a running daemon says of its tools; return the tools."""
    waiting = daemon.cli_json("mcp", "test", name)["data"]["waiting"]
    if waiting:
        daemon.cli_json("mcp", "approve", name, "--digest", waiting)
    found: list[dict[str, Any]] = daemon.cli_json("mcp", "test", name)["data"]["tools"]
    return found


def write_state(folder: Path, *tools: dict[str, Any], **state: Any) -> Path:
    path = folder / "state.json"
    path.write_text(json.dumps({"tools": list(tools), **state}), encoding="utf-8")
    return path


def command(folder: Path, **values: Any) -> McpConfig:
    defaults: dict[str, Any] = {
        "name": "box",
        "command": sys.executable,
        # The wall around a server has tests of its own; the others look at what it says.
        "sandbox": "off",
        "args": (str(SCRIPT), str(folder / "state.json")),
    }
    return McpConfig(**(defaults | values))


@asynccontextmanager
async def kit(
    folder: Path,
    *tools: dict[str, Any],
    state: dict[str, Any] | None = None,
    protected: Sequence[Path] = (),
    redactor: Redactor | None = None,
    **config: Any,
) -> AsyncIterator[Kit]:
    """One server named box, not connected yet."""
    write_state(folder, *tools, **(state or {}))
    store = await open_store(folder / "moot.db", SystemClock())
    supervisor = Supervisor(SystemClock())
    clock = Time()
    configured = command(folder, **config)
    needs = McpDependencies(
        decisions=SqliteMcpDecisions(store),
        start=supervisor.start,
        clock=clock,
        reveal=reveal,
        sandbox=Sandbox(SandboxConfig(), protected=protected, clock=SystemClock()),
        room=lambda name: str(folder),
        redact=redactor or Redactor(),
        changed=lambda: None,
    )
    servers = McpServers({configured.name: configured}, needs)
    try:
        yield Kit(folder, servers, needs, clock)
    finally:
        await servers.close()
        await supervisor.stop()
        await store.close()
