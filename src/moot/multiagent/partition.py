"""Partition: which tools belong to which agent, the scope of each agent, and the scope of a spawn. Pure."""

import re
from collections.abc import Collection, Sequence
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from moot.domain.agent import ROOT, Agent, AgentRole, AgentSource, AgentStatus
from moot.domain.errors import BadRequest, NotFound
from moot.domain.scope import ALL_TOOLS, ASSISTANT, CONTROL, NO_TOOLS, OWN_MEMORY, SHARED, TEAMMATE, Scope, only

# A tool belongs to the first of these roles whose prefixes match. The planner has no tools.
MATCHING_ORDER = ("librarian", "chronicler", "automator", "navigator", "vault", "ontologist", "operator")

_WORD = re.compile(r"[a-z0-9]+")
_UNPARTITIONED = (*SHARED, *CONTROL, *TEAMMATE, *ASSISTANT)


class RelatedAgent(Struct, frozen=True):
    """A custom agent that an unmatched tool may be meant for, and the word that suggests it."""

    agent: str
    signal: str
    word: str


class Partition:
    """The current tools, divided among the current agents.

    A tool belongs to one built-in role, by the matching order. A custom agent has the tools its own prefixes match as
    well, without removing them from a role. Keywords and capabilities assign no tools: a tool that no prefix matches
        stays unmatched, and `kin` names the custom agents it may be meant for.
    """

    def __init__(
        self,
        agents: Sequence[Agent],
        tools: Collection[str],
        *,
        keeps_memories: bool = False,
        blocked: tuple[str, ...] = (),
    ) -> None:
        self._agents = {agent.name: agent for agent in agents if agent.status is AgentStatus.ACTIVE}
        # Tools whose calls are all refused belong to nobody.
        self._blocked = frozenset(filter(_pattern(blocked).match, tools)) if blocked else frozenset[str]()
        tools = frozenset(tools) - self._blocked
        # Every agent remembers for itself, so these tools are then in every scope besides belonging to a role.
        self._everywhere = (*SHARED, *CONTROL, *(OWN_MEMORY if keeps_memories else ()))
        self.shared = tuple(sorted(filter(_pattern(_UNPARTITIONED).match, tools)))
        # The tools that can belong to an agent: all but those that are never assigned to one.
        self.divided = divided = tuple(sorted(set(tools).difference(self.shared)))
        self._tools = self._of_roles(divided)
        for agent in self._custom():
            self._tools[agent.name] = frozenset(tool for tool in divided if _matches(agent, tool))
        taken = frozenset[str]().union(*self._tools.values())
        self.unmatched = tuple(tool for tool in divided if tool not in taken)
        self._teammates = [
            agent
            for name, agent in self._agents.items()
            if name != ROOT and (self._tools.get(name) or agent.always_include or agent.role is AgentRole.WORKER)
        ]
        self._scopes: dict[str, Scope] = {}

    def tools_of(self, agent: str) -> frozenset[str]:
        """Return the tools that belong to an agent as a teammate, without the shared ones."""
        return self._tools.get(agent, frozenset())

    def teammates(self) -> list[Agent]:
        """Return the agents that can be spawned: those with tools, workers, and those with `always_include`."""
        return self._teammates

    def find_missing(self, agent: Agent) -> str:
        """Return why an agent that names its tools cannot work: that there are none of them. Empty if it can."""
        if not agent.prefixes or self.tools_of(agent.name) or any(_matches(agent, tool) for tool in self.shared):
            return ""
        if any(_matches(agent, tool) for tool in self._blocked):
            return "its tools are in blocked_tools"
        return f"no tool named {' or '.join(agent.prefixes)}"

    def scope_of(self, agent: str) -> Scope:
        """Return the widest scope of a teammate: no tools at all if none belong to it."""
        scope = self._scopes.get(agent)
        if scope is None:
            own = self.tools_of(agent)
            scope = self._scopes[agent] = only(*sorted(own), *self._everywhere, *TEAMMATE) if own else NO_TOOLS
        return scope

    def root_scope(self, agent: str) -> Scope:
        """Return the scope of an agent in a run that was not spawned.

        The orchestrator has the unmatched tools, a built-in role its own, any other agent all.
        """
        if agent == ROOT:
            return only(*self._everywhere, *self.unmatched)
        return self.scope_of(agent) if agent in MATCHING_ORDER else ALL_TOOLS

    def spawn_scope(self, agent: str, allowed_tools: Sequence[str] | None = None) -> Scope:
        """Return the scope of one spawn: all tools of the agent, or those that `allowed_tools` names.

        Names may be patterns. Shared tools are always included; the tools that control teammates must be named.
        """
        self._check_spawnable(agent)
        if not allowed_tools:
            return self.scope_of(agent) if allowed_tools is None else NO_TOOLS
        own = self.tools_of(agent)
        scope = self.scope_of(agent)
        within = {*own, *(self.shared if own else ()), *filter(scope.allows, OWN_MEMORY)}
        named: set[str] = set()
        for pattern in allowed_tools:
            found = {tool for tool in within if only(pattern).allows(tool)}
            if not found:
                raise _outside(agent, pattern, own)
            named |= found
        return scope & only(*sorted(named), *SHARED, *TEAMMATE)

    def find_related(self, tool: str) -> tuple[RelatedAgent, ...]:
        """Return the custom agents whose keywords or capabilities occur in the name of a tool, keywords first."""
        words = set(_WORD.findall(tool.lower()))
        found = [
            RelatedAgent(agent.name, signal, word)
            for signal in ("keyword", "capability")
            for agent in self._custom()
            for word in (agent.keywords if signal == "keyword" else agent.capabilities)
            if (parts := set(_WORD.findall(word.lower()))) and parts <= words
        ]
        first: dict[str, RelatedAgent] = {}
        for each in found:
            first.setdefault(each.agent, each)
        return tuple(first.values())

    def _custom(self) -> list[Agent]:
        return [agent for agent in self._agents.values() if agent.source is not AgentSource.BUILT_IN]

    def _of_roles(self, tools: Sequence[str]) -> dict[str, frozenset[str]]:
        left = list(tools)
        found: dict[str, frozenset[str]] = {}
        for name in MATCHING_ORDER:
            role = self._agents.get(name)
            found[name] = frozenset(tool for tool in left if role is not None and _matches(role, tool))
            left = [tool for tool in left if tool not in found[name]]
        return found

    def _check_spawnable(self, agent: str) -> None:
        names = [each.name for each in self.teammates()]
        if agent in names:
            return
        fix = f"Spawn one of: {', '.join(names)}."
        if agent in self._agents and agent != ROOT:
            raise BadRequest(f"{agent} has no tools here, so it cannot be a teammate", fix=fix)
        raise NotFound(f"there is no teammate {agent!r}", fix=fix)


def _matches(agent: Agent, tool: str) -> bool:
    if not agent.prefixes or _pattern(agent.prefixes).match(tool) is None:
        return False
    return not agent.denied or _pattern(agent.denied).match(tool) is None


@lru_cache(maxsize=1024)
def _pattern(prefixes: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression for all prefixes: every agent is matched with every tool, so one match is much cheaper."""
    return re.compile("|".join(map(translate, prefixes)))


def _outside(agent: str, pattern: str, own: frozenset[str]) -> BadRequest:
    allowed = ", ".join(sorted(own))
    return BadRequest(
        f"the tool {pattern!r} is outside what {agent} may use at most",
        fix=f"Name only these in allowed_tools, or leave it out: {allowed}."
        if own
        else f"{agent} works without tools; leave allowed_tools out.",
    )
