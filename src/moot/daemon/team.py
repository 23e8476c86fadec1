"""Agents that work together: teammates, what they may use, what they are told, where requests belong; joined here."""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from moot.agents.registry import Registry
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.requests.traces import TraceShelves
from moot.domain.agent import ROOT, Agent
from moot.domain.config import AgentConfig
from moot.domain.conversation import ConversationKey
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall
from moot.domain.ports.storage import Storage
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.trace import TraceKind
from moot.engine.asks import Asks
from moot.engine.bus import Bus
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.engine.turn import Briefing, Turn
from moot.hooks.approval import Keeps
from moot.multiagent.partition import Partition
from moot.multiagent.routing.router import Route, Router
from moot.multiagent.teammates import control
from moot.multiagent.teammates.briefing import Briefs
from moot.multiagent.teammates.grants import Grants
from moot.multiagent.teammates.teammates import Teammates
from moot.multiagent.teammates.wiring import TeammateWiring
from moot.multiagent.traces.ledger_mirror import Mirror, is_mirrored
from moot.multiagent.traces.recorder import Traces, is_traced

_TIDY_BATCH = 20
_TIDY_SECONDS = 600.0


class Members(Struct, frozen=True, kw_only=True):
    """What a team is built from."""

    runs: Runs
    storage: Storage
    asks: Asks
    # Seals what a call has that only its tool may know.
    kept: Keeps
    registry: Registry
    tools: Callable[[], Mapping[str, Tool]]
    # Ends what a conversation has left running in the background.
    stop: Callable[[ConversationKey], None]
    config: ConfigFile
    clock: Clock
    rng: Random
    supervisor: Supervisor
    bus: Bus
    # What traces are told passes through this.
    redact: Callable[[str], str]


class Team:
    def __init__(self, members: Members) -> None:
        self._m = members
        self._partition: tuple[Mapping[str, Tool], tuple[Agent, ...], Partition] | None = None
        self._router = Router()
        self._kept_traces, self._ledger = members.storage.traces, members.storage.ledger
        self.traces = Traces(shelf=self._kept_traces, redact=members.redact, clock=members.clock)
        self.mirror = Mirror(
            journal=self._ledger,
            start=members.supervisor.start,
            asks=members.asks,
            config=lambda: members.config.current.run_ledger,
            clock=members.clock,
        )
        members.bus.observe(self.traces.read, wants=is_traced)
        members.bus.observe(self.mirror.read, wants=is_mirrored)
        self._retention = members.storage.retention
        self._tidy_at = 0.0
        self.teammates = Teammates(
            TeammateWiring(
                runs=members.runs,
                store=members.storage.store,
                asks=members.asks,
                partition=self.partition,
                config=self._config,
                is_repeatable=self._repeatable,
                clock=members.clock,
                rng=members.rng,
                supervisor=members.supervisor,
                traces=self.traces,
                bus=members.bus,
                stop=members.stop,
            )
        )
        self._control = control.tools(self.teammates, self._choose)
        self._grants = Grants(
            teammates=self.teammates,
            asks=members.asks,
            kept=members.kept,
            config=lambda: members.config.current.hands.interceptor,
            traces=self.traces,
        )
        self._briefs = Briefs(
            teammates=self.teammates,
            partition=self.partition,
            route=self.route,
            store=members.storage.store,
            traces=self.traces,
        )

    def control(self) -> Sequence[Tool]:
        """The tools agents direct others with, where they may."""
        return self._control if self._m.config.current.has_teammates else ()

    def trace_shelves(self) -> TraceShelves:
        return TraceShelves(
            traces=self._kept_traces,
            ledger=self._ledger,
            mirror=self.mirror,
            redact=self._m.redact,
            clock=self._m.clock,
        )

    async def tidy(self) -> None:
        """Let go of a little of what is too old; once nothing is, look again after a while."""
        now = self._m.clock.monotonic()
        if now >= self._tidy_at:
            config = self._m.config.current.traces
            gone = await self._retention.expire(config, now=self._m.clock.now(), batch=_TIDY_BATCH)
            self._tidy_at = now if gone else now + _TIDY_SECONDS

    async def admit(self, call: GateCall) -> GateCall | ToolResult:
        return await self._grants.admit(call)

    async def brief(self, turn: Turn) -> Briefing:
        return await self._briefs(turn)

    def partition(self) -> Partition:
        """The tools of this moment among the agents of this moment; divided anew only when either has changed."""
        tools, agents = self._m.tools(), tuple(self._m.registry.active())
        known = self._partition
        if known is None or known[0] is not tools or known[1] != agents:
            known = self._partition = (tools, agents, Partition(agents, tools))
        return known[2]

    def whose(self, tool: str, offered: Collection[str]) -> str:
        """Who has a tool that the one who calls it does not have, for those who can set others to work."""
        partition = self.partition()
        owners = [agent.name for agent in partition.teammates() if tool in partition.tools_of(agent.name)]
        if not owners or "agent_spawn" not in offered:
            return ""
        return f'It is a tool of {", ".join(owners)}: let {owners[0]} do it, with agent_spawn(agent="{owners[0]}", …).'

    def orchestrator(self, agent: Agent) -> Agent:
        """The root agent as it is here: where it leads a team it has no tools that a teammate has."""
        if agent.name != ROOT or not self._m.config.current.has_teammates:
            return agent
        return replace(agent, scope=self.partition().root_scope(ROOT))

    def route(self, text: str) -> Route:
        partition = self.partition()
        return self._router.route(text, partition.teammates(), partition.divided)

    def _choose(self, context: RunContext, instruction: str) -> Route:
        """The route of an instruction whose author named no teammate; it is noted in the trace of that author."""
        route = self.route(instruction)
        self.traces.note(context.run_id, TraceKind.ROUTING, context.speaker, call=context.call_id, **to_builtins(route))
        return route

    def _config(self) -> AgentConfig:
        return self._m.config.current.agent

    def _repeatable(self, name: str) -> bool:
        # What a run did with others is known also where agents do not work together any more.
        known = {tool.spec.name: tool for tool in self._control} | dict(self._m.tools())
        return name in known and known[name].spec.repeatable
