"""Handlers about the daemon itself: agents, models, tokens, stats, reload, backup, doctor."""

import asyncio
import os
from pathlib import Path

from msgspec import Struct, field

from moot import __version__
from moot.agents.registry import Registry, agent_name_of
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.config.restart import list_changed_agents, list_changed_keys, list_needing_restart
from moot.daemon.configured_broker import ConfiguredBroker
from moot.daemon.live_models import LiveModels
from moot.daemon.principal import Principal, Principals
from moot.daemon.reloader import Reloader
from moot.daemon.requests.admission import Admission, OpenConnections
from moot.daemon.requests.missing_agent import make_no_agent_error
from moot.daemon.requests.reply import Reply
from moot.daemon.requests.run_lookup import RunLookup
from moot.daemon.toolset import Toolset
from moot.domain.agent import Agent, AgentSource
from moot.domain.auto_approve import LEVEL_MEANINGS
from moot.domain.config import ModelConfig
from moot.domain.errors import BadRequest, MootError
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.domain.ports.tool import Tool
from moot.domain.scope import NOT_SPAWNED, TOOL_SEARCH
from moot.domain.text import clean
from moot.engine.asks import Asks
from moot.engine.gate import Gate
from moot.engine.modes import Modes
from moot.engine.probe import probe
from moot.models.server_models import ModelServer
from moot.multiagent.abilities import adapt_agent, find_role_scope, list_approved_tools, list_missing_abilities
from moot.multiagent.peers.transport.other_daemons import OtherDaemons
from moot.multiagent.team import Team
from moot.wire import moot_pb2 as pb
from moot.wire.usage import token_usage

# How long active runs may continue after the daemon was told to stop.
DRAIN_SECONDS = 10.0


class DaemonFacts(Struct, kw_only=True):
    """Facts about the running daemon."""

    started: float
    http: str = ""
    tcp: str = ""
    # Listeners that could not be opened.
    problems: list[MootError] = field(default_factory=list)
    # The open connections; the listeners add and remove them.
    connections: OpenConnections = field(default_factory=OpenConnections)


class DaemonInfoDependencies(Struct, frozen=True, kw_only=True):
    store: Store
    registry: Registry
    config: ConfigFile
    models: LiveModels
    reloader: Reloader
    principals: Principals
    lookup: RunLookup
    asks: Asks
    modes: Modes
    clock: Clock
    facts: DaemonFacts
    admission: Admission
    toolset: Toolset
    gate: Gate
    team: Team
    broker: ConfiguredBroker
    others: OtherDaemons


