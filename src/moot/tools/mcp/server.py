"""One MCP server: connects on demand, reconnects with back-off, offers approved tools and limits its calls."""

import asyncio
import contextvars
import os
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.errors import Conflict, Forbidden, MootError, Unavailable
from moot.domain.mcp import McpConfig, Offer, OfferState, TextDecision
from moot.domain.ports.agent_data import McpDecisions
from moot.domain.ports.clock import Clock, Timeout
from moot.domain.ports.secrets import Reveal
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.reference import is_reference
from moot.tools.mcp import forms
from moot.tools.mcp.http import http_transport
from moot.tools.mcp.link import McpConnection
from moot.tools.mcp.offers import InspectedTool, inspect_tools
from moot.tools.mcp.results import to_tool_result
from moot.tools.mcp.stdio import Command, stdio_transport
from moot.tools.sandbox.sandbox import Sandbox

# Supervisor.start; the supervisor owns the task that holds a connection.
Start = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
_CLOSE_SECONDS = 5.0
_CANCEL_SECONDS = 1.0
# In one call: more would only fill somebody's inbox.
_MOST_QUESTIONS = 16
_LATER = "Try again later, or continue without it."
_IN_THE_BOX = (
    " (It runs in the sandbox: `readable` and `cwd` give it folders, `network = true` the network, and"
    ' `sandbox = "off"` runs it without.)'
)


class _Call(Struct, eq=False):
    """A call in flight, to find the run that a question of the server belongs to."""

    context: RunContext
    deadline: Timeout
    seconds: float
    # How often the server has asked.
    questions: int = 0


class ConnectionLost(Unavailable):
    """The connection was lost during a call."""


_CURRENT: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("mcp_call", default=None)


class McpDependencies(Struct, frozen=True, kw_only=True):
    """What every server is given by the daemon.

    `reveal` looks up the secrets that its configuration refers to; `room` creates the folder of a server without one;
    `redact` removes every known secret from a text; `changed` is called when the tools of a server may have changed.
    """

    decisions: McpDecisions
    start: Start
    clock: Clock
    reveal: Reveal
    sandbox: Sandbox
    room: Callable[[str], str]
    redact: Callable[[str], str]
    changed: Callable[[], None]


