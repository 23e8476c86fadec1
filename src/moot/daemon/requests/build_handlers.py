"""Builds the request handlers, each from the objects it uses. Called by daemon/app.py."""

from random import Random

from msgspec import Struct

from moot.agents.registry import Registry
from moot.automation.automation import Automation
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.configured_broker import ConfiguredBroker
from moot.daemon.live_models import LiveModels
from moot.daemon.principal import Principals
from moot.daemon.reloader import Reloader
from moot.daemon.requests.admission import Admission
from moot.daemon.requests.agent_data import AgentDataRequests
from moot.daemon.requests.asks import AskRequests
from moot.daemon.requests.conversations import ConversationRequests
from moot.daemon.requests.cron import CronRequests
from moot.daemon.requests.daemon_info import DaemonFacts, DaemonInfoDependencies, DaemonRequests
from moot.daemon.requests.documents import DocumentRequests
from moot.daemon.requests.graph import GraphRequests
from moot.daemon.requests.handlers import Handlers
from moot.daemon.requests.jobs import JobRequests
from moot.daemon.requests.knowledge import KnowledgeRequests
from moot.daemon.requests.mcp import McpRequests
from moot.daemon.requests.modes import ModeRequests
from moot.daemon.requests.peers import PeerRequests
from moot.daemon.requests.records import RecordDependencies, RecordRequests
from moot.daemon.requests.resume import ResumeDependencies, ResumeRequests
from moot.daemon.requests.run_lookup import RunLookup
from moot.daemon.requests.runs import RunRequestDependencies, RunRequests
from moot.daemon.requests.secrets import SecretRequests
from moot.daemon.requests.steps import StepRequests
from moot.daemon.requests.talk import TalkRequests
from moot.daemon.requests.team_info import TeamInfoRequests
from moot.daemon.requests.traces import TraceRequests
from moot.daemon.requests.undo import UndoRequests
from moot.daemon.requests.visits import VisitRequests
from moot.daemon.requests.vocabularies import VocabularyRequests
from moot.daemon.requests.workflows import WorkflowRequestDependencies, WorkflowRequests
from moot.daemon.toolset import Toolset
from moot.daemon.vault.master_key import MasterKey
from moot.daemon.vault.vault import Vault
from moot.daemon.workspaces import Workspaces
from moot.domain.ports.clock import Clock
from moot.domain.ports.storage import Storage
from moot.engine.bus import Bus
from moot.engine.supervisor import Supervisor
from moot.multiagent.runtime import Runtime
from moot.redaction.redactor import Redactor
from moot.retrieval.retrieval import Retrieval


class HandlerDependencies(Struct, frozen=True, kw_only=True):
    storage: Storage
    clock: Clock
    rng: Random
    config: ConfigFile
    registry: Registry
    models: LiveModels
    redactor: Redactor
    vault: Vault
    master_key: MasterKey
    workspaces: Workspaces
    supervisor: Supervisor
    bus: Bus
    toolset: Toolset
    runtime: Runtime
    automation: Automation
    retrieval: Retrieval
    reloader: Reloader
    principals: Principals
    facts: DaemonFacts
    admission: Admission
    broker: ConfiguredBroker


