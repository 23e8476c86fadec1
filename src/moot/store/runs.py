"""Writes runs: spawned, queued, begun, extended and ended once, each with what it delivers."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import apsw
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.interruption import close_call
from moot.domain.message import Entry, Message, Role, user
from moot.domain.ports.store import StartedRun
from moot.domain.run import Run, RunEnd, RunRequest, RunStatus, Spawn, end_steered
from moot.domain.usage import RunUsage
from moot.store import asks, conversations, deliveries, found_runs, nodes, rows, spending


def spawn(db: apsw.Connection, run: Run, node: int) -> Run:
    """Store a queued run with its own conversation. Idempotent: a repeated call or start returns the first run."""
    if (known := found_runs.find_duplicate(db, run)) is not None:
        return known
    nodes.require_run(db, run.parent_id, node)
    enqueue(db, run.request, run.created_at, node, run.spawn)
    return run


def detach_children(db: apsw.Connection, parent_id: str, node: int) -> None:
    """Let the children of a run continue when it is stopped."""
    nodes.require_run(db, parent_id, node)
    db.execute(
        "UPDATE runs SET outlives = 1 WHERE parent_id = ? AND parent_id <> '' AND status <> 'ended'", (parent_id,)
    )


def enqueue(db: apsw.Connection, request: RunRequest, now: float, node: int, spawn: Spawn | None = None) -> None:
    held, _ = conversations.claim(db, request.key, now, node)
    if request.rerun_of:
        # Only one run has the client id of a message.
        db.execute("UPDATE runs SET client_message_id = '' WHERE id = ?", (request.rerun_of,))
    started = _Started(RunStatus.QUEUED, 0.0, 0, held.epoch, request.content, spawn)
    _insert_new(db, held.id, request, started, now)


def unqueue(db: apsw.Connection, run_id: str, end: RunEnd, now: float, node: int) -> None:
    _, status = _require(db, run_id, node)
    if status == RunStatus.RUNNING:
        raise Conflict(f"run {run_id} has begun", fix="End it instead.")
    if status == RunStatus.ENDED:
        # The daemon that took it over may have begun it, and ended it differently.
        nodes.require_owned(db, run_id, node)
    if status == RunStatus.QUEUED:
        # The results it was to deliver stay owed.
        db.execute("DELETE FROM deliveries WHERE run_id = ? AND seq = 0", (run_id,))
        asks.cancel_of_run(db, run_id, now)
        _record(db, run_id, end, reply_seq=0, now=now)


def begin(db: apsw.Connection, request: RunRequest, now: float, node: int, epoch: int = 0) -> StartedRun:
    (conversation, last_seq, epoch), created = conversations.claim(db, request.key, now, node, epoch)
    content, started = request.content, _Started(RunStatus.RUNNING, now, last_seq + 1, epoch)
    if request.is_first:
        content = _take_from_queue(db, conversation, request, started)
    else:
        try:
            _insert(db, conversation, request, started, now)
        except apsw.ConstraintError:
            # Inserting without a query is the common case. Here the run exists already, perhaps as queued.
            content = _take_from_queue(db, conversation, request, started)
    (written,) = rows.append_messages(
        db,
        conversation,
        request.id,
        [user(content, author=request.author, taint=request.taint)],
        now,
        last_seq=last_seq,
    )
    return StartedRun(entry=written, created=created, epoch=epoch)


def _take_from_queue(db: apsw.Connection, conversation: int, request: RunRequest, started: "_Started") -> str:
    row = db.execute("SELECT status, content, conversation FROM runs WHERE id = ?", (request.id,)).fetchone()
    if row is None:
        raise _duplicate_error(request)
    if row[0] != RunStatus.QUEUED or row[2] != conversation:
        raise Conflict(f"run {request.id} has begun already", fix="Give every run its own id.")
    db.execute(
        "UPDATE runs SET status = 'running', content = NULL, started_at = ?, user_seq = ?, epoch = ? WHERE id = ?",
        (started.at, started.user_seq, started.epoch, request.id),
    )
    if request.delivers:
        db.execute("UPDATE deliveries SET seq = ? WHERE run_id = ? AND seq = 0", (started.user_seq, request.id))
    return str(row[1])


def rerun(db: apsw.Connection, request: RunRequest, now: float, node: int, epoch: int = 0) -> StartedRun:
    of = request.rerun_of
    conversation, status = _require(db, of, node)
    if rows.conversation_id(db, request.key) != conversation:
        raise NotFound(f"run {of} is not of {request.key}", fix="Send the message again.")
    if status != RunStatus.ENDED:
        raise Conflict(f"run {of} has not ended", fix="Wait for it, or kill it.")
    client_message_id, archived_seq = rows.one(
        db.execute(
            "SELECT client_message_id, archived_seq FROM runs"
            " JOIN conversations ON conversations.id = runs.conversation WHERE runs.id = ?",
            (of,),
        )
    )
    user_seq = found_runs.find_message(db, of)
    db.execute("UPDATE runs SET client_message_id = '' WHERE id = ?", (of,))
    again = replace(request, client_message_id=request.client_message_id or client_message_id)
    if not user_seq or user_seq <= archived_seq or found_runs.is_followed(db, conversation, user_seq):
        # The message was not appended, is archived, or others followed: it is appended again, to precede its answer.
        return begin(db, again, now, node, epoch)
    epoch = nodes.require_held(db, request.key, node, epoch).epoch
    started = _Started(RunStatus.RUNNING, now, user_seq, epoch)
    if db.execute("SELECT 1 FROM runs WHERE id = ?", (request.id,)).get:
        _take_from_queue(db, conversation, again, started)
    else:
        _insert_new(db, conversation, again, started, now)
    entry = rows.entries_between(db, conversation, user_seq, user_seq)[0]
    return StartedRun(entry=entry, created=False, epoch=epoch)


def append(
    db: apsw.Connection,
    key: ConversationKey,
    run_id: str,
    added: "Added",
    now: float,
    node: int,
) -> list[Entry]:
    """Append messages of a running run. Raise Conflict if it is not running."""
    messages, spent, delivers, epoch, steered = added
    if not run_id:
        held = nodes.require_held(db, key, node, epoch)
        return rows.append_messages(db, held.id, run_id, messages, now, last_seq=held.last_seq)
    conversation, status, _, last_seq, _ = _read_state(db, key, run_id, node, epoch)
    if status != RunStatus.RUNNING:
        raise Conflict(f"run {run_id} is not running in {key}", fix="Start a new run.")
    if spent is not None:
        spending.record(db, run_id, spent)
    written = rows.append_messages(db, conversation, run_id, messages, now, last_seq=last_seq)
    if delivers:
        deliveries.record(db, run_id, conversation, written[-1], delivers)
    for item, entry in zip(steered, written, strict=False):
        deliveries.record_steered(db, run_id, conversation, entry, item)
        _record(db, item, end_steered(run_id), reply_seq=0, now=now)
    return written


class Added(NamedTuple):
    """What a run adds to its conversation: messages, its usage so far, and the items that the messages deliver.

    `steered` are the runs of the queued messages that the first of the messages show, in their order.

    `epoch` is the epoch of the write; 0 stands for that of the run's row.
    """

    messages: Sequence[Message]
    spent: RunUsage | None = None
    delivers: Sequence[str] = ()
    epoch: int = 0
    steered: Sequence[str] = ()


class Last(NamedTuple):
    """The end of a run: outcome, last messages, the expected last number before them, and epoch, as in `Added`."""

    end: RunEnd
    messages: Sequence[Message]
    after: int | None = None
    epoch: int = 0


def end(db: apsw.Connection, key: ConversationKey, run_id: str, last: Last, now: float, node: int) -> list[Entry]:
    end, messages, after, epoch = last
    conversation, status, user_seq, last_seq, has_asks = _read_state(db, key, run_id, node, epoch)
    if status == RunStatus.QUEUED:
        raise Conflict(f"run {run_id} has not begun", fix="Take it out of the queue instead.")
    if status == RunStatus.ENDED:
        return []
    if after is not None and after != last_seq:
        raise Conflict(f"run {run_id} has text that is not stored", fix="End it without a reply.")
    # A run that has added no messages has no open calls.
    closing = [] if user_seq == last_seq else _closing(db, conversation, run_id, messages)
    added = [*closing, *messages]
    written = rows.append_messages(db, conversation, run_id, added, now, last_seq=last_seq)
    reply_seq = 0
    if written and written[-1].message.role is Role.ASSISTANT and written[-1].message.content == end.content:
        reply_seq = written[-1].seq
    if has_asks:
        asks.cancel_of_run(db, run_id, now)
    _record(db, run_id, end, reply_seq=reply_seq, now=now)
    return written


def _closing(db: apsw.Connection, conversation: int, run_id: str, messages: Sequence[Message]) -> list[Message]:
    """Return results for the calls that would stay open, because every call of an ended run must have one."""
    given = {message.tool_call_id for message in messages if message.role is Role.TOOL}
    left = [call.id for call in conversations.list_open_calls(db, conversation) if call.id not in given]
    unapproved = asks.list_unapproved_calls(db, run_id) if left else set()
    return [close_call(call, is_begun=call not in unapproved) for call in left]


class _Started(NamedTuple):
    """The state of a run when its row is inserted."""

    status: RunStatus
    at: float
    user_seq: int
    epoch: int
    # The content of the request until it is a message.
    content: str | None = None
    # Where it comes from, if it is not a turn.
    spawn: Spawn | None = None


def _insert_new(db: apsw.Connection, conversation: int, request: RunRequest, started: _Started, now: float) -> None:
    try:
        _insert(db, conversation, request, started, now)
    except apsw.ConstraintError:
        if db.execute("SELECT 1 FROM runs WHERE id = ?", (request.id,)).get:
            raise Conflict(f"there is a run {request.id}", fix="Give every run its own id.") from None
        raise _duplicate_error(request) from None


def _duplicate_error(request: RunRequest) -> Conflict:
    return Conflict(f"message {request.client_message_id!r} was sent before", fix="Give every new message its own id.")


_COLUMNS = (
    "id, conversation, speaker, status, content, cwd, max_steps, max_seconds, max_tokens, max_spend, client_message_id,"
    " author, taint, root_id, root_agent, root_sender, created_at, started_at, user_seq, epoch, search_path,"
    " thread, hops"
)
_INSERT_TURN = f"INSERT INTO runs ({_COLUMNS}) VALUES ({', '.join('?' * 23)})"
_INSERT_SPAWNED = (
    f"INSERT INTO runs ({_COLUMNS}, kind, parent_id, parent_call, parent_step, parent_seq, chain, spawn_reason,"
    f" allowed_tools, outlives, client_key, report_to) VALUES ({', '.join('?' * 34)})"
)


def _spawn_values(request: RunRequest, spawn: Spawn) -> rows.Row:
    return (
        spawn.kind,
        request.parent_id,
        spawn.parent_call,
        spawn.parent_step,
        spawn.parent_seq,
        json.dumps(spawn.chain),
        spawn.reason,
        None if spawn.allowed_tools is None else json.dumps(spawn.allowed_tools),
        int(spawn.outlives),
        spawn.client_key,
        spawn.report_to,
    )


def _insert(db: apsw.Connection, conversation: int, request: RunRequest, started: _Started, now: float) -> None:
    limits, spawn = request.limits, started.spawn
    db.execute(
        _INSERT_TURN if spawn is None else _INSERT_SPAWNED,
        (
            request.id,
            conversation,
            request.speaker,
            started.status,
            started.content,
            request.cwd,
            limits.steps,
            limits.seconds,
            limits.tokens,
            limits.spend,
            request.client_message_id,
            request.author,
            rows.encode_taint(request.taint) if request.taint else "",
            request.root_id or request.id,
            *(request.root or ("", "")),
            now,
            started.at,
            started.user_seq,
            started.epoch,
            request.search_path,
            request.cause.thread,
            request.cause.hops,
            *(() if spawn is None else _spawn_values(request, spawn)),
        ),
    )
    if request.rerun_of:
        db.execute("UPDATE runs SET rerun_of = ? WHERE id = ?", (request.rerun_of, request.id))
    if request.steers:
        db.execute("UPDATE runs SET steers = ? WHERE id = ?", (request.steers, request.id))
    if request.delivers:
        deliveries.claim(db, request, conversation, started.user_seq, now)


class _RunState(NamedTuple):
    """The state of a run: conversation, status, number of its message, newest number, and whether asks are open."""

    conversation: int
    status: str
    user_seq: int
    last_seq: int
    has_asks: int


_READ_STATE = (
    f"SELECT conversation, status, user_seq, last_seq, {asks.HAS_OPEN}, agent, sender, node, conversations.epoch,"
    " runs.epoch FROM runs JOIN conversations ON conversations.id = runs.conversation WHERE runs.id = ?"
)


def _read_state(db: apsw.Connection, key: ConversationKey, run_id: str, node: int, epoch: int) -> _RunState:
    """Return the state of a run before a write. Raise Fenced unless `epoch` is the run's own; 0 stands for that."""
    row = db.execute(_READ_STATE, (run_id,)).fetchone()
    if row is None:
        raise _no_run(run_id)
    *standing, agent, sender, owner, current, own = row
    found = _RunState(*standing)
    if ConversationKey(agent, sender) != key:
        raise NotFound(
            f"run {run_id} does not belong to the conversation with {key}", fix="Use the conversation it began in."
        )
    # Also for an ended run: the daemon that took it over may have ended it differently.
    if owner != node or epoch not in (0, own) or (found.status != RunStatus.ENDED and current != own):
        raise nodes.fenced_error(db, key, node)
    return found