class McpServer:
    def __init__(self, config: McpConfig, needs: McpDependencies) -> None:
        self.config = config
        self._needs = needs
        self._connecting = asyncio.Lock()
        # One list at a time, so that a list checked against older decisions does not replace a newer one.
        self._listing = asyncio.Lock()
        self._link: McpConnection | None = None
        # The tasks of all connections that have not ended: also of those that are being closed.
        self._holding: set[asyncio.Task[None]] = set()
        self._known: dict[str, InspectedTool] = {}
        self._calls: set[_Call] = set()
        self._failures = 0
        self._not_before = 0.0
        self._is_removed = False
        self._problem = "" if config.enabled else "it is disabled"
        self._said = ""
        self._secrets: list[str] = []

    # ---- what people and the daemon see -----------------------------------------------------------

    @property
    def is_boxed(self) -> bool:
        """Return whether the server is a program in the sandbox."""
        return bool(self.config.command) and self.config.sandbox == "on" and self._needs.sandbox.config.mode != "none"

    def suits(self, config: McpConfig | None, needs: McpDependencies) -> bool:
        """Return whether the server can be kept under this configuration."""
        return config == self.config and (not self.is_boxed or needs.sandbox is self._needs.sandbox)

    @property
    def problem(self) -> str:
        """Return why none of its tools can be used; empty if they can, or if it was not tried yet."""
        return self._problem

    def list_tools(self) -> list[InspectedTool]:
        return list(self._known.values())

    async def refresh(self, *, again: bool = False) -> None:
        """Connect if necessary and list the tools. `again` ignores the pause after a failure."""
        if again:
            self._not_before = 0.0
        link = await self._ensure_connected()
        await self._list(link)

    async def refresh_if_changed(self) -> None:
        """List the tools again if the server has said that they changed. Does not connect."""
        if self._link is not None and self._link.alive and self._link.stale:
            await self._list(self._link)

    async def decide(self, digests: Collection[str], *, approved: bool) -> list[Offer]:
        """Approve or deny the tools with these texts; return them. Raise Conflict if the server says something else."""
        await self.refresh(again=True)
        offers = {one.offer.digest: one.offer for one in self._known.values() if one.offer.digest}
        if gone := [digest for digest in digests if digest not in offers]:
            raise Conflict(
                f"{len(gone)} of the texts that were shown are no longer those of the MCP server {self.config.name}",
                fix=f"Read them again with `moot mcp test {self.config.name}`.",
            )
        decided = [offers[digest] for digest in dict.fromkeys(digests)]
        now = self._needs.clock.now()
        await self._needs.decisions.decide(
            self.config.name,
            [
                TextDecision(
                    tool=offer.tool, digest=offer.digest, text=offer.text, is_approved=approved, decided_at=now
                )
                for offer in decided
            ],
        )
        await self._list(await self._ensure_connected())
        return decided

    async def close(self) -> None:
        """Disconnect for good, and wait for the end of every connection: the server was removed, or the daemon stops.

        May be called again while it is being closed.
        """
        self._is_removed = True
        link, self._link = self._link, None
        if link is not None:
            link.drop()
        if self._holding:
            holding = tuple(self._holding)
            await self._wait_for_end(holding, _CLOSE_SECONDS)
            waiting = [task for task in holding if not task.done()]
            for task in waiting:
                task.cancel()
            if waiting:
                await self._wait_for_end(waiting, _CANCEL_SECONDS)

    async def _wait_for_end(self, tasks: "Collection[asyncio.Task[None]]", seconds: float) -> None:
        with suppress(TimeoutError):
            async with self._needs.clock.timeout(seconds):
                await asyncio.wait(tasks)

    # ---- calling ----------------------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        link = await self._ensure_connected()
        if link.stale:
            await self._list(link)
        self._require_ready(tool)
        try:
            deadline = self._needs.clock.timeout(self.config.call_seconds)
            async with deadline:
                call = _Call(context, deadline, self.config.call_seconds)
                self._calls.add(call)
                token = _CURRENT.set(call)
                try:
                    result = await link.call(tool, arguments)
                    # In a thread, because a server can answer with megabytes.
                    return await asyncio.to_thread(to_tool_result, result, self._needs.redact)
                finally:
                    _CURRENT.reset(token)
                    self._calls.discard(call)
        except TimeoutError as error:
            raise self._unavailable_error(f"did not answer within {self.config.call_seconds:g} seconds") from error
        except MootError:
            raise
        except Exception as error:  # noqa: BLE001  a foreign program can fail in any way, and each means the same
            return self._handle_break(link, error)

    def _require_ready(self, tool: str) -> None:
        one = self._known.get(tool)
        if one is None:
            raise Unavailable(f"the MCP server {self.config.name} no longer offers this tool").mark_untainted()
        if one.offer.state is not OfferState.READY:
            raise Forbidden(
                f"this tool is disabled: {one.offer.reason}",
                fix=f"The owner can read what it says and approve it with `moot mcp approve {self.config.name}`.",
            ).mark_untainted()

    def _handle_break(self, link: McpConnection, error: Exception) -> ToolResult:
        code = getattr(error, "code", None)
        if isinstance(code, int) and link.alive and code != _CONNECTION_CLOSED:
            # An error of the server itself is a result.
            return ToolResult(content=self._needs.redact(str(error))[:2000], is_error=True)
        link.drop()
        raise ConnectionLost(
            f"the MCP server {self.config.name} disconnected during the call; whether it had an effect is not known",
            fix=_LATER,
        ) from error

    def _unavailable_error(self, what: str) -> Unavailable:
        return Unavailable(f"the MCP server {self.config.name} {what}", fix=_LATER)

    # ---- connecting -------------------------------------------------------------------------------

    async def _ensure_connected(self) -> McpConnection:
        self._require_configured()
        if not self.config.enabled:
            raise self._unavailable_error("is disabled").mark_untainted()
        async with self._connecting:
            self._require_configured()
            if self._link is not None and self._link.alive:
                return self._link
            wait = self._not_before - self._needs.clock.monotonic()
            if wait > 0:
                raise self._unavailable_error(
                    f"is not available; the next attempt is in {wait:.0f} seconds"
                ).mark_untainted()
            return await self._connect()

    def _require_configured(self) -> None:
        """Raise if the server was removed. A call that waited for approval meanwhile must not start it again."""
        if self._is_removed:
            text = f"the MCP server {self.config.name} was removed or replaced"
            raise Unavailable(text, fix="Make the call again if its tools are still there.").mark_untainted()

    async def _connect(self) -> McpConnection:
        self._said = ""
        seconds, clock = self.config.connect_seconds, self._needs.clock
        link = McpConnection(self._open_streams, self._on_elicitation, seconds=seconds, clock=clock)
        self._link = link
        holding = self._needs.start(f"mcp {self.config.name}", link.hold())
        self._holding.add(holding)
        holding.add_done_callback(self._holding.discard)
        try:
            await link.wait_until_open()
            self._require_configured()
            self._failures = 0
            self._problem = ""
            await self._list(link)
        except MootError as error:
            link.drop()
            self._failures += 1
            pause = min(FIRST_PAUSE * 2 ** (self._failures - 1), LONGEST_PAUSE)
            self._not_before = self._needs.clock.monotonic() + pause
            self._problem = self._explain_error(error)
            reported = self._unavailable_error(f"cannot be used: {error.message}")
            raise (reported.mark_untainted() if error.is_untainted else reported) from error
        return link

    def _explain_error(self, error: MootError) -> str:
        text = " ".join(self._said.split())
        for secret in self._secrets:
            text = text.replace(secret, "…")
        where = _IN_THE_BOX if self.is_boxed and text else ""
        return f"{error.message}. {error.fix}".strip() + (f" It said: {text[-500:]}" if text else "") + where

    def _open_streams(self, link: McpConnection) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        return self._stdio_streams(link) if self.config.command else self._http_streams()

    @asynccontextmanager
    async def _stdio_streams(self, link: McpConnection) -> Any:
        def keep_output(text: str) -> None:
            self._said = text

        command = Command(
            argv=(self.config.command, *self.config.args),
            env=await self._reveal_values("env", self.config.env),
            cwd=await asyncio.to_thread(self._working_folder),
            on_output=keep_output,
            on_end=link.drop,
            clock=self._needs.clock,
            sandbox=self._build_sandbox if self.is_boxed else None,
        )
        async with stdio_transport(command) as streams:
            yield streams

    def _working_folder(self) -> str:
        if self.config.cwd:
            return os.path.expanduser(self.config.cwd)
        return self._needs.room(self.config.name) if self.is_boxed else ""

    def _build_sandbox(self, folders: Sequence[str]) -> Sandbox:
        return self._needs.sandbox.lending(network=self.config.network, readable=(*self.config.readable, *folders))

    @asynccontextmanager
    async def _http_streams(self) -> Any:
        headers = await self._reveal_values("headers", self.config.headers, host=urlsplit(self.config.url).hostname)
        seconds, clock = self.config.connect_seconds, self._needs.clock
        async with http_transport(self.config.url, headers, seconds=seconds, clock=clock) as streams:
            yield streams

    async def _reveal_values(self, key: str, values: Mapping[str, str], *, host: str | None = None) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in values.items():
            found[name] = value
            if is_reference(value):
                place = f"[mcp.{self.config.name}] {key}.{name}"
                found[name] = await self._needs.reveal(value, place=place, host=host or "")
                self._secrets.append(found[name])
        return found

    # ---- listing ----------------------------------------------------------------------------------

    async def _list(self, link: McpConnection) -> None:
        """List the tools, and check them against what the owner has approved."""
        async with self._listing:
            self._known = await self._inspect(link)
        self._needs.changed()

    async def _inspect(self, link: McpConnection) -> dict[str, InspectedTool]:
        try:
            async with self._needs.clock.timeout(self.config.connect_seconds):
                listed = await link.tools()
        except Exception as error:
            link.drop()
            raise self._unavailable_error("did not list its tools") from error
        decisions = await self._needs.decisions.decisions(self.config.name)
        # A server without a network cannot send data out.
        config = replace(self.config, egress=False) if self.is_boxed and not self.config.network else self.config
        # In a thread, because a server can list megabytes.
        found = await asyncio.to_thread(inspect_tools, config, listed, decisions)
        return {one.offer.tool: one for one in reversed(found)}

    # ---- questions of the server ------------------------------------------------------------------

    async def _on_elicitation(self, params: Any) -> Any:
        """Forward a question of the server to the person of the calling run; without one it is not answered."""
        from mcp_types import ElicitResult  # noqa: PLC0415  an extra, and slow to import

        call = _CURRENT.get() or (next(iter(self._calls)) if len(self._calls) == 1 else None)
        if call is None or call.questions >= _MOST_QUESTIONS:
            return ElicitResult(action="cancel")
        call.questions += 1
        # The time limit of the server does not include waiting for a person.
        call.deadline.reschedule(None)
        try:
            content = await self._answer_elicitation(call, params)
            return ElicitResult(action="accept", content=content)
        except forms.Declined:
            return ElicitResult(action="decline")
        except MootError:
            return ElicitResult(action="cancel")
        finally:
            call.deadline.reschedule(self._needs.clock.monotonic() + call.seconds)

    async def _answer_elicitation(self, call: _Call, params: Any) -> Any:
        ask, server = call.context.ask, self.config.name
        if getattr(params, "mode", "form") == "url":
            await forms.confirm_visit(ask, server=server, message=params.message, url=str(params.url))
            return None
        return await forms.fill_form(ask, server=server, message=params.message, schema=params.requested_schema)


# The SDK's code for a connection that ended; repeated here because the SDK is imported only when needed.
_CONNECTION_CLOSED = -32000
