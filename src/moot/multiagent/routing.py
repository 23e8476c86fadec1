"""Where a request belongs."""

from collections.abc import Sequence
from dataclasses import dataclass

from moot.domain.agent import Agent


@dataclass(frozen=True, slots=True)
class Route:
    agent: str = ""
    summary: str = ""


class Router:
    def route(self, text: str, agents: Sequence[Agent]) -> Route:
        for agent in agents:
            if any(word in text.lower() for word in agent.keywords):
                return Route(agent.name, "")
        return Route()
