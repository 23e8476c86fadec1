"""ToolRegistry: all tools of a daemon, by name. Whoever builds tools registers them here; engine/gate.py reads it."""

import math
from collections.abc import Callable, Mapping, Sequence

from moot.domain.config import Config
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import Tool

# How long a new skill or server may take to be noticed.
_LOOK_AGAIN_SECONDS = 0.05
# The tools agents direct others with are only there while they may.
_CONTROL = "control"

# Where tools come from that may change at any time, such as the scripts of skills.
ToolSource = Callable[[], Sequence[Tool]]


class ToolRegistry:
    """What was added never takes the name of what is built in."""

    def __init__(self, *, config: Callable[[], Config], clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._built_in: Mapping[str, Tool] = {}
        self._registered: tuple[Tool, ...] = ()
        self._sources: Sequence[ToolSource] = ()
        self._tools: Mapping[str, Tool] = {}
        self._added: list[Tool] = []
        self._looked_at = -math.inf

    def set_built_in(self, tools: Mapping[str, Tool], sources: Sequence[ToolSource] = ()) -> None:
        """Replace the built-in tools, and where others come from."""
        self._built_in, self._sources = tools, sources
        self._tools, self._added = tools, []
        self.look_again()

    def register(self, *tools: Tool) -> None:
        """Add tools for good, beside those that are built in."""
        self._registered = (*self._registered, *tools)
        self.look_again()

    def tools(self) -> Mapping[str, Tool]:
        """All tools, the same mapping until they change."""
        now = self._clock.monotonic()
        if now - self._looked_at > _LOOK_AGAIN_SECONDS:
            self._looked_at = now
            added = [*self._live_registered(), *(tool for source in self._sources for tool in source())]
            if added != self._added:
                self._added = added
                fresh = {tool.spec.name: tool for tool in added if tool.spec.name not in self._built_in}
                self._tools = {**self._built_in, **fresh}
        return self._tools

    def is_repeatable(self, name: str) -> bool:
        """Whether making a call twice does no harm; known also of tools that nobody is offered at the moment."""
        registered = next((tool for tool in self._registered if tool.spec.name == name), None)
        tool = self.tools().get(name) or registered
        return tool is not None and tool.spec.repeatable

    def look_again(self) -> None:
        """Have whoever asks for the tools next look for new ones at once."""
        self._looked_at = -math.inf

    def _live_registered(self) -> Sequence[Tool]:
        if self._config().has_teammates:
            return self._registered
        return [tool for tool in self._registered if tool.spec.group != _CONTROL]
