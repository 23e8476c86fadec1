"""HookChain: the hooks around each tool call, in their order. Used by engine/gate.py."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from moot.domain.config import ToolsConfig
from moot.domain.events import ToolExecuted
from moot.domain.learning import CallRecord
from moot.domain.ports.clock import Clock
from moot.domain.ports.hook import GateCall, Hook
from moot.domain.ports.knowledge import KnowledgeStore, Learnings
from moot.domain.ports.secrets import SecretConsent
from moot.domain.ports.traces import TraceNotes
from moot.engine.asks import Asks
from moot.engine.modes import Modes
from moot.engine.supervisor import Supervisor
from moot.engine.tool_registry import ToolRegistry
from moot.hooks.access import AccessControl
from moot.hooks.approval import ApprovalGate
from moot.hooks.knowledge import KnowledgeSaver
from moot.hooks.learning import LearningObserver
from moot.hooks.publish import EventPublisher
from moot.hooks.sealed_arguments import SealedArguments
from moot.hooks.security import SecurityFilter
from moot.multiagent.teammates.grants import Grants
from moot.redaction.redactor import Redactor
from moot.tools.shell.grammar import classify, classify_script


class HookDependencies(Struct, frozen=True, kw_only=True):
    config: Callable[[], ToolsConfig]
    asks: Asks
    modes: Modes
    grants: Grants
    sealed: SealedArguments
    tools: ToolRegistry
    secrets: SecretConsent
    traces: TraceNotes
    knowledge: KnowledgeStore
    learnings: Learnings
    redactor: Redactor
    supervisor: Supervisor
    clock: Clock


class HookChain:
    def __init__(self, dependencies: HookDependencies) -> None:
        self._config = dependencies.config
        self._asks = dependencies.asks
        self._chains = _build_chains(dependencies)

    def choose(self, call: GateCall | None) -> tuple[Hook, ...]:
        """Return the hooks that are enabled. A call with an ask from before a restart keeps the approval hook."""
        config, asks = self._config(), self._asks
        was_asked = call is not None and asks.is_carried_over(call.context.run_id, call.id)
        return self._chains[config.interceptor.enabled or was_asked, config.knowledge.enabled]


def _build_chains(dependencies: HookDependencies) -> dict[tuple[bool, bool], tuple[Hook, ...]]:
    """Return the possible chains, outermost hook first, by (with approvals, with learning).

    Results pass the hooks from the innermost outwards, so learning sees a result first.
    """
    config = dependencies.config
    security = SecurityFilter(
        classify=classify,
        classify_script=classify_script,
        redact=dependencies.redactor.mask_secrets,
        secrets=dependencies.secrets,
        modes=dependencies.modes,
        blocked=lambda: config().interceptor.blocked_tools,
    )
    before = (security, AccessControl(dependencies.grants.admit, find_refusal=security.find_refusal))
    approval = ApprovalGate(
        dependencies.asks,
        lambda: config().interceptor,
        sealer=dependencies.sealed,
        find_refusal=security.find_refusal,
        modes=dependencies.modes,
        tools=dependencies.tools.tools,
        notes=dependencies.traces,
    )
    publisher = EventPublisher(publish=partial(_publish, dependencies.tools), clock=dependencies.clock)
    learning = _build_learning(dependencies)
    return {
        (asks, learns): (*before, *((approval,) if asks else ()), publisher, *(learning if learns else ()))
        for asks in (False, True)
        for learns in (False, True)
    }


def _publish(tools: ToolRegistry, call: GateCall, record: CallRecord) -> None:
    if call.tool.spec.group == "skill":
        # A skill tool may have created a tool.
        tools.look_again()
    call.context.emit(ToolExecuted(record.call_id, record.tool, record.ok, record.seconds))


def _build_learning(dependencies: HookDependencies) -> tuple[Hook, ...]:
    config, learnings, clock = dependencies.config, dependencies.learnings, dependencies.clock
    redact, later = dependencies.redactor.for_log, dependencies.supervisor.start
    saver = KnowledgeSaver(
        knowledge=dependencies.knowledge, config=lambda: config().knowledge, later=later, clock=clock, redact=redact
    )
    return saver, LearningObserver(learnings=learnings, later=later, clock=clock, redact=redact)
