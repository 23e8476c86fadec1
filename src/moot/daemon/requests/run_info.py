"""Encodes a run as RunInfo, whether it is a turn, a teammate or a background run. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from moot.domain.ask import Ask
from moot.domain.conversation import ConversationKey
from moot.domain.mail import describe_request
from moot.domain.owner import Location, OwnedRun
from moot.domain.run import Limits, Run, RunEnd, RunKind, RunRequest, RunStatus
from moot.domain.run_view import Condition, GrantState, RunView, TeammateStatus, status_of
from moot.engine.lanes import Ticket
from moot.wire import moot_pb2 as pb
from moot.wire.user_messages import user_message_info


class Moment(Struct, frozen=True):
    """The wall clock and the monotonic clock at the time of a snapshot of the runs."""

    now: float
    monotonic: float


def turn_info(
    run: Run, ticket: Ticket, at: Moment, *, position: int, ask: Ask | None, waits: Sequence[str]
) -> pb.RunInfo:
    """Return the info of an active or queued turn of this node; `waits` are the runs it waits for."""
    info = _build_info(run)
    info.status = TeammateStatus.SPAWNED if position else TeammateStatus.RUNNING
    info.condition = Condition.QUEUED if position else Condition.NONE
    info.position = position
    if not position:
        _add_progress(info, ticket, at)
        info.seconds = at.now - ticket.began_at if ticket.began_at else at.monotonic - ticket.started
        info.started_at = at.now - info.seconds
        if waits:
            info.condition, info.reason = Condition.WAITING, "it waits for its teammates"
            info.waiting_on.extend(waits)
    _add_ask(info, ask)
    return info


def live_info(seen: RunView, at: Moment, *, ticket: Ticket | None, ask: Ask | None) -> pb.RunInfo:
    """Return the info of a live teammate or background run."""
    run, block = seen.run, seen.block
    info = _build_info(run)
    info.condition = block.condition
    info.reason = block.reason
    info.waiting_on.extend(seen.waiting_on)
    info.seconds = at.now - (run.started_at or run.created_at)
    info.idle_seconds = info.seconds
    info.last_action = "in line" if block.condition is Condition.QUEUED else "starting"
    if ticket is not None:
        _add_progress(info, ticket, at)
    _add_ask(info, ask)
    if block.request_id:
        info.grant_request_id, info.grant_attempt = block.request_id, block.attempt
    return info


def build_stored_info(owned: OwnedRun, at: Moment, *, ask: Ask | None, position: int) -> pb.RunInfo:
    """Return the info of a run that is not in this node's memory: all that its row says."""
    run = owned.run
    info = _build_info(run)
    info.node, info.position = owned.owner.other_node, position
    info.seconds = max(0.0, at.now - (run.started_at or run.created_at))
    info.steps, info.tokens, info.cost = run.spent.steps, run.spent.usage.total, run.spent.cost
    if owned.location is Location.NOWHERE:
        info.condition, info.reason = Condition.RESUMING, "the daemon that executed it is not running"
    elif run.status is RunStatus.QUEUED:
        info.condition = Condition.QUEUED
    _add_ask(info, ask)
    return info


def build_ended_info(run: Run) -> pb.RunInfo:
    """Return the info of an ended run."""
    info = _build_info(run)
    info.seconds = max(0.0, run.ended_at - (run.started_at or run.created_at))
    info.ended_at = run.ended_at
    assert run.end is not None
    _add_end(info, run.end)
    return info


def add_needs(infos: Mapping[str, pb.RunInfo]) -> None:
    """Set for each live run which runs it still waits for, and whether only a person can unblock it."""
    for info in infos.values():
        left = [run_id for run_id in info.waiting_on if run_id in infos]
        del info.waiting_on[:]
        info.waiting_on.extend(left)
    for info in infos.values():
        info.needs_person = _needs(info, infos, frozenset())


def key_of(info: pb.RunInfo) -> ConversationKey:
    """Return the conversation of a run; for a turn the root conversation, also if a guest speaks."""
    return ConversationKey(info.root_agent if info.kind == RunKind.TURN else info.agent, info.sender)


def sort_as_tree(infos: Iterable[pb.RunInfo]) -> list[pb.RunInfo]:
    """Return the runs as a tree in depth-first order; siblings by time of creation."""
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


def shorten_info(info: pb.RunInfo, most: int) -> pb.RunInfo:
    """Cut the texts of a run for a list, to `most` characters each; a single run is sent complete."""
    info.instruction, info.result = _cut(info.instruction, most), _cut(info.result, most)
    return info


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _turn(request: RunRequest) -> pb.RunInfo:
    return pb.RunInfo(
        run_id=request.id,
        kind=RunKind.TURN,
        agent=request.speaker,
        sender=request.key.sender,
        root_agent=request.key.agent,
        root_sender=request.key.sender,
        instruction=describe_request(request.content, request.author),
        cwd=request.cwd,
        limits=_limits(request.limits),
    )


def _build_info(run: Run) -> pb.RunInfo:
    info = _turn(run.request)
    info.kind, info.status = run.kind, status_of(run)
    info.created_at, info.started_at = run.created_at, run.started_at
    if run.kind is not RunKind.TURN:
        info.root_agent, info.root_sender = run.root
        info.parent, info.spawn_reason, info.delivery = run.parent_id, run.spawn.reason, run.delivery
        info.allowed_tools.extend(run.spawn.allowed_tools or ())
        info.granted_tools.extend(run.granted_tools)
        info.chain.extend(run.spawn.chain)
    return info


def _add_progress(info: pb.RunInfo, ticket: Ticket, at: Moment) -> None:
    info.last_action = ticket.last_action
    info.idle_seconds = max(0.0, at.monotonic - ticket.last_at)
    if ticket.progress is not None:
        info.steps = ticket.progress.steps
        info.tokens = ticket.progress.usage.total
        info.cost = ticket.progress.cost


def _add_end(info: pb.RunInfo, end: RunEnd) -> None:
    info.outcome, info.error, info.limit, info.result = end.outcome, end.error, end.limit, end.answer
    info.steps, info.tokens, info.cost = end.steps, end.usage.total, end.cost
    info.messages.extend(map(user_message_info, end.messages))


def _add_ask(info: pb.RunInfo, ask: Ask | None) -> None:
    if ask is None:
        return
    info.ask_id, info.reason = ask.id, ask.waits_for
    info.condition = Condition.ASKING if ask.is_question else Condition.BLOCKED
    if not ask.is_question:
        info.attempt, info.grant_state = ask.attempt, GrantState.PENDING
        info.grant_request_id, info.grant_attempt = ask.id, ask.attempts_since_decision


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