def build_handlers(d: HandlerDependencies) -> Handlers:
    runtime, toolset, store = d.runtime, d.toolset, d.storage.store
    talk = TalkRequests(
        requests=runtime.requests, runs=runtime.runs, asks=runtime.asks, bus=d.bus, stop=toolset.stop_tree
    )
    records = _build_records(d)
    lookup = RunLookup(
        teammates=runtime.teammates,
        runs=runtime.runs,
        store=store,
        asks=runtime.asks,
        mail=d.storage.mail,
        clock=d.clock,
    )
    return Handlers(
        talk=talk,
        conversations=ConversationRequests(
            store=store, runs=runtime.runs, lookup=lookup, asks=runtime.asks, modes=runtime.modes, clock=d.clock
        ),
        records=records,
        daemon_info=_build_daemon_info(d, lookup),
        asks=AskRequests(asks=runtime.asks, gate=runtime.gate, store=store),
        secrets=SecretRequests(vault=d.vault, master=d.master_key),
        mcp=McpRequests(toolset.servers),
        team_info=TeamInfoRequests(
            registry=d.registry,
            config=d.config,
            toolset=toolset,
            gate=runtime.gate,
            models=d.models,
        ),
        vocabularies=VocabularyRequests(
            registry=d.registry,
            config=lambda: d.config.current,
            team=runtime.team,
            vocabularies=runtime.vocabularies,
        ),
        runs=_build_runs(d, lookup, talk, records),
        jobs=JobRequests(toolset.jobs, d.clock),
        traces=TraceRequests(
            traces=d.storage.traces,
            config=lambda: d.config.current.run_ledger,
            redact=d.redactor.for_log,
            clock=d.clock,
        ),
        steps=StepRequests(store=store, steps=d.storage.steps, models=d.models.get, rng=d.rng),
        visits=VisitRequests(store=store, mail=d.storage.mail, asks=runtime.asks, clock=d.clock),
        modes=ModeRequests(modes=runtime.modes, requests=runtime.requests),
        peers=PeerRequests(
            mail=d.storage.mail,
            outbox=d.storage.outbox,
            peers=runtime.peers,
            bus=d.bus,
            clock=d.clock,
            rng=d.rng,
        ),
        cron=CronRequests(jobs=d.automation.jobs, teammates=runtime.teammates, requests=runtime.requests),
        workflows=_build_workflows(d),
        undo=UndoRequests(changes=toolset.changes, off_limits=toolset.off_limits, redact=d.redactor.mask_secrets),
        resume=_build_resume(d),
        graph=GraphRequests(graph=d.storage.graph, clock=d.clock, redact=d.redactor.mask_secrets),
        documents=DocumentRequests(d.retrieval, requests=runtime.requests, config=lambda: d.config.current),
        knowledge=KnowledgeRequests(
            knowledge=d.storage.knowledge,
            learnings=d.storage.learnings,
            inquiries=d.storage.inquiries,
            clock=d.clock,
            redact=d.redactor.mask_secrets,
        ),
        agent_data=AgentDataRequests(
            tasks=d.storage.tasks,
            memories=d.storage.memories,
            requests=runtime.requests,
            clock=d.clock,
            rng=d.rng,
            redact=d.redactor.mask_secrets,
        ),
    )


def _build_workflows(d: HandlerDependencies) -> WorkflowRequests:
    return WorkflowRequests(
        WorkflowRequestDependencies(
            executor=d.automation.workflows,
            library=d.automation.library,
            jobs=d.automation.jobs,
            workflows=d.storage.workflows,
            requests=d.runtime.requests,
            clock=d.clock,
        )
    )


def _build_resume(d: HandlerDependencies) -> ResumeRequests:
    return ResumeRequests(
        ResumeDependencies(
            store=d.storage.store,
            runs=d.runtime.runs,
            requests=d.runtime.requests,
            config=d.config,
            models=d.models,
            clock=d.clock,
        )
    )


def _build_runs(d: HandlerDependencies, lookup: RunLookup, talk: TalkRequests, records: RecordRequests) -> RunRequests:
    runtime, store = d.runtime, d.storage.store
    return RunRequests(
        RunRequestDependencies(
            lookup=lookup,
            teammates=runtime.teammates,
            runs=runtime.runs,
            store=store,
            requests=runtime.requests,
            talk=talk,
            records=records,
            tools=d.toolset.registry,
            stop_jobs=d.toolset.stop,
            clock=d.clock,
            supervisor=d.supervisor,
            bus=d.bus,
        )
    )


def _build_records(d: HandlerDependencies) -> RecordRequests:
    return RecordRequests(
        RecordDependencies(
            store=d.storage.store,
            runs=d.runtime.runs,
            requests=d.runtime.requests,
            clock=d.clock,
            jobs=d.toolset.jobs,
            changes=d.toolset.changes,
            asks=d.runtime.asks,
            redact=d.redactor.mask_secrets,
            workspaces=d.workspaces,
            gate=d.runtime.gate,
            peers=d.runtime.peers,
        )
    )


def _build_daemon_info(d: HandlerDependencies, lookup: RunLookup) -> DaemonRequests:
    others = d.runtime.peers.others
    assert others is not None, "a daemon has a link to others"
    return DaemonRequests(
        DaemonInfoDependencies(
            store=d.storage.store,
            registry=d.registry,
            config=d.config,
            models=d.models,
            reloader=d.reloader,
            principals=d.principals,
            lookup=lookup,
            asks=d.runtime.asks,
            modes=d.runtime.modes,
            clock=d.clock,
            facts=d.facts,
            admission=d.admission,
            toolset=d.toolset,
            gate=d.runtime.gate,
            team=d.runtime.team,
            broker=d.broker,
            others=others,
        )
    )
