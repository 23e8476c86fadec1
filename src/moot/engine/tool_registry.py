"""ToolRegistry: all tools of a daemon, by name. Tools are registered here and read by engine/gate.py."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from moot.domain.config import Config
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import Tool
from moot.domain.prompt import CONTROL

# How long it may take until a new skill or server is noticed.
_LOOK_AGAIN_SECONDS = 0.05
# How long runs wait for tools that are being listed. A server that answers later is used from the next run on.
_LISTING_SECONDS = 10.0

# Returns tools that may change at any time, such as the scripts of skills.
ToolSource = Callable[[], Sequence[Tool]]


class ToolRegistry:
    """All tools. An added tool never replaces a built-in one with the same name."""

    def __init__(self, *, config: Callable[[], Config], clock: Clock, has_coordinator: Callable[[], bool]) -> None:
        self._config = config
        # Whether an agent directs others although they do not work as a team.
        self._has_coordinator = has_coordinator
        self._clock = clock
        self._built_in: Mapping[str, Tool] = {}
        self._registered: tuple[Tool, ...] = ()
        self._sources: Sequence[ToolSource] = ()
        self._tools: Mapping[str, Tool] = {}
        self._added: list[Tool] = []
        self._looked_at = -math.inf
        self._had_control = False
        self._disabled: frozenset[str] = frozenset()
        self._listing: asyncio.Task[None] | None = None

    def set_built_in(self, tools: Mapping[str, Tool], sources: Sequence[ToolSource] = ()) -> None:
        """Replace the built-in tools and the sources of other tools."""
        self._built_in, self._sources = tools, sources
        self._tools, self._added = tools, []
        self.look_again()

    def register(self, *tools: Tool) -> None:
        """Add tools permanently, beside the built-in ones."""
        self._registered = (*self._registered, *tools)
        self.look_again()

    def tools(self) -> Mapping[str, Tool]:
        """Return all tools; the same mapping object until they change."""
        now = self._clock.monotonic()
        has_control = self._has_control()
        if now - self._looked_at > _LOOK_AGAIN_SECONDS or has_control is not self._had_control:
            self._looked_at, self._had_control = now, has_control
            self._disabled = self._config().disabled_groups
            added = [*self._list_registered(has_control), *(tool for source in self._sources for tool in source())]
            if added != self._added:
                self._added = added
                fresh = {tool.spec.name: tool for tool in added if tool.spec.name not in self._built_in}
                self._tools = {**self._built_in, **fresh}
        return self._tools

    def await_listing(self, listing: "asyncio.Task[None]") -> None:
        """Let runs wait for tools that are being listed: those of MCP servers after the start of the daemon."""
        self._listing = listing

    def find_listing(self) -> Awaitable[None] | None:
        """Return what a run waits for before it uses tools; None if all of them are known."""
        listing = self._listing
        return self._wait_listed(listing) if listing is not None and not listing.done() else None

    async def _wait_listed(self, listing: "asyncio.Task[None]") -> None:
        with suppress(TimeoutError):
            async with self._clock.timeout(_LISTING_SECONDS):
                await asyncio.wait([listing])
        if self._listing is listing:
            # Whatever is still to come, nobody waits for it again.
            self._listing = None
        self.look_again()

    def is_repeatable(self, name: str) -> bool:
        """Whether repeating a call is harmless; also known for registered tools that are not offered at the moment."""
        registered = next((tool for tool in self._registered if tool.spec.name == name), None)
        tool = self.tools().get(name) or registered
        return tool is not None and tool.spec.repeatable

    def look_again(self) -> None:
        """Check the sources for new tools at the next call of `tools`."""
        self._looked_at = -math.inf

    def _has_control(self) -> bool:
        config = self._config()
        return config.has_teammates or (config.background.enabled is not False and self._has_coordinator())

    def _list_registered(self, has_control: bool) -> Sequence[Tool]:
        left_out = self._disabled if has_control else self._disabled | {CONTROL}
        return [tool for tool in self._registered if tool.spec.group not in left_out]
