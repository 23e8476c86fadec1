"""Handlers about the team: how agents work together, and which tools belong to whom."""

import asyncio
from collections import Counter

from moot.agents.registry import Registry
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.live_models import LiveModels
from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.daemon.tool_categories import ToolCategory, ToolFacts, list_categories
from moot.daemon.toolset import Toolset
from moot.domain.agent import ROOT, Agent
from moot.domain.config import Config
from moot.domain.errors import MootError
from moot.domain.mcp import WAITING
from moot.domain.ports.model import Model, ToolSupport
from moot.domain.text import clean
from moot.engine.gate import Gate
from moot.engine.offer import make_offer
from moot.multiagent.partition import Partition
from moot.tools.mcp.servers import McpServers
from moot.wire import moot_pb2 as pb

_RUNTIME = "dynamic-v1"


def explain_missing_runtime(config: Config) -> str:
    if config.has_teammates:
        return ""
    if not config.agent.multi_agent:
        return "multiAgent is not set in [agent]"
    return "enabled is false in [background]"


class TeamInfoRequests:
    def __init__(
        self,
        *,
        registry: Registry,
        config: ConfigFile,
        toolset: Toolset,
        gate: Gate,
        models: LiveModels,
    ) -> None:
        self._registry = registry
        self._config = config
        self._toolset = toolset
        self._gate = gate
        self._models = models

    def partition(self) -> Partition:
        """Return the partition of the current tools and agents."""
        self._registry.refresh_if_changed()
        config = self._config.current
        return Partition(
            self._registry.active(),
            self._toolset.registry.tools(),
            keeps_memories=config.agent_memory.enabled,
            blocked=config.tools.interceptor.blocked_tools,
        )

    async def get_agent_status(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the agent status")
        config = self._config.current
        partition = self.partition()
        sources = Counter(str(agent.source) for agent in self._registry.all())
        status = pb.AgentStatus(
            mode="multi-agent" if config.agent.multi_agent else "single",
            teammate_runtime=_RUNTIME if config.has_teammates else "",
            runtime_off_reason=explain_missing_runtime(config),
            max_delegation_rounds=config.agent.max_delegation_rounds,
            default_model=config.default_model,
            provider=config.models[config.default_model].provider,
            run_ledger=config.run_ledger.is_shown,
            agent_memory=config.agent_memory.enabled,
            sources=sources,
            active=len(self._registry.active()),
            teammates=[agent.name for agent in partition.teammates()],
            agents_dir=clean(str(self._registry.folder)),
            foreign_dirs=[clean(str(folder)) for folder in self._registry.foreign_folders],
            hooks=[hook.name for hook in self._gate.hooks(None)],
            flaws=[clean(str(flaw)) for flaw in self._registry.flaws],
        )
        reply.send(pb.ServerMessage(agent_status=status))

    async def list_agent_tools(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the tools of agents")
        partition = self.partition()
        spawnable = {agent.name for agent in partition.teammates()}
        agents = [
            self._agent_tools(agent, partition, is_teammate=agent.name in spawnable)
            for agent in self._registry.active()
            if agent.name != ROOT
        ]
        unmatched = [
            pb.UnmatchedTool(
                name=tool,
                near=[f"{related.agent} ({related.signal} {related.word})" for related in partition.find_related(tool)],
            )
            for tool in partition.unmatched
        ]
        answer = pb.AgentToolList(
            agents=agents,
            unmatched=unmatched,
            shared=partition.shared,
            categories=[_category(each) for each in await self._categories()],
            no_tools_reason=self._no_tools_reason(),
        )
        reply.send(pb.ServerMessage(agent_tool_list=answer))

    async def _categories(self) -> list[ToolCategory]:
        config, servers = self._config.current, self._toolset.servers
        facts = ToolFacts(
            tools=list(self._toolset.registry.tools()),
            config=config,
            # In a thread, because it searches for programs, which may take some milliseconds.
            sandbox=await asyncio.to_thread(self._toolset.describe_sandbox),
            no_teammates=explain_missing_runtime(config),
            servers={name: _find_server_problem(servers, name) for name in servers.names()},
        )
        return list_categories(facts)

    def _no_tools_reason(self) -> str:
        try:
            model = self._models.get(self._config.current.default_model)
        except MootError:
            # What is wrong with a model is told where models are listed.
            return ""
        return _why_left_out(model) if model.tools is ToolSupport.NONE else ""

    def _agent_tools(self, agent: Agent, partition: Partition, *, is_teammate: bool) -> pb.AgentTools:
        own = partition.tools_of(agent.name)
        info = pb.AgentTools(agent=agent.name, source=agent.source, teammate=is_teammate, tools=sorted(own))
        try:
            model = self._models.get(agent.model)
        except MootError:
            # What is wrong with a model is told where models are listed.
            return info
        tools = self._toolset.registry.tools()
        specs = [tools[name].spec for name in tools if name in own or (own and name in partition.shared)]
        offer = make_offer(specs, model, agent.prefixes, most=self._config.current.tools.tool_search.max_offered)
        info.left_out.extend(spec.name for spec in offer.without_room)
        info.left_out_reason = _why_left_out(model) if info.left_out else ""
        return info


def _find_server_problem(servers: McpServers, name: str) -> str:
    if not servers.config(name).enabled:
        return f"enabled is false in [mcp.{name}]"
    waiting = sum(offer.state in WAITING for offer in servers.offers(name))
    return servers.problem(name) or (f"{waiting} to approve with `moot mcp approve {name}`" if waiting else "")


def _category(category: ToolCategory) -> pb.ToolCategory:
    return pb.ToolCategory(
        name=category.name,
        description=category.description,
        enabled=category.is_enabled,
        reason=clean(category.reason),
        tools=category.tools,
    )


def _why_left_out(model: Model) -> str:
    match model.tools:
        case ToolSupport.NONE:
            return f"{model.name} does not support tools"
        case _ if model.config.small:
            return f"{model.name} is small and is offered a few"
        case ToolSupport.SCHEMA:
            return f"{model.name} chooses tools by a schema, which has room for a few"
        case _:
            return f"the context window of {model.name} has {model.window} tokens; it finds them with tool_search"
