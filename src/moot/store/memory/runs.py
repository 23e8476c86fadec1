"""Writes runs in memory: spawned, queued, begun, extended and ended once; lists what a crash left. Used by store.py."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.inbox_message import NoticeState
from moot.domain.interruption import close_call
from moot.domain.message import Entry, Message, Role, ToolCall, user
from moot.domain.outbox import name_again
from moot.domain.ports.store import StartedRun
from moot.domain.recovery import LeftRun
from moot.domain.run import Limits, Run, RunEnd, RunKind, RunRequest, RunStatus, end_steered
from moot.domain.usage import RunUsage, Usage
from moot.store.memory import asks, found_runs, nodes, notices
from moot.store.memory.database import ConversationRow, Database, DeliveryRow, RunRow, check_text


class Started(NamedTuple):
    """The state of a run when its row is inserted."""

    status: RunStatus
    at: float
    user_seq: int
    epoch: int


def spawn(db: Database, run: Run) -> Run:
    """Store a run as queued with its own conversation. Repeating a call or start returns the first run."""
    nodes.require_run(db, run.parent_id)
    spawned: list[RunRow] = []
    if run.spawn.parent_call:
        spawned = db.runs.find("call", (run.parent_id, run.spawn.parent_call))
    elif run.spawn.client_key:
        spawned = db.runs.find("client_key", run.spawn.client_key)
    if spawned:
        return found_runs.read(db, spawned[0])
    enqueue(db, run.request, run.created_at)
    row = db.runs[run.id]
    db.runs.put(row.id, replace(row, request=replace(row.request, parent_id=run.parent_id), spawn=run.spawn))
    return run


def detach_children(db: Database, parent_id: str) -> None:
    """Let the children of a run continue when it is stopped."""
    nodes.require_run(db, parent_id)
    for row in db.runs.find("parent", parent_id):
        if not row.is_ended:
            db.runs.put(row.id, replace(row, spawn=replace(row.spawn, outlives=True)))


def enqueue(db: Database, request: RunRequest, now: float) -> None:
    conversation, _ = nodes.claim(db, request.key, now)
    earlier = db.runs.get(request.rerun_of)
    if earlier is not None:
        # A client message id belongs to one run only.
        db.runs.put(earlier.id, replace(earlier, request=replace(earlier.request, client_message_id="")))
    _insert(db, conversation, request, Started(RunStatus.QUEUED, 0.0, 0, conversation.epoch), now)


def unqueue(db: Database, run_id: str, end: RunEnd, now: float) -> None:
    row = _require(db, run_id)
    if row.status is RunStatus.RUNNING:
        raise Conflict(f"run {run_id} has begun", fix="End it instead.")
    conversation = db.conversations[row.conversation]
    if row.is_ended and conversation.node != db.node:
        # The daemon that took it over may have begun it, and ended it differently.
        raise nodes.fenced_error(db, conversation.key)
    if row.status is RunStatus.QUEUED:
        # Results it was to deliver remain undelivered.
        for delivery in db.deliveries.find("run", run_id):
            if not delivery.seq:
                db.deliveries.remove(delivery.item_id)
        _record(db, run_id, end, reply_seq=0, now=now)


def begin(db: Database, request: RunRequest, now: float, epoch: int = 0) -> StartedRun:
    conversation, is_new = nodes.claim(db, request.key, now, epoch)
    started = Started(RunStatus.RUNNING, now, conversation.last_seq + 1, conversation.epoch)
    content = request.content
    known = db.runs.get(request.id)
    if known is not None or request.is_first:
        content = _take_from_queue(db, conversation, request, started)
    else:
        _insert(db, conversation, request, started, now)
    message = user(content, author=request.author, taint=request.taint)
    (entry,) = db.append(conversation, request.id, [message], now)
    return StartedRun(entry=entry, created=is_new, epoch=conversation.epoch)


def _take_from_queue(db: Database, conversation: ConversationRow, request: RunRequest, started: Started) -> str:
    row = db.runs.get(request.id)
    if row is None:
        raise _duplicate_error(request)
    if row.status is not RunStatus.QUEUED or row.conversation != conversation.id:
        raise Conflict(f"run {request.id} has begun already", fix="Give every run its own id.")
    content = row.request.content
    begun = replace(
        row,
        request=replace(row.request, content=""),
        status=RunStatus.RUNNING,
        started_at=started.at,
        user_seq=started.user_seq,
        epoch=started.epoch,
    )
    db.runs.put(row.id, begun)
    if request.delivers:
        for delivery in db.deliveries.find("run", row.id):
            if not delivery.seq:
                db.deliveries.put(delivery.item_id, replace(delivery, seq=started.user_seq))
    return content


def rerun(db: Database, request: RunRequest, now: float, epoch: int = 0) -> StartedRun:
    of = request.rerun_of
    row = _require(db, of)
    conversation = db.conversation(request.key)
    if conversation is None or conversation.id != row.conversation:
        raise NotFound(f"run {of} is not of {request.key}", fix="Send the message again.")
    if not row.is_ended:
        raise Conflict(f"run {of} has not ended", fix="Wait for it, or kill it.")
    message_id = row.request.client_message_id
    db.runs.put(of, replace(row, request=replace(row.request, client_message_id="")))
    again = replace(request, client_message_id=request.client_message_id or message_id)
    user_seq = _find_message(db, row)
    if not user_seq or user_seq <= conversation.archived_seq or _is_followed(db, conversation, user_seq):
        # The message was never appended or others follow it, and an answer must follow its message.
        return begin(db, again, now, epoch)
    conversation = nodes.require_held(db, request.key, epoch)
    started = Started(RunStatus.RUNNING, now, user_seq, conversation.epoch)
    if request.id in db.runs:
        _take_from_queue(db, conversation, again, started)
    else:
        _insert(db, conversation, again, started, now)
    entry = db.messages[conversation.id, user_seq]
    return StartedRun(entry=entry, created=False, epoch=conversation.epoch)


def _find_message(db: Database, row: RunRow) -> int:
    """Return the number of the message of a run, also of a rerun that never began; 0 if none was appended."""
    found: RunRow | None = row
    while found is not None and not found.user_seq:
        found = db.runs.get(found.request.rerun_of)
    return found.user_seq if found is not None else 0


def _is_followed(db: Database, conversation: ConversationRow, user_seq: int) -> bool:
    """Return whether another message follows, other than those of the run itself."""
    later = db.entries(conversation.id, user_seq + 1, conversation.last_seq)
    own = db.messages[conversation.id, user_seq].run_id
    return any(entry.message.role is Role.USER and (not own or entry.run_id != own) for entry in later)


class Added(NamedTuple):
    """What a run appends to its conversation: messages, usage so far, and the items that the messages deliver.

    Written under the given epoch; 0 means the epoch of the run's row. `steered` are the runs of the queued messages
    that the first of the messages show, in their order.
    """

    messages: Sequence[Message]
    spent: RunUsage | None = None
    delivers: Sequence[str] = ()
    epoch: int = 0
    steered: Sequence[str] = ()


def append(db: Database, key: ConversationKey, run_id: str, added: Added, now: float) -> list[Entry]:
    """Append messages of a running run. Raise Conflict if it is not running."""
    messages = list(added.messages)
    if not run_id:
        return db.append(nodes.require_held(db, key, added.epoch), run_id, messages, now)
    conversation, row = _read_state(db, key, run_id, added.epoch)
    if row.status is not RunStatus.RUNNING:
        raise Conflict(f"run {run_id} is not running in {key}", fix="Start a new run.")
    if added.spent is not None:
        db.runs.put(run_id, replace(row, spent=most(row.spent, added.spent)))
    written = db.append(conversation, run_id, messages, now)
    for item, entry in zip(added.steered, written, strict=False):
        _end_steered(db, run_id, conversation.id, item, entry)
    for item in added.delivers:
        # An item that was delivered before keeps its delivery.
        if item not in db.deliveries:
            _deliver(db, item, conversation.id, written[-1].seq, run_id)
    return written


def _end_steered(db: Database, run_id: str, conversation: int, item: str, entry: Entry) -> None:
    """End a queued message that a message of an active run shows. Raise Conflict if it is no longer queued."""
    row = db.runs.get(item)
    if row is None or (row.conversation, row.status, row.spawn.kind) != (conversation, RunStatus.QUEUED, RunKind.TURN):
        raise Conflict(f"the message of run {item} is not waiting in this conversation")
    _deliver(db, item, conversation, entry.seq, run_id)
    _record(db, item, end_steered(run_id), reply_seq=0, now=entry.created_at)


class Last(NamedTuple):
    """How a run ends: outcome, final messages, the number they follow, and the epoch, as in `Added`."""

    end: RunEnd
    messages: Sequence[Message]
    after: int | None = None
    epoch: int = 0


def end(db: Database, key: ConversationKey, run_id: str, last: Last, now: float) -> list[Entry]:
    conversation, row = _read_state(db, key, run_id, last.epoch)
    if row.status is RunStatus.QUEUED:
        raise Conflict(f"run {run_id} has not begun", fix="Take it out of the queue instead.")
    if row.is_ended:
        return []
    if last.after is not None and last.after != conversation.last_seq:
        raise Conflict(f"run {run_id} has text that is not stored", fix="End it without a reply.")
    closing = _closing(db, conversation, run_id, last.messages)
    written = db.append(conversation, run_id, [*closing, *last.messages], now)
    reply_seq = 0
    if written and written[-1].message.role is Role.ASSISTANT and written[-1].message.content == last.end.content:
        reply_seq = written[-1].seq
    _record(db, run_id, last.end, reply_seq=reply_seq, now=now)
    return written


def list_left(db: Database, taken: Collection[str]) -> list[LeftRun]:
    """Return runs that have not ended, with what recovery needs to decide; parents before children."""
    found: list[LeftRun] = []
    for run in found_runs.list_not_ended(db):
        if run.id not in taken:
            continue
        conversation = db.require_conversation(run.key)
        children = found_runs.list_of_parent(db, run.id)
        parent = db.runs.get(run.parent_id)
        found.append(
            LeftRun(
                run=run,
                open_calls=_open_calls(db, conversation) if run.status is RunStatus.RUNNING else (),
                resumable=asks.resumable_calls(db, run.id),
                unapproved=asks.list_unapproved_calls(db, run.id),
                parent_outcome=parent.end.outcome if parent and parent.end else None,
                has_teammates=any(
                    child.status is not RunStatus.ENDED or child.delivery == "owed" for child in children
                ),
            )
        )
    return found


def _closing(db: Database, conversation: ConversationRow, run_id: str, messages: Sequence[Message]) -> list[Message]:
    """Return results for the calls that would stay open, because every call of an ended run must have one."""
    given = {message.tool_call_id for message in messages if message.role is Role.TOOL}
    left = [call.id for call in _open_calls(db, conversation) if call.id not in given]
    unapproved = asks.list_unapproved_calls(db, run_id) if left else set()
    return [close_call(call, is_begun=call not in unapproved) for call in left]


def _open_calls(db: Database, conversation: ConversationRow) -> tuple[ToolCall, ...]:
    """Return the calls of the last assistant message that have no result, in call order."""
    answered: set[str] = set()
    for seq in range(conversation.last_seq, 0, -1):
        message = db.messages[conversation.id, seq].message
        if message.role is not Role.TOOL:
            return tuple(call for call in message.tool_calls if call.id not in answered)
        answered.add(message.tool_call_id)
    return ()


def _insert(db: Database, conversation: ConversationRow, request: RunRequest, started: Started, now: float) -> None:
    check_text(request.id, request.content, request.cwd, request.client_message_id, request.author, request.speaker)
    check_text(request.search_path)
    if request.id in db.runs:
        raise Conflict(f"there is a run {request.id}", fix="Give every run its own id.")
    message_id = request.client_message_id
    if message_id and db.runs.find("message", (conversation.id, message_id)):
        raise _duplicate_error(request)
    limits = request.limits
    stored = replace(
        request,
        content="" if started.user_seq else request.content,
        limits=Limits(steps=limits.steps, seconds=limits.seconds, tokens=limits.tokens, spend=limits.spend),
        root_id="" if request.root_id == request.id else request.root_id,
        parent_id="",
        delivers=(),
        asker=None,
        is_first=False,
    )
    row = RunRow(
        number=db.count_up("runs"),
        conversation=conversation.id,
        request=stored,
        status=started.status,
        created_at=now,
        started_at=started.at,
        user_seq=started.user_seq,
        epoch=started.epoch,
    )
    db.runs.put(row.id, row)
    for item in request.delivers:
        # If another message has delivered a result meanwhile, this message would be wrong, so it is refused.
        if item in db.deliveries:
            raise Conflict("the result in the message was delivered before")
        if item not in db.runs and item not in db.mail and item not in db.workflow_reports:
            raise Conflict("the result in the message was deleted")
        run = db.runs.get(item)
        if run is not None and found_runs.is_elsewhere(db, run.parent_id or run.id):
            raise Conflict("another daemon delivers the result in the message")
        _deliver(db, item, conversation.id, started.user_seq, request.id)


def _deliver(db: Database, item: str, conversation: int, seq: int, run_id: str) -> None:
    db.deliveries.put(item, DeliveryRow(item_id=item, conversation=conversation, seq=seq, run_id=run_id))
    mail = db.mail.get(item)
    if mail is None or not mail.evicted_at:
        return
    # It was evicted just after the run was given it, and is read now. If its sender was told, it may send it again.
    again = name_again(mail.mail, db.identity)
    if again.id == item:
        return
    if again.id not in db.deliveries:
        db.deliveries.put(again.id, DeliveryRow(item_id=again.id, conversation=conversation, seq=seq, run_id=run_id))
    if not notices.remove_unpublished(db, item, NoticeState.EVICTED) and again.id not in db.mail:
        db.mail.remove(item)
        db.mail.put(again.id, replace(mail, mail=again))


def _duplicate_error(request: RunRequest) -> Conflict:
    return Conflict(f"message {request.client_message_id!r} was sent before", fix="Give every new message its own id.")


def _read_state(db: Database, key: ConversationKey, run_id: str, epoch: int) -> tuple[ConversationRow, RunRow]:
    """Return the run, checked to be current under `epoch`; 0 means the epoch of its row."""
    row = db.runs.get(run_id)
    if row is None:
        raise _no_run(run_id)
    conversation = db.conversations[row.conversation]
    if conversation.key != key:
        raise NotFound(
            f"run {run_id} does not belong to the conversation with {key}", fix="Use the conversation it began in."
        )
    # Also for an ended run: the daemon that took it over may have ended it differently.
    if conversation.node != db.node or nodes.is_lost(db, row) or epoch not in (0, row.epoch):
        raise nodes.fenced_error(db, key)
    return conversation, row


def _require(db: Database, run_id: str) -> RunRow:
    """Return a run. Raise Fenced if another node has taken it over."""
    row = db.runs.get(run_id)
    if row is None:
        raise _no_run(run_id)
    nodes.require_run(db, run_id)
    return row


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"no run {run_id}", fix="It may have been deleted with its conversation.")


def _record(db: Database, run_id: str, end: RunEnd, *, reply_seq: int, now: float) -> None:
    asks.cancel_of_run(db, run_id, now)
    row = db.runs[run_id]
    ended = replace(
        row,
        status=RunStatus.ENDED,
        ended_at=now,
        reply_seq=reply_seq,
        end=replace(end, content="" if reply_seq else end.content),
        spent=most(row.spent, end.spent),
    )
    db.runs.put(run_id, ended)


def most(known: RunUsage, spent: RunUsage) -> RunUsage:
    """Return the maximum of both usages, because recorded usage never decreases."""
    first, second = known.usage, spent.usage
    return RunUsage(
        usage=Usage(
            prompt=max(first.prompt, second.prompt),
            completion=max(first.completion, second.completion),
            cache_hit=max(first.cache_hit, second.cache_hit),
            cache_miss=max(first.cache_miss, second.cache_miss),
            reasoning=max(first.reasoning, second.reasoning),
        ),
        cost=max(known.cost, spent.cost),
        steps=max(known.steps, spent.steps),
        seconds=max(known.seconds, spent.seconds),
        tool_uses=max(known.tool_uses, spent.tool_uses),
    )
