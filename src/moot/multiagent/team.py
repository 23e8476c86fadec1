"""Team: the current agents, the tools divided among them, and the route of a request.

Works with agents/registry, engine/tool_registry, partition and routing. Used by runs, briefs and teammates.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping

from msgspec import to_builtins
from msgspec.structs import replace

from moot.agents.registry import Registry
from moot.domain.agent import ROOT, Agent, AgentRole, AgentSource, scope_of
from moot.domain.config import Config
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext, Tool
from moot.domain.ports.traces import TraceNotes
from moot.domain.scope import OWN_MEMORY
from moot.domain.trace import TraceKind
from moot.engine.framing import render_inactive_framing
from moot.engine.tool_registry import ToolRegistry
from moot.multiagent.abilities import adapt_agent
from moot.multiagent.partition import Partition
from moot.multiagent.routing.router import Route, Router
from moot.multiagent.routing.vocabulary_match import VocabularyIndex, build_index, weigh_features
from moot.multiagent.routing.vocabulary_writer import VocabularyWriter

# Agent files are checked for changes at most this often.
_LOOK_AGAIN_SECONDS = 0.05


class Team:
    def __init__(
        self,
        *,
        registry: Registry,
        tools: ToolRegistry,
        config: Callable[[], Config],
        traces: TraceNotes,
        clock: Clock,
        vocabularies: VocabularyWriter,
    ) -> None:
        self._registry = registry
        self._tools = tools
        self._config = config
        self._traces = traces
        self._clock = clock
        self._vocabularies = vocabularies
        self._router = Router()
        self._look_again_at = 0.0
        # The root agent as its file defines it, the partition, and the agent with the scope that this leaves it.
        self._root: tuple[Agent, Partition, Agent] | None = None
        # The active agents as they are described to others, with this partition.
        self._described: tuple[Partition, list[Agent]] | None = None
        # Agents as their files define them, whether they keep memories, why they lack their tools, and what that makes
        # of them.
        self._adapted: dict[str, tuple[Agent, bool, str, Agent]] = {}
        # The vocabularies of the teammates, with the partition and the edition of vocabularies they are of.
        self._index: tuple[Partition, int, bool, VocabularyIndex] | None = None
        # The tools, the edition of the agents, whether all keep memories, and the blocked tools, that the partition was
        # made from.
        self._partition: tuple[Mapping[str, Tool], int, bool, tuple[str, ...], Partition] | None = None

    def resolve_agent(self, name: str) -> Agent | None:
        """Return the agent as its file defines it now; a change takes effect with the next message.

        If there are teammates, the scope of the root agent excludes their tools.
        """
        agent = self._registry.get(name)
        if agent is None or self._clock.monotonic() > self._look_again_at:
            agent = self._look_again(name)
        if agent is None or name != ROOT or not self._config().has_teammates:
            return self._adapt_to_tools(agent, agent.prefixes) if agent is not None and agent.prefixes else agent
        return self._resolve_root(agent)

    def _look_again(self, name: str) -> Agent | None:
        """Return the agent after a look at the files; without a name there is nothing to look for."""
        if name:
            self._look_again_at = self._clock.monotonic() + _LOOK_AGAIN_SECONDS
            self._registry.refresh_if_changed()
        return self._registry.get(name)

    def _resolve_root(self, agent: Agent) -> Agent:
        partition, known = self.partition(), self._root
        if known is None or known[0] is not agent or known[1] is not partition:
            known = self._root = (agent, partition, replace(agent, scope=partition.root_scope(ROOT)))
        return known[2]

    def _adapt_to_tools(self, agent: Agent, prefixes: tuple[str, ...]) -> Agent:
        """Return the agent, which has tools with these prefixes, with those of its own memory if agents keep them.

        A role that has none of its tools is told so.
        """
        remembers = self._config().agent_memory.enabled
        missing = self.partition().find_missing(agent) if agent.source is AgentSource.BUILT_IN else ""
        if not remembers and not missing:
            return agent
        known = self._adapted.get(agent.name)
        if known is None or known[0] is not agent or known[1:3] != (remembers, missing):
            scope = scope_of((*prefixes, *OWN_MEMORY), agent.denied) if remembers else agent.scope
            adapted = replace(agent, scope=scope)
            if missing:
                note = render_inactive_framing(missing)
                brief = f"{agent.brief} {note}" if agent.brief else ""
                adapted = replace(adapted, instruction=f"{agent.instruction}\n\n{note}", brief=brief)
            known = self._adapted[agent.name] = (agent, remembers, missing, adapted)
        return known[3]

    def is_coordinator(self, name: str) -> bool:
        agent = self.resolve_agent(name)
        return agent is not None and agent.role is AgentRole.COORDINATOR

    def partition(self) -> Partition:
        """Return the partition of the current tools and agents; it is rebuilt only if either has changed."""
        tools, edition = self._tools.tools(), self._registry.edition
        config = self._config()
        keeps_memories, blocked = config.agent_memory.enabled, config.tools.interceptor.blocked_tools
        known = self._partition
        if known is None or known[0] is not tools or known[1:4] != (edition, keeps_memories, blocked):
            made = Partition(self._registry.active(), tools, keeps_memories=keeps_memories, blocked=blocked)
            known = self._partition = (tools, edition, keeps_memories, blocked, made)
        return known[4]

    def list_agents(self) -> list[Agent]:
        """Return the active agents as they are described to others."""
        partition, known = self.partition(), self._described
        if known is None or known[0] is not partition:
            described = [
                adapt_agent(agent, partition.tools_of(agent.name), partition.find_missing(agent))
                for agent in self._registry.active()
            ]
            known = self._described = (partition, described)
        return known[1]

    def describe_owner(self, tool: str, offered: Collection[str]) -> str:
        """Return a hint which teammates have a tool that the caller lacks; empty if none has, or it cannot spawn."""
        partition = self.partition()
        owners = [agent.name for agent in partition.teammates() if tool in partition.tools_of(agent.name)]
        if not owners or "agent_spawn" not in offered:
            return ""
        return f'It is a tool of {", ".join(owners)}: let {owners[0]} do it, with agent_spawn(agent="{owners[0]}", …).'

    def route(self, text: str) -> Route:
        partition = self.partition()
        return self._router.route(text, partition.teammates(), partition.divided, self._index_vocabularies(partition))

    def write_vocabularies(self) -> None:
        """Begin to write the vocabularies that are missing, if there are teammates."""
        # The partition is made only if it is needed.
        if self._config().has_teammates and self._vocabularies.is_ready:
            self._vocabularies.write_missing(self.partition().teammates())

    async def read_vocabularies(self) -> None:
        """Prepare the vocabularies one after the other, so that the first request does not hold up others."""
        if self._config().has_teammates and self._vocabularies.has_any:
            for agent in self.partition().teammates():
                if (vocabulary := self._vocabularies.find(agent)) is not None:
                    weigh_features(agent, vocabulary)
                    await asyncio.sleep(0)

    def _index_vocabularies(self, partition: Partition) -> VocabularyIndex:
        edition, is_used = self._vocabularies.edition, self._config().agent.vocabulary
        known = self._index
        if known is not None and self._vocabularies.is_due:
            self.write_vocabularies()
        if known is None or known[0] is not partition or known[1:3] != (edition, is_used):
            self.write_vocabularies()
            found = ((agent, self._vocabularies.find(agent)) for agent in partition.teammates())
            index = build_index([(agent, vocabulary) for agent, vocabulary in found if vocabulary is not None])
            known = self._index = (partition, edition, is_used, index)
        return known[3]

    def choose(self, context: RunContext, instruction: str) -> Route:
        """Return the route of an instruction without a named teammate; record it in the trace of the calling run."""
        route = self.route(instruction)
        self._traces.note(
            context.run_id, TraceKind.ROUTING, context.speaker, call=context.call_id, **to_builtins(route)
        )
        return route