class DaemonRequests:
    def __init__(self, dependencies: DaemonInfoDependencies) -> None:
        self._d = dependencies
        self._store = dependencies.store
        self._registry = dependencies.registry
        self._config = dependencies.config
        self._clock = dependencies.clock
        self._facts = dependencies.facts

    async def list_agents(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        self._registry.refresh_if_changed()
        agents = [self._agent_info(agent, principal) for agent in self._registry.all()]
        if principal.is_owner:
            agents += [
                pb.AgentInfo(name=agent_name_of(Path(flaw.path)), path=flaw.path, flaw=str(flaw))
                for flaw in self._registry.flaws
            ]
        reply.send(
            pb.ServerMessage(agent_list=pb.AgentList(agents=agents, hidden_examples=self._registry.hidden_examples))
        )

    async def get_agent(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        self._registry.refresh_if_changed()
        agent = self._registry.find(message.get_agent.name)
        if agent is None:
            raise make_no_agent_error(self._registry, message.get_agent.name, principal)
        info = self._agent_info(agent, principal)
        info.levels.extend(
            pb.AutoApproveInfo(level=level, meaning=LEVEL_MEANINGS[level], tools=tools)
            for level, tools in list_approved_tools(self._find_tools(agent)).items()
        )
        if principal.is_owner:
            info.instruction = agent.instruction
        reply.send(pb.ServerMessage(agent_info=info))

    async def list_models(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        config, catalog = self._config.current, self._d.models.catalog
        models: list[pb.ModelInfo] = []
        for each in config.models.values():
            info = pb.ModelInfo(name=each.name, provider=each.provider, model=each.model)
            info.is_default = each.name == config.default_model
            info.base_url = each.base_url if principal.is_owner else ""
            info.problem = await catalog.find_problem(each.name)
            if not info.problem:
                model = catalog.get(each.name)
                if model.window_is_assumed:
                    await model.find_window()
                info.window, info.tools = model.window, model.tools
                info.window_is_assumed = model.window_is_assumed
                box = self._d.gate.box(NOT_SPAWNED & config.tools.not_blocked)
                offer = box.choose_tools(model, None, most=config.tools.tool_search.max_offered)
                info.tools_there = sum(spec.name != TOOL_SEARCH and not spec.deferred for spec in box.specs)
                info.left_out.extend(spec.name for spec in offer.without_room)
            models.append(info)
        reply.send(pb.ServerMessage(model_list=pb.ModelList(models=models)))

    async def test_model(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("test a model")
        request = message.test_model
        name = request.name or self._config.current.default_model
        if request.HasField("candidate"):
            given = request.candidate
            config = ModelConfig(
                name=name,
                provider=given.provider,
                base_url=given.base_url,
                model=given.model,
                api_key="" if given.key else given.api_key,
            )
            async with self._d.models.open_candidate(config, key=given.key) as model:
                tested = await probe(model, clock=self._clock)
        else:
            tested = await probe(self._d.models.catalog.get(name), clock=self._clock)
        answer = pb.ModelTested(
            name=name,
            content=tested.content,
            first_token_ms=int(tested.first_token_seconds * 1000),
            total_ms=int(tested.seconds * 1000),
            window=tested.window,
        )
        if (usage := token_usage(tested.usage)) is not None:
            answer.usage.CopyFrom(usage)
        reply.send(pb.ServerMessage(model_tested=answer))

    async def list_server_models(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("list the models of a server")
        request, given = message.list_server_models, message.list_server_models.server
        server = ModelServer(
            name=request.name,
            provider=given.provider,
            base_url=given.base_url,
            key=given.key,
            variable=request.variable,
        )
        names = await self._d.models.list_server_models(server, stored="" if given.key else given.api_key)
        reply.send(pb.ServerMessage(server_models=pb.ServerModelList(names=map(clean, names))))

    async def list_tokens(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the tokens")
        tokens = [
            pb.TokenInfo(
                name=token.name,
                sender=token.sender,
                senders=list(token.senders),
                created_at=token.created_at,
                last_used_at=token.last_used_at,
                revoked_at=token.revoked_at,
                may_approve=token.may_approve,
            )
            for token in await self._store.list_tokens()
        ]
        reply.send(pb.ServerMessage(token_list=pb.TokenList(tokens=tokens)))

    async def new_token(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("make a token")
        request = message.new_token
        made = await self._d.principals.create(request.name, tuple(request.senders), may_approve=request.may_approve)
        created = pb.TokenCreated(name=made.token.name, token=made.secret, sender=made.token.sender)
        reply.send(pb.ServerMessage(token_created=created))

    async def revoke_token(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("revoke a token")
        paused = await self._d.principals.revoke(message.revoke_token.name)
        reply.send(pb.ServerMessage(token_revoked=pb.TokenRevoked(paused_jobs=paused)))

    async def get_stats(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        stats = pb.DaemonStats(
            uptime_secs=int(self._clock.monotonic() - self._facts.started),
            active_conversations=len(await self._d.lookup.group_by_conversation()),
            registered_agents=len(self._registry.active()),
            active_model=self._config.current.default_model,
            version=__version__,
            drain_seconds=DRAIN_SECONDS,
            store=self._config.first.store.kind,
            mode=(await self._d.modes.find_default()).mode,
        )
        if principal.is_owner:
            stats.pid = os.getpid()
            stats.rss_bytes = _resident_bytes()
            stats.http, stats.tcp = self._facts.http, self._facts.tcp
            stats.problems.extend(problem.sentence for problem in self._facts.problems)
            stats.connections = len(self._facts.connections)
            stats.unauthenticated_connections = self._d.admission.unauthenticated
            stats.rejected_connections = self._d.admission.rejected.total()
            stats.max_connections = self._d.admission.limits.network
            stats.open_asks = len(await self._d.asks.list_pending())
            if self._d.broker.is_shared:
                stats.broker.CopyFrom(await self._describe_broker())
            sandbox = await self._d.toolset.sandbox.find_report()
            stats.sandbox = sandbox.mechanism
            stats.memory_limit, stats.process_limit = sandbox.memory_limit, sandbox.process_limit
        reply.send(pb.ServerMessage(stats=stats))

    async def reload(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("reload the configuration")
        written, agents = self._config.written, {agent.name: agent for agent in self._registry.all()}
        flaws = [clean(flaw) for flaw in await self._d.reloader.reload()]
        now = {agent.name: agent for agent in self._registry.all()}
        restart = list_needing_restart(self._config.first, self._config.current)
        answer = pb.Reloaded(agents=len(self._registry.active()), flaws=flaws, restart=restart)
        answer.changed.extend(map(clean, list_changed_keys(written, self._config.written)))
        answer.changed_agents.extend(list_changed_agents(agents, now))
        reply.send(pb.ServerMessage(reloaded=answer))

    async def backup(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("make a backup")
        path = message.backup.path
        if not os.path.isabs(path):
            raise BadRequest("the backup needs an absolute path", fix="Give the whole path of the file to write.")
        await self._store.backup(path)
        size = os.path.getsize(path)  # noqa: ASYNC240 — one stat, after a backup
        reply.send(pb.ServerMessage(backed_up=pb.BackedUp(path=path, bytes=size)))

    async def check(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("examine the daemon")
        findings = [
            pb.Finding(level="error", check="store", message=problem, fix="Restore a backup with `moot restore`.")
            for problem in await self._store.check()
        ]
        if not findings:
            findings.append(pb.Finding(level="ok", check="store", message="The store is intact."))
        report = await asyncio.to_thread(self._d.toolset.describe_sandbox)
        level = "ok" if report.confined else ("warning" if report.usable else "error")
        findings.append(pb.Finding(level=level, check="sandbox", message=report.sentence(), fix=report.fix))
        findings.extend(
            pb.Finding(
                level="error", check="config", message=clean(str(flaw)), fix="Correct the file, then run `moot reload`."
            )
            for flaw in (*self._config.flaws, *self._registry.flaws)
        )
        findings.extend(
            pb.Finding(
                level="error", check="tools", message=clean(str(flaw)), fix="Correct the file, then run `moot reload`."
            )
            for flaw in self._d.toolset.plugins.flaws
        )
        findings.extend(self._check_connections())
        findings.extend(await self._check_broker())
        findings.extend(
            pb.Finding(level="error", check="listen", message=problem.message, fix=problem.fix)
            for problem in self._facts.problems
        )
        if self._config.first.metrics.enabled and not self._facts.http:
            fix = "Set `http` in [listen], or set enabled = false in [metrics]; then restart the daemon."
            message = "Metrics are enabled, but there is no HTTP listener to serve them."
            findings.append(pb.Finding(level="warning", check="metrics", message=message, fix=fix))
        if later := list_needing_restart(self._config.first, self._config.current):
            text = f"These settings take effect after a restart: {', '.join(later)}."
            findings.append(pb.Finding(level="warning", check="daemon", message=text, fix="Run: moot down, moot up"))
        reply.send(pb.ServerMessage(checked=pb.Checked(findings=findings)))

    async def _describe_broker(self) -> pb.BrokerStatus:
        broker, others = self._d.broker, self._d.others
        return pb.BrokerStatus(
            url=broker.url,
            name=broker.name,
            connected=broker.is_connected,
            problem=clean(broker.problem or others.directory.problem or others.relay.refusal),
            waiting=await others.count_waiting(),
            daemons=others.directory.count_live(),
            dropped=others.receiver.dropped,
        )

    async def _check_broker(self) -> list[pb.Finding]:
        broker, others = self._d.broker, self._d.others
        if not broker.is_shared:
            return []
        if problem := broker.problem or others.relay.refusal:
            message = f"Messages to other daemons are kept: {clean(problem).rstrip('.')}."
            return [pb.Finding(level="error", check="broker", message=message, fix="See: moot help broker")]
        waiting = await others.count_waiting()
        connected = f"Connected to {broker.url} as {broker.name}; {waiting} messages wait for other daemons."
        findings = [pb.Finding(level="ok", check="broker", message=connected)]
        if dropped := others.receiver.dropped:
            kinds = ", ".join(f"{count} {kind}" for kind, count in dropped.most_common())
            message = f"{dropped.total()} messages that arrived were dropped or refused since the start: {kinds}."
            fix = "`moot peers watch` shows them as they arrive."
            findings.append(pb.Finding(level="warning", check="broker", message=message, fix=fix))
        problems = [f"{each.name}: {each.problem}" for each in others.directory.list_daemons() if each.problem]
        problems += [others.directory.problem] if others.directory.problem else []
        fix = "See: moot peers daemons"
        return findings + [
            pb.Finding(level="warning", check="broker", message=f"{problem}.", fix=fix) for problem in problems
        ]

    def _check_connections(self) -> list[pb.Finding]:
        rejected = self._d.admission.rejected
        if not rejected:
            return []
        reasons = "; ".join(f"{count}: {reason}" for reason, count in rejected.most_common())
        message = f"{rejected.total()} connections were rejected since the start ({reasons})."
        fix = "Find the client that opens them, or revoke its token with `moot tokens revoke`."
        return [pb.Finding(level="warning", check="connections", message=message, fix=fix)]

    def _find_tools(self, agent: Agent) -> list[Tool]:
        """Return the tools that an agent has in its own conversations."""
        config, scope = self._config.current, agent.scope & self._d.team.partition().root_scope(agent.name)
        scope &= find_role_scope(agent.role, has_teammates=config.has_teammates) & config.tools.not_blocked
        return [tool for name, tool in self._d.toolset.registry.tools().items() if scope.allows(name)]

    def _tool_support(self, model: str) -> str:
        try:
            return self._d.models.catalog.get(model).tools
        except MootError:
            return ""

    def _agent_info(self, agent: Agent, principal: Principal) -> pb.AgentInfo:
        partition = self._d.team.partition()
        tools = partition.tools_of(agent.name)
        is_built_in = agent.source is AgentSource.BUILT_IN
        model_tools = self._tool_support(agent.model)
        missing = partition.find_missing(agent)
        if is_built_in and agent.prefixes and model_tools == "none":
            missing = missing or "its model uses no tools"
        shown = adapt_agent(agent, tools, missing)
        info = pb.AgentInfo(
            name=agent.name,
            description=shown.description,
            model=agent.model or self._config.current.default_model,
            source=agent.source,
            status=agent.status,
            role=agent.role,
            auto_approve=agent.auto_approve,
            priority=agent.source.priority,
            prefixes=agent.prefixes,
            all_tools=agent.prefixes is None,
            keywords=agent.keywords,
            capabilities=shown.capabilities,
            accepts=shown.accepts,
            returns=agent.returns,
            cannot_do=agent.cannot_do,
            always_include=agent.always_include,
            session_isolation=agent.session_isolation,
            denied=agent.denied,
            model_tools=model_tools,
            missing=missing,
            cannot_yet=list_missing_abilities(agent, tools),
            context_window=self._d.models.find_window(agent.model),
        )
        if principal.is_owner:
            info.path = clean(agent.path)
            info.warnings.extend(clean(str(each)) for each in agent.warnings)
        return info


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
