"""Builds the Run and RunRequest of a SpawnRequest: an `agent_spawn` call, or a background start. Pure."""

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.approval import digest
from moot.domain.ask import Asker
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict
from moot.domain.events import EventSource, RunSpawned
from moot.domain.ports.tool import RunContext
from moot.domain.run import (
    NO_MAIL_CAUSE,
    Limits,
    MailCause,
    Outcome,
    Run,
    RunEnd,
    RunKind,
    RunRequest,
    RunStatus,
    Spawn,
)
from moot.domain.scope import ALL_TOOLS, NO_TOOLS
from moot.domain.senders import BACKGROUND_SENDER, CHILD_SENDER
from moot.domain.usage import RunUsage
from moot.multiagent.partition import Partition

# The default time limit of a teammate, and of a wait for teammates.
DEFAULT_SECONDS = 300
_UNKNOWN_CALL = "The daemon stopped during a call whose outcome is not known."
_TURN_STOPPED = "The daemon stopped while this run was active."
_PARENT_STOPPED = "The run that spawned it was stopped."


class SpawnRequest(Struct, frozen=True, kw_only=True):
    """The parameters of an `agent_spawn` call or of a background start."""

    agent: str
    instruction: str
    reason: str = ""
    # None means all tools of the role, an empty tuple means none.
    allowed_tools: tuple[str, ...] | None = None
    limits: Limits = Limits()
    # The client's PATH, of a background start; a teammate has that of its parent.
    search_path: str = ""
    # The conversation that a background run works for, and the sources of untrusted text in its instruction.
    root: ConversationKey | None = None
    # The agent whose conversation with the person gets the result; empty for the one that the run works for.
    report_to: str = ""
    taint: frozenset[str] = frozenset()
    # The cause of the run that starts it in the background.
    cause: MailCause = NO_MAIL_CAUSE


def build_spawned_run(
    context: RunContext, request: SpawnRequest, *, run_id: str, chain: tuple[str, ...], parent_seq: int, now: float
) -> Run:
    """Return the run of an `agent_spawn` call, with a conversation of its own."""
    return Run(
        request=RunRequest(
            id=run_id,
            key=ConversationKey(request.agent, f"{CHILD_SENDER}{run_id}"),
            speaker=request.agent,
            content=request.instruction,
            cwd=context.cwd,
            search_path=context.search_path,
            limits=request.limits,
            root=context.asks_in,
            taint=context.taint,
            root_id=context.root_id or context.run_id,
            parent_id=context.run_id,
        ),
        status=RunStatus.QUEUED,
        created_at=now,
        spawn=Spawn(
            parent_call=context.call_id,
            parent_step=context.step,
            parent_seq=parent_seq,
            chain=chain,
            reason=request.reason,
            allowed_tools=request.allowed_tools,
        ),
    )


def build_continued_run(  # noqa: PLR0913 - what one message for a worker consists of
    context: RunContext, first: Run, message: str, *, run_id: str, chain: tuple[str, ...], parent_seq: int, now: float
) -> Run:
    """Return a run that gives a worker another message, in its conversation and with what it was given at first."""
    return Run(
        request=RunRequest(
            id=run_id,
            key=first.key,
            speaker=first.agent,
            content=message,
            cwd=first.request.cwd,
            search_path=first.request.search_path,
            limits=first.request.limits,
            root=context.asks_in,
            taint=context.taint,
            root_id=context.root_id or context.run_id,
            parent_id=context.run_id,
        ),
        status=RunStatus.QUEUED,
        created_at=now,
        spawn=Spawn(
            parent_call=context.call_id,
            parent_step=context.step,
            parent_seq=parent_seq,
            chain=chain,
            allowed_tools=first.spawn.allowed_tools,
        ),
    )


def build_background_run(
    request: SpawnRequest, *, run_id: str, owner: str, cwd: str, now: float, client_message_id: str = ""
) -> Run:
    """Return the run of a background start by a person, or by an agent for the conversation `asked.root`."""
    return Run(
        request=RunRequest(
            id=run_id,
            key=ConversationKey(request.agent, f"{BACKGROUND_SENDER}{run_id}:{owner}"),
            speaker=request.agent,
            content=request.instruction,
            cwd=cwd,
            search_path=request.search_path,
            limits=request.limits,
            root=request.root,
            taint=request.taint,
            cause=request.cause,
        ),
        status=RunStatus.QUEUED,
        created_at=now,
        spawn=Spawn(
            kind=RunKind.BACKGROUND,
            reason=request.reason,
            allowed_tools=request.allowed_tools,
            report_to=request.report_to,
            client_key=digest(owner, client_message_id) if client_message_id else "",
        ),
    )


def check_same_start(run: Run, request: SpawnRequest, client_message_id: str) -> None:
    """Raise if the client message id was already used for a different start."""
    if (run.agent, run.instruction, run.spawn.allowed_tools) != (
        request.agent,
        request.instruction,
        request.allowed_tools,
    ):
        raise Conflict(
            f"another run was started under the id {client_message_id!r}", fix="Give every new run its own id."
        )


def build_request(run: Run, partition: Partition) -> RunRequest:
    """Return the request of a run with its scope: a teammate has the tools its role has at this moment."""
    is_teammate = run.kind is RunKind.TEAMMATE
    scope = partition.scope_of(run.agent) if is_teammate else ALL_TOOLS
    return replace(
        run.request,
        scope=NO_TOOLS if run.spawn.allowed_tools == () else scope,
        asker=_find_asker(run),
        chain=run.spawn.chain,
        is_first=run.is_first,
    )


def _find_asker(run: Run) -> Asker | None:
    """Return the asker of a run whose questions are shown in another conversation than its own."""
    return run.asker if run.kind is RunKind.TEAMMATE or run.request.root is not None else None


def build_spawned_event(run: Run) -> RunSpawned:
    return RunSpawned(run.agent, run.asker.task, run.spawn.reason, run.spawn.parent_call)


def make_run_source(run: Run) -> EventSource:
    """Return the event source for events of a run that are published outside its turn."""
    return EventSource(
        key=run.key,
        root=run.root,
        speaker=run.agent,
        run_id=run.id,
        parent_id=run.parent_id,
        root_id=run.root_id,
        asker=_find_asker(run),
    )


def make_cancelled_end(spent: RunUsage | None = None, why: str = _PARENT_STOPPED) -> RunEnd:
    """Return the end of a run that was stopped while it was not executing: with its parent, or by a person."""
    return _end(Outcome.CANCELLED, why, spent or RunUsage())


def make_interrupted_end(run: Run) -> RunEnd:
    """Return the end of a run that was running when the daemon stopped and cannot be resumed."""
    return _end(Outcome.INTERRUPTED, _TURN_STOPPED if run.kind is RunKind.TURN else _UNKNOWN_CALL, run.spent)


def _end(outcome: Outcome, error: str, spent: RunUsage) -> RunEnd:
    return RunEnd(
        outcome=outcome,
        error=error,
        usage=spent.usage,
        cost=spent.cost,
        steps=spent.steps,
        seconds=spent.seconds,
        tool_uses=spent.tool_uses,
    )
