"""A run as it is told to a client: turns, teammates and background runs in one form. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moot.domain.agent_run import AgentRun, AgentRunStatus, Condition, GrantState, status_of
from moot.domain.ask import Ask
from moot.domain.run import Limits, Run, RunEnd, RunRequest
from moot.engine.lanes import Ticket
from moot.multiagent.teammates.delivery import WAIT, waited_ids
from moot.wire import moot_pb2 as pb

TURN, TEAMMATE, BACKGROUND = "turn", "teammate", "background"


@dataclass(frozen=True, slots=True)
class Moment:
    """The two clocks at the moment a picture of the runs is made."""

    now: float
    monotonic: float


def turn_info(ticket: Ticket, at: Moment, *, position: int, ask: Ask | None) -> pb.RunInfo:
    """A turn of a person's, in flight or in line."""
    request = ticket.request
    assert request is not None
    info = _turn(request)
    info.status = AgentRunStatus.SPAWNED if position else AgentRunStatus.RUNNING
    info.condition = Condition.QUEUED if position else Condition.NONE
    info.position = position
    if not position:
        _add_progress(info, ticket, at)
        info.seconds = at.now - ticket.began_at if ticket.began_at else at.monotonic - ticket.started
        info.started_at = at.now - info.seconds
        waits = _waited_for(ticket)
        if waits:
            info.condition, info.reason = Condition.WAITING, "it waits for its teammates"
            info.waiting_on.extend(waits)
    _add_ask(info, ask)
    return info


def agent_run_info(run: AgentRun, at: Moment, *, ticket: Ticket | None, ask: Ask | None) -> pb.RunInfo:
    """A teammate or a background run that has not ended."""
    info = _agent_run(run)
    info.condition = run.block.condition
    info.reason = run.block.reason
    info.waiting_on.extend(each for each in run.waiting_on.split(", ") if each)
    info.seconds = at.now - (run.started_at or run.created_at)
    info.idle_seconds = info.seconds
    info.last_action = "in line" if run.block.condition is Condition.QUEUED else "starting"
    if ticket is not None:
        _add_progress(info, ticket, at)
    _add_ask(info, ask)
    if run.block.request_id:
        info.grant_request_id, info.grant_attempt = run.block.request_id, run.block.attempt
    return info


def ended_info(run: AgentRun) -> pb.RunInfo:
    """A teammate or a background run that has ended."""
    info = _agent_run(run)
    info.seconds = max(0.0, run.ended_at - (run.started_at or run.created_at))
    info.ended_at = run.ended_at
    assert run.end is not None
    _add_end(info, run.end)
    return info


def ended_turn_info(run: Run) -> pb.RunInfo:
    """A turn of a person's that has ended."""
    info = _turn(run.request)
    info.created_at, info.started_at, info.ended_at = run.created_at, run.started_at, run.ended_at
    info.seconds = max(0.0, run.ended_at - (run.started_at or run.created_at))
    assert run.end is not None
    info.status = status_of(run.end.outcome)
    _add_end(info, run.end)
    return info


def add_needs(infos: Mapping[str, pb.RunInfo]) -> None:
    """Say of each run that has not ended which it still waits for, and whether only a person can bring it further."""
    for info in infos.values():
        left = [run_id for run_id in info.waiting_on if run_id in infos]
        del info.waiting_on[:]
        info.waiting_on.extend(left)
    for info in infos.values():
        info.needs_person = _needs(info, infos, frozenset())


def in_order(infos: Iterable[pb.RunInfo]) -> list[pb.RunInfo]:
    """Those above before those they spawned, each beside its kin; what was asked for first comes first."""
    found = {info.run_id: info for info in infos}
    below: dict[str, list[pb.RunInfo]] = {}
    for info in found.values():
        below.setdefault(info.parent if info.parent in found else "", []).append(info)
    ordered: list[pb.RunInfo] = []

    def put(parent: str) -> None:
        for info in sorted(below.get(parent, []), key=lambda each: each.created_at or each.started_at):
            ordered.append(info)
            put(info.run_id)

    put("")
    return ordered


def shortened(info: pb.RunInfo, most: int) -> pb.RunInfo:
    """The run with its texts cut to so many characters each; whoever wants them whole asks for the run alone."""
    info.instruction, info.result = _cut(info.instruction, most), _cut(info.result, most)
    return info


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _turn(request: RunRequest) -> pb.RunInfo:
    return pb.RunInfo(
        run_id=request.id,
        kind=TURN,
        agent=request.speaker,
        sender=request.key.sender,
        root_agent=request.key.agent,
        root_sender=request.key.sender,
        instruction=request.content,
        cwd=request.cwd,
        limits=_limits(request.limits),
    )


def _agent_run(run: AgentRun) -> pb.RunInfo:
    return pb.RunInfo(
        run_id=run.id,
        kind=BACKGROUND if run.is_background else TEAMMATE,
        agent=run.agent,
        sender=run.key.sender,
        parent=run.parent,
        root_agent=run.root.agent,
        root_sender=run.root.sender,
        status=run.status,
        instruction=run.instruction,
        spawn_reason=run.spawn_reason,
        allowed_tools=run.allowed_tools,
        granted_tools=run.granted_tools,
        cwd=run.cwd,
        limits=_limits(run.limits),
        created_at=run.created_at,
        started_at=run.started_at,
        delivery=run.delivery,
        chain=run.chain,
    )


def _add_progress(info: pb.RunInfo, ticket: Ticket, at: Moment) -> None:
    info.last_action = ticket.last_action
    info.idle_seconds = max(0.0, at.monotonic - ticket.last_at)
    if ticket.progress is not None:
        info.steps = ticket.progress.steps
        info.tokens = ticket.progress.usage.total
        info.cost = ticket.progress.cost


def _add_end(info: pb.RunInfo, end: RunEnd) -> None:
    info.outcome, info.error, info.limit, info.result = end.outcome, end.error, end.limit, end.content
    info.steps, info.tokens, info.cost = end.steps, end.usage.total, end.cost


def _add_ask(info: pb.RunInfo, ask: Ask | None) -> None:
    if ask is None:
        return
    info.ask_id, info.reason = ask.id, ask.waits_for
    info.condition = Condition.ASKING if ask.is_question else Condition.BLOCKED
    if not ask.is_question:
        info.attempt, info.grant_state = ask.attempt, GrantState.PENDING
        info.grant_request_id, info.grant_attempt = ask.id, ask.attempts_since_decision


def _waited_for(ticket: Ticket) -> list[str]:
    """The runs a turn waits for: it says so in the calls it is making."""
    named = [run_id for call in ticket.calls.values() if call.name == WAIT for run_id in waited_ids(call.arguments)]
    return list(dict.fromkeys(named))


def _needs(info: pb.RunInfo, infos: Mapping[str, pb.RunInfo], above: frozenset[str]) -> bool:
    if info.ask_id:
        return True
    waits = [infos[run_id] for run_id in info.waiting_on if run_id in infos and run_id not in above]
    return bool(waits) and all(_needs(each, infos, above | {info.run_id}) for each in waits)


def _limits(limits: Limits) -> pb.RunLimits | None:
    given = {
        name: value for name in ("steps", "seconds", "tokens", "spend") if (value := getattr(limits, name)) is not None
    }
    return pb.RunLimits(**given) if given else None
