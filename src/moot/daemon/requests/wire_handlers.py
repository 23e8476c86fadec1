"""Connects the request handlers to the parts of the daemon they use."""

from typing import TYPE_CHECKING

from moot.daemon.requests.asks import AskRequests
from moot.daemon.requests.conversations import ConversationRequests
from moot.daemon.requests.daemon_info import DaemonRequests
from moot.daemon.requests.exchange import Serving
from moot.daemon.requests.handlers import Handlers
from moot.daemon.requests.jobs import JobRequests
from moot.daemon.requests.mcp import McpRequests
from moot.daemon.requests.records import Beside, RecordRequests
from moot.daemon.requests.run_lookup import RunLookup
from moot.daemon.requests.runs import Desk, RunRequests
from moot.daemon.requests.secrets import SecretRequests
from moot.daemon.requests.steps import StepRequests
from moot.daemon.requests.talk import TalkRequests
from moot.daemon.requests.team_info import TeamInfoRequests
from moot.daemon.requests.traces import TraceRequests
from moot.domain.scope import NOT_SPAWNED
from moot.engine.request_factory import RequestFactory

if TYPE_CHECKING:
    from moot.daemon.app import Daemon


def build_serving(daemon: "Daemon") -> Serving:
    """What every listener hands its connections."""
    doors = RequestFactory(
        agents=daemon.agent,
        flaw=daemon.flaw,
        config=lambda: daemon.config.current,
        clock=daemon.clock,
        rng=daemon.rng,
        redact=daemon.redactor.secrets,
    )
    hands = daemon.hands
    talk = TalkRequests(doors=doors, runs=daemon.runs, asks=daemon.asks, bus=daemon.bus, stop=hands.stop_tree)
    records = _build_records(daemon, doors)
    handlers = Handlers(
        talk=talk,
        conversations=ConversationRequests(store=daemon.store, runs=daemon.runs, asks=daemon.asks, clock=daemon.clock),
        records=records,
        daemon_info=_build_daemon_info(daemon),
        asks=AskRequests(asks=daemon.asks, gate=hands.gate, at_work=daemon.team.teammates.at_work),
        secrets=SecretRequests(vault=hands.vault, master=hands.master),
        mcp=McpRequests(hands.servers),
        team_info=_build_team_info(daemon),
        runs=RunRequests(
            Desk(
                album=_build_run_lookup(daemon),
                teammates=daemon.team.teammates,
                runs=daemon.runs,
                store=daemon.store,
                doors=doors,
                talk=talk,
                records=records,
                tools=hands.tools,
                stop=hands.stop,
                clock=daemon.clock,
                supervisor=daemon.supervisor,
                bus=daemon.bus,
            )
        ),
        jobs=JobRequests(hands.jobs, daemon.clock),
        traces=TraceRequests(daemon.team.trace_shelves()),
        steps=StepRequests(store=daemon.store, steps=daemon.steps, models=daemon.model, rng=daemon.rng),
    )
    serving = Serving(handlers=handlers, tasks=daemon.supervisor, principals=daemon.principals)
    daemon.facts.connections = lambda: len(serving.connections)
    return serving


def _build_records(daemon: "Daemon", doors: RequestFactory) -> RecordRequests:
    beside = Beside(
        jobs=daemon.hands.jobs,
        reload_asks=daemon.asks.reload,
        redact=daemon.redactor.secrets,
        workspaces=daemon.workspaces,
        line=daemon.hands.gate.line,
    )
    return RecordRequests(store=daemon.store, runs=daemon.runs, doors=doors, clock=daemon.clock, beside=beside)


def _build_run_lookup(daemon: "Daemon") -> RunLookup:
    return RunLookup(
        teammates=daemon.team.teammates,
        runs=daemon.runs,
        store=daemon.store,
        asks=daemon.asks,
        clock=daemon.clock,
    )


def _build_team_info(daemon: "Daemon") -> TeamInfoRequests:
    return TeamInfoRequests(
        registry=daemon.registry,
        config=daemon.config,
        hands=daemon.hands,
        model=daemon.model,
        ledger_failures=lambda: daemon.team.mirror.failures,
    )


def _build_daemon_info(daemon: "Daemon") -> DaemonRequests:
    return DaemonRequests(
        store=daemon.store,
        registry=daemon.registry,
        config=daemon.config,
        catalog=lambda: daemon.catalog,
        reload=daemon.reload,
        principals=daemon.principals,
        runs=daemon.runs,
        asks=daemon.asks,
        clock=daemon.clock,
        facts=daemon.facts,
        sandbox=daemon.hands.describe_sandbox,
        tool_flaws=lambda: daemon.hands.plugins.flaws,
        toolbox=lambda: daemon.hands.gate.box(NOT_SPAWNED),
    )