def _require(db: apsw.Connection, run_id: str, node: int) -> tuple[int, str]:
    """Return the conversation and the status of a run. Raise Fenced if another node has taken it over."""
    row = db.execute(
        f"SELECT conversation, status, agent, sender, {nodes.IS_LOST}"
        " FROM runs JOIN conversations ON conversations.id = runs.conversation WHERE runs.id = ?",
        (node, run_id),
    ).fetchone()
    if row is None:
        raise _no_run(run_id)
    if row[4]:
        raise nodes.fenced_error(db, ConversationKey(row[2], row[3]), node)
    return row[0], row[1]


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"no run {run_id}", fix="It may have been deleted with its conversation.")


def _record(db: apsw.Connection, run_id: str, end: RunEnd, *, reply_seq: int, now: float) -> None:
    db.execute(
        "UPDATE runs SET status = 'ended', ended_at = ?, reply_seq = ?, reply = ?, outcome = ?, error = ?,"
        f" hit_limit = ?, provider = ?, model = ?, {spending.RECORD} WHERE id = ?",
        (
            now,
            reply_seq,
            "" if reply_seq else end.content,
            end.outcome,
            end.error,
            end.limit,
            end.provider,
            end.model,
            *spending.values(end.spent),
            run_id,
        ),
    )
