"""Runtime: everything that executes runs, built from ports by constructor calls in the order of their dependencies.

The daemon (daemon/app.py) and simulations build it. Nothing is assigned after construction: what is built later reads
events from the bus, or is registered as a tool.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

from msgspec import Struct

from moot.agents.registry import Registry
from moot.domain.config import Config
from moot.domain.conversation import ConversationKey
from moot.domain.events import ConfigReloaded, Event, RunEnded
from moot.domain.ports.clock import Clock
from moot.domain.ports.model import Model
from moot.domain.ports.project import ReadProject, read_nothing
from moot.domain.ports.secrets import SealerSource, SecretConsent
from moot.domain.ports.storage import Storage
from moot.domain.ports.store import Store
from moot.domain.ports.tool import RunContext, Tool
from moot.domain.run import RunRequest, RunStatus
from moot.domain.senders import WORKFLOW_SENDER
from moot.engine.asks import Asks
from moot.engine.budget import Budgets
from moot.engine.bus import Bus
from moot.engine.compaction import Compaction
from moot.engine.completion import CountedCompletion
from moot.engine.dependencies import RunsDependencies
from moot.engine.gate import Gate
from moot.engine.history import Histories
from moot.engine.librarian import Librarian, LibrarianDependencies
from moot.engine.loop import Loop, LoopDependencies
from moot.engine.mailboxes import Mailboxes
from moot.engine.modes import Modes
from moot.engine.notes import NoteTaker
from moot.engine.request_factory import RequestFactory
from moot.engine.rules import Rules
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.engine.tool_registry import ToolRegistry
from moot.engine.tool_search import ToolSearch
from moot.engine.warm_up import WarmUp, WarmUpDependencies
from moot.failpoint import reach
from moot.hooks.sealed_arguments import SealedArguments
from moot.multiagent.hook_chain import HookChain, HookDependencies
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.peers import PeerDependencies, Peers
from moot.multiagent.roles.role_briefs import RoleBriefs
from moot.multiagent.roles.worker_facts import WorkerFacts
from moot.multiagent.routing.vocabulary_writer import VocabularyWriter, VocabularyWriterDependencies
from moot.multiagent.team import Team
from moot.multiagent.teammates import control
from moot.multiagent.teammates.briefing import Briefs
from moot.multiagent.teammates.dependencies import TeammateDependencies
from moot.multiagent.teammates.grants import Grants
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.multiagent.teammates.teammates import Teammates
from moot.multiagent.teammates.worker_tool import SendMessageToWorker
from moot.multiagent.teammates.workers import Workers
from moot.multiagent.traces.recorder import TRACED, Traces
from moot.multiagent.traces.retention import TraceRetention
from moot.redaction.redactor import Redactor
from moot.tools.outputs import StoreLongResult


class ConfigSource(Protocol):
    @property
    def current(self) -> Config: ...


class RuntimeDependencies(Struct, frozen=True, kw_only=True):
    storage: Storage
    clock: Clock
    rng: Random
    config: ConfigSource
    registry: Registry
    models: Callable[[str], Model]
    redactor: Redactor
    # Seals the arguments of a call that only its tool may see.
    seals: SealerSource
    # Knows whose secrets a call may use.
    secrets: SecretConsent
    # Returns the folder of a conversation that has no working directory.
    workspace: Callable[[ConversationKey], str]
    # The tools, and the components they were built with.
    tools: ToolRegistry
    notes: NoteTaker
    budgets: Budgets
    supervisor: Supervisor
    bus: Bus
    # Returns whether commands run in a sandbox.
    has_sandbox: Callable[[], Awaitable[bool]]
    # Stops the background commands of a conversation.
    stop_jobs: Callable[[ConversationKey], None]
    # Reads what a run is told of the project in its working directory.
    read_project: ReadProject = read_nothing
    # Wraps the model of a run so that its requests are observed; None if nothing observes them.
    observe_model: Callable[[Model, RunRequest], Model] | None = None
    # Connects it to other daemons; None in simulations of one daemon.
    link: DaemonLink | None = None


class Runtime:
    def __init__(self, dependencies: RuntimeDependencies) -> None:
        self._d = d = dependencies
        storage, clock, config, redactor = d.storage, d.clock, d.config, d.redactor
        self.asks = Asks(store=storage.asks, rules=Rules(storage.rules), clock=clock, redact=redactor.mask_secrets)
        self.live = LiveRuns(d.supervisor, clock)
        self.find_step = _make_step_finder(self.live, storage.store)
        self.modes = Modes(
            store=storage.store,
            config=lambda: config.current.tools.interceptor,
            has_sandbox=d.has_sandbox,
            find_agent=d.registry.find,
            bus=d.bus,
            clock=clock,
            find_step=self.find_step,
        )
        self.traces = Traces(store=storage.traces, redact=redactor.for_log, clock=clock)
        self.vocabularies = self._build_vocabularies()
        self.team = Team(
            registry=d.registry,
            tools=d.tools,
            config=lambda: config.current,
            traces=self.traces,
            clock=clock,
            vocabularies=self.vocabularies,
        )
        self.requests = RequestFactory(
            agents=self.team.resolve_agent,
            names=lambda: (agent.name for agent in d.registry.active()),
            flaw=d.registry.problem,
            hidden=d.registry.explain_hidden,
            config=lambda: config.current,
            clock=clock,
            rng=d.rng,
            redact=redactor.mask_secrets,
        )
        sealed = SealedArguments(self.asks, d.seals)
        self.gate = self._build_gate(sealed)
        self._mailboxes = Mailboxes(storage.mail)
        self.runs = self._build_runs()
        self._retention = TraceRetention(
            store=storage.retention,
            mail=storage.mail,
            histories=self.runs.histories,
            config=lambda: config.current,
            clock=clock,
        )
        self.teammates = self._build_teammates()
        self.peers = self._build_peers()
        d.tools.register(ToolSearch(), *self._build_control(), *self.peers.build_tools())
        d.bus.observe(self.traces.read, *TRACED)
        d.bus.observe(d.notes.on_run_ended, RunEnded)
        d.bus.observe(self._build_librarian().on_run_ended, RunEnded)
        d.bus.observe(self._on_reloaded, ConfigReloaded)

    @property
    def dependencies(self) -> RuntimeDependencies:
        """What it was built from, for what is built over it."""
        return self._d

    async def recover(self) -> None:
        """End the left runs that cannot be resumed, then resume the others."""
        left = await self._d.storage.store.recover()
        reach("daemon.recovered")
        await self.asks.start()
        turns = await self.teammates.recover(left)
        # Without an await in between: results owed to a turn must be kept for it before the turn asks for them.
        for run in sorted(turns, key=lambda run: run.status is RunStatus.QUEUED):
            self.runs.resume(run)
        self.teammates.resume()
        await self.peers.start()
        await self.vocabularies.start()
        self._d.supervisor.start("read vocabularies", self.team.read_vocabularies())
        self.team.write_vocabularies()
        reach("daemon.resumed")

    def close(self) -> None:
        """Start no more runs, and leave asks open: they are restored at the next start."""
        self.asks.suspend()
        self.teammates.close()

    async def expire_traces(self) -> None:
        """Delete one batch of data older than the configured retention."""
        await self._retention.expire()

    def _on_reloaded(self, _: Event) -> None:
        self.vocabularies.reload()
        self._d.supervisor.start("read vocabularies", self.team.read_vocabularies())
        self.team.write_vocabularies()

    def _build_vocabularies(self) -> VocabularyWriter:
        d = self._d
        return VocabularyWriter(
            VocabularyWriterDependencies(
                store=d.storage.vocabularies,
                agents=d.registry.get,
                is_gone=d.registry.is_gone,
                models=d.models,
                config=lambda: d.config.current,
                complete=CountedCompletion(d.storage.store),
                supervisor=d.supervisor,
                clock=d.clock,
            )
        )

    def _build_gate(self, sealed: SealedArguments) -> Gate:
        d = self._d
        grants = Grants(
            live=self.live,
            asks=self.asks,
            sealer=sealed,
            config=lambda: d.config.current.tools.interceptor,
            tools=d.tools.tools,
            traces=self.traces,
        )
        hooks = HookChain(
            HookDependencies(
                config=lambda: d.config.current.tools,
                asks=self.asks,
                modes=self.modes,
                grants=grants,
                sealed=sealed,
                tools=d.tools,
                secrets=d.secrets,
                traces=self.traces,
                knowledge=d.storage.knowledge,
                learnings=d.storage.learnings,
                redactor=d.redactor,
                supervisor=d.supervisor,
                clock=d.clock,
            )
        )
        return Gate(
            tools=d.tools.tools,
            hooks=hooks.choose,
            budget=StoreLongResult(d.storage.outputs, lambda: d.config.current.tools.outputs, d.clock, d.rng),
            restore=sealed.restore,
            describe_owner=self.team.describe_owner,
            find_listing=d.tools.find_listing,
        )

    def _build_runs(self) -> Runs:
        d, store = self._d, self._d.storage.store
        compaction = Compaction(store=store, clock=d.clock, redact=d.redactor)
        histories = Histories(store)
        facts = WorkerFacts(store=store, histories=histories, find_model=_make_model_finder(d, self.team))
        roles = RoleBriefs(team=self.team, gate=self.gate, facts=facts)
        briefs = Briefs(
            live=self.live, team=self.team, histories=histories, store=store, traces=self.traces, roles=roles
        )
        self.warm_up = WarmUp(
            WarmUpDependencies(
                gate=self.gate,
                bus=d.bus,
                supervisor=d.supervisor,
                agents=self.team.resolve_agent,
                models=d.models,
                config=lambda: d.config.current,
                brief=briefs.brief_root,
            )
        )
        loop = Loop(
            LoopDependencies(
                gate=self.gate,
                brief=briefs,
                asks=self.asks,
                compaction=compaction,
                mailboxes=self._mailboxes,
                notes=self.traces,
                steps=d.storage.steps,
                clock=d.clock,
                rng=d.rng,
                memories=d.storage.memories,
                inquiries=d.storage.inquiries,
                read_project=d.read_project,
            )
        )
        return Runs(
            RunsDependencies(
                store=store,
                histories=histories,
                loop=loop,
                compaction=compaction,
                agents=self.team.resolve_agent,
                models=d.models,
                config=lambda: d.config.current,
                workspace=d.workspace,
                clock=d.clock,
                asks=self.asks,
                supervisor=d.supervisor,
                bus=d.bus,
                budgets=d.budgets,
                spawned=self.live,
                observe_model=d.observe_model,
            )
        )

    def _build_librarian(self) -> Librarian:
        d = self._d
        return Librarian(
            LibrarianDependencies(
                store=d.storage.store,
                inquiries=d.storage.inquiries,
                knowledge=d.storage.knowledge,
                agents=self.team.resolve_agent,
                models=d.models,
                config=lambda: d.config.current.librarian,
                redact=d.redactor,
                complete=CountedCompletion(d.storage.store),
                charge=d.budgets.charge,
                supervisor=d.supervisor,
                clock=d.clock,
                rng=d.rng,
            )
        )

    def _build_control(self) -> list[Tool]:
        d, is_coordinator = self._d, self.team.is_coordinator
        workers = Workers(
            teammates=self.teammates,
            live=self.live,
            store=d.storage.store,
            histories=self.runs.histories,
            clock=d.clock,
        )
        return [
            *control.tools(self.teammates, self.team.choose, is_coordinator, workers.find_newest_id),
            SendMessageToWorker(workers, self.teammates.texts, is_coordinator),
        ]

    def _build_peers(self) -> Peers:
        d = self._d
        return Peers(
            PeerDependencies(
                storage=d.storage,
                agents=self.team.list_agents,
                find_agent=self.team.resolve_agent,
                mailboxes=self._mailboxes,
                runs=self.runs,
                bus=d.bus,
                supervisor=d.supervisor,
                config=lambda: d.config.current.peers,
                redact=d.redactor.mask_secrets,
                clock=d.clock,
                rng=d.rng,
                link=d.link,
            )
        )

    def _build_teammates(self) -> Teammates:
        d = self._d
        return Teammates(
            TeammateDependencies(
                runs=self.runs,
                live=self.live,
                store=d.storage.store,
                asks=self.asks,
                partition=self.team.partition,
                is_coordinator=self.team.is_coordinator,
                config=lambda: d.config.current.agent,
                is_repeatable=d.tools.is_repeatable,
                clock=d.clock,
                rng=d.rng,
                supervisor=d.supervisor,
                traces=self.traces,
                bus=d.bus,
                stop=d.stop_jobs,
            )
        )


def _make_step_finder(live: LiveRuns, store: Store) -> Callable[[RunContext], Awaitable[ConversationKey | None]]:
    """Return a function for the conversation of the step of a workflow that a run works for: it, or a run above it."""

    async def find_step(context: RunContext) -> ConversationKey | None:
        key = context.key
        if context.root_id:
            view = live.find(context.root_id)
            run = view.run if view is not None else await store.get_run(context.root_id)
            key = run.key if run is not None else key
        return key if key.sender.startswith(WORKFLOW_SENDER) else None

    return find_step


def _make_model_finder(dependencies: RuntimeDependencies, team: Team) -> Callable[[str, str], Model]:
    """Return a function for the model of an agent, given by name, or the one that its conversation uses instead."""
    models, config = dependencies.models, dependencies.config

    def find_model(name: str, own: str) -> Model:
        agent = team.resolve_agent(name)
        return models(own or (agent.model if agent is not None else "") or config.current.default_model)

    return find_model
