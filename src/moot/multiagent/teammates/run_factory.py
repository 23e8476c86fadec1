"""What is made of a wish: the run that is kept, the request it is carried out with, and an end nobody saw. Pure."""

from dataclasses import replace

from moot.domain.agent_run import AgentRun, AgentRunStatus, Delivery
from moot.domain.approval import digest
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict
from moot.domain.events import EventSource, RunSpawned
from moot.domain.ports import RunContext
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.scope import ALL_TOOLS
from moot.domain.senders import BACKGROUND_SENDER, CHILD_SENDER
from moot.domain.usage import Spent
from moot.multiagent.partition import Partition
from moot.multiagent.teammates.spawn_request import Wish

_UNKNOWN_CALL = "The daemon stopped while a call was going on whose outcome is not known."
_NOTHING = Spent()


def spawned(context: RunContext, wish: Wish, *, run_id: str, chain: tuple[str, ...], parent_seq: int) -> AgentRun:
    """A run that another one asks for. It has a conversation of its own."""
    return AgentRun(
        id=run_id,
        agent=wish.agent,
        instruction=wish.instruction,
        key=ConversationKey(wish.agent, f"{CHILD_SENDER}{run_id}"),
        root=context.asks_in,
        parent=context.run_id,
        parent_key=context.key,
        parent_seq=parent_seq,
        call=context.call_id,
        origin=context.origin or context.run_id,
        step=context.step,
        chain=chain,
        spawn_reason=wish.reason,
        allowed_tools=wish.allowed_tools,
        cwd=context.cwd,
        limits=wish.limits,
        taint=context.taint,
    )


def in_background(wish: Wish, *, run_id: str, owner: str, cwd: str, client_message_id: str = "") -> AgentRun:
    """A run that a person asks for and does not sit before."""
    key = ConversationKey(wish.agent, f"{BACKGROUND_SENDER}{run_id}:{owner}")
    return AgentRun(
        id=run_id,
        agent=wish.agent,
        instruction=wish.instruction,
        key=key,
        root=key,
        client_key=digest(owner, client_message_id) if client_message_id else "",
        spawn_reason=wish.reason,
        allowed_tools=wish.allowed_tools,
        cwd=cwd,
        limits=wish.limits,
        delivery=Delivery.NONE,
    )


def check_same(run: AgentRun, wish: Wish, client_message_id: str) -> AgentRun:
    """The run that a start found, if it is what the start asks for: one id is one start."""
    # What it was asked is not kept for ever.
    if run.instruction and (run.agent, run.instruction, run.allowed_tools) != (
        wish.agent,
        wish.instruction,
        wish.allowed_tools,
    ):
        raise Conflict(
            f"another run was started under the id {client_message_id!r}", fix="Give every new run its own id."
        )
    return run


def request_of(run: AgentRun, partition: Partition, *, is_first: bool) -> RunRequest:
    return RunRequest(
        id=run.id,
        key=run.key,
        speaker=run.agent,
        content=run.instruction,
        scope=partition.scope_of(run.agent) if run.parent else ALL_TOOLS,
        cwd=run.cwd,
        limits=run.limits,
        root=run.root if run.root != run.key else None,
        taint=run.taint,
        origin=run.origin,
        parent_id=run.parent,
        asker=run.asker if run.parent else None,
        is_first=is_first,
    )


def spawned_event(run: AgentRun) -> RunSpawned:
    return RunSpawned(run.agent, run.asker.task, run.spawn_reason, run.call)


def source_of_run(run: AgentRun) -> EventSource:
    """Where the events of a run come from that are published outside its turn."""
    return EventSource(
        key=run.key,
        root=run.root,
        speaker=run.agent,
        run_id=run.id,
        parent_id=run.parent,
        root_id=run.origin or run.id,
        asker=run.asker if run.parent else None,
    )


def taken_back(run: AgentRun, *, now: float) -> AgentRun:
    """A run that was kept for one that is over by now."""
    return replace(
        run, status=AgentRunStatus.CANCELLED, end=stopped(), delivery=Delivery.NONE, created_at=now, ended_at=now
    )


def stopped(spent: Spent = _NOTHING, why: str = "What it was spawned for was stopped.") -> RunEnd:
    """The end of a run that stops without going on: with the one above it when the daemon did, or by hand."""
    return _end(Outcome.CANCELLED, why, spent)


def interrupted(spent: Spent) -> RunEnd:
    """The end of a run that cannot go on: nobody knows what came of its last call."""
    return _end(Outcome.INTERRUPTED, _UNKNOWN_CALL, spent)


def _end(outcome: Outcome, error: str, spent: Spent) -> RunEnd:
    return RunEnd(
        outcome=outcome,
        error=error,
        usage=spent.usage,
        cost=spent.cost,
        steps=spent.steps,
        seconds=spent.seconds,
    )
