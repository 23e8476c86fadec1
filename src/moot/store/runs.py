"""Runs: queued, begun, ended once, and put right after a crash."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import apsw

from moot.domain.agent_run import Delivery
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.message import Entry, Message, Role, tool_result, user
from moot.domain.ports import Begun
from moot.domain.run import Outcome, Run, RunEnd, RunRequest, RunStatus
from moot.domain.usage import Spent
from moot.store import agent_runs, asks, conversations, found_runs, rows, spending

INTERRUPTED_CALL = "interrupted: the daemon stopped before this call's outcome was known; it was not run again"
INTERRUPTED_RUN = "the daemon stopped while this run was in flight"


def enqueue(db: apsw.Connection, request: RunRequest, now: float) -> None:
    conversation, _, _ = conversations.create(db, request.key, now)
    _insert_new(db, conversation, request, _Started(RunStatus.QUEUED, 0.0, 0), now)
    db.execute("UPDATE runs SET content = ? WHERE id = ?", (request.content, request.id))


def unqueue(db: apsw.Connection, run_id: str, end: RunEnd, now: float) -> None:
    _, status = _require(db, run_id)
    if status == RunStatus.RUNNING:
        raise Conflict(f"run {run_id} has begun", fix="End it instead.")
    if status == RunStatus.QUEUED:
        _record(db, run_id, end, reply_seq=0, now=now)


def begin(db: apsw.Connection, request: RunRequest, now: float) -> Begun:
    conversation, last_seq, created = conversations.create(db, request.key, now)
    seq, content = last_seq + 1, request.content
    try:
        _insert(db, conversation, request, _Started(RunStatus.RUNNING, now, seq), now)
    except apsw.ConstraintError:
        # The common way asks nothing first; the run is there already, and may be one that waited.
        content = _take_from_queue(db, conversation, request, seq, now)
    (written,) = rows.append_messages(
        db,
        conversation,
        request.id,
        [user(content, author=request.author, taint=request.taint)],
        now,
        last_seq=last_seq,
    )
    return Begun(entry=written, created=created)


def _take_from_queue(db: apsw.Connection, conversation: int, request: RunRequest, seq: int, now: float) -> str:
    row = db.execute("SELECT status, content, conversation FROM runs WHERE id = ?", (request.id,)).fetchone()
    if row is None:
        raise _sent_before(request)
    if row[0] != RunStatus.QUEUED or row[2] != conversation:
        raise Conflict(f"run {request.id} has begun already", fix="Give every run its own id.")
    db.execute(
        "UPDATE runs SET status = 'running', content = NULL, started_at = ?, user_seq = ? WHERE id = ?",
        (now, seq, request.id),
    )
    return str(row[1])


def rerun(db: apsw.Connection, request: RunRequest, of: str, now: float) -> Entry:
    conversation, status = _require(db, of)
    if rows.conversation_id(db, request.key) != conversation:
        raise NotFound(f"run {of} is not of {request.key}", fix="Send the message again.")
    if status != RunStatus.ENDED:
        raise Conflict(f"run {of} has not ended", fix="Wait for it, or kill it.")
    user_seq, client_message_id, archived_seq = rows.one(
        db.execute(
            "SELECT user_seq, client_message_id, archived_seq FROM runs"
            " JOIN conversations ON conversations.id = runs.conversation WHERE runs.id = ?",
            (of,),
        )
    )
    if user_seq and (user_seq <= archived_seq or _followed(db, conversation, user_seq)):
        raise Conflict(f"the message of run {of} is not the last one", fix="Send the message again under a new id.")
    db.execute("UPDATE runs SET client_message_id = '' WHERE id = ?", (of,))
    if not user_seq:
        # It was taken off the line before its message was appended; this is its first time.
        return begin(db, request, now).entry
    again = replace(request, client_message_id=request.client_message_id or client_message_id)
    _insert_new(db, conversation, again, _Started(RunStatus.RUNNING, now, user_seq), now)
    return rows.entries_between(db, conversation, user_seq, user_seq)[0]


def _followed(db: apsw.Connection, conversation: int, user_seq: int) -> bool:
    """Whether somebody spoke after that message. What the run itself did after it is where a rerun goes on."""
    first, last = rows.message_id(conversation, user_seq + 1), rows.message_id(conversation + 1, 0)
    found = db.execute("SELECT 1 FROM messages WHERE id >= ? AND id < ? AND role = 'user' LIMIT 1", (first, last))
    return found.fetchone() is not None


def append(
    db: apsw.Connection,
    key: ConversationKey,
    run_id: str,
    messages: Sequence[Message],
    now: float,
    spent: Spent | None = None,
) -> list[Entry]:
    """Append what a running run has to say; nothing is heard from a run that has ended."""
    if not run_id:
        return rows.append_messages(db, rows.require_conversation(db, key), run_id, messages, now)
    conversation, status, _, last_seq = _standing(db, key, run_id)
    if status != RunStatus.RUNNING:
        raise Conflict(f"run {run_id} is not running in {key}", fix="Start a new run.")
    if spent is not None:
        spending.record(db, run_id, spent)
    return rows.append_messages(db, conversation, run_id, messages, now, last_seq=last_seq)


class Last(NamedTuple):
    """How a run ends: its outcome, what it still says, and after which number."""

    end: RunEnd
    messages: Sequence[Message]
    after: int | None


def end(db: apsw.Connection, key: ConversationKey, run_id: str, last: Last, now: float) -> list[Entry]:
    end, messages, after = last
    conversation, status, user_seq, last_seq = _standing(db, key, run_id)
    if status == RunStatus.QUEUED:
        raise Conflict(f"run {run_id} has not begun", fix="Take it out of the queue instead.")
    if status == RunStatus.ENDED:
        return []
    if after is not None and after != last_seq:
        raise Conflict(f"run {run_id} has said something that is not stored", fix="End it without its last words.")
    # Nothing can be open where the run has added nothing yet.
    closing = [] if user_seq == last_seq else _closing(db, conversation, messages)
    written = rows.append_messages(db, conversation, run_id, [*closing, *messages], now, last_seq=last_seq)
    reply_seq = 0
    if written and written[-1].message.role is Role.ASSISTANT and written[-1].message.content == end.content:
        reply_seq = written[-1].seq
    _record(db, run_id, end, reply_seq=reply_seq, now=now)
    return written


def recover(db: apsw.Connection, now: float) -> list[Run]:
    """End what a dead daemon left running.

    What was queued stays queued, what waits for its owner goes on waiting, and a team (a teammate, work in the
    background, a turn with teammates that are owed to it) is left running for whoever takes it up.
    """
    found = list(
        db.execute(
            "SELECT id, conversation, EXISTS (SELECT 1 FROM agent_runs WHERE id = runs.id AND status = 'spawned')"
            " OR EXISTS (SELECT 1 FROM agent_runs WHERE parent = runs.id AND (status = 'spawned' OR delivery = 'owed'))"
            " FROM runs WHERE status = 'running' AND status <> 'ended' ORDER BY number"
        )
    )
    left = [
        (run_id, conversation)
        for run_id, conversation, is_of_team in found
        if not is_of_team and not _waits(db, run_id, conversation)
    ]
    for run_id, conversation in left:
        rows.append_messages(db, conversation, run_id, _closing(db, conversation, ()), now)
        _record(db, run_id, RunEnd(outcome=Outcome.INTERRUPTED, error=INTERRUPTED_RUN), reply_seq=0, now=now)
    return [run for run_id, _ in left if (run := found_runs.get(db, run_id)) is not None]


def _waits(db: apsw.Connection, run_id: str, conversation: int) -> bool:
    """Whether nothing about the run is unknown: each of its open calls waits for a person, or for its answer's use."""
    open_calls = set(_open_calls(db, conversation))
    return bool(open_calls) and open_calls <= asks.resumable_calls(db, run_id)


def _closing(db: apsw.Connection, conversation: int, messages: Sequence[Message]) -> list[Message]:
    """Results for the calls that would be left open: no run ends without every call having its own."""
    given = {message.tool_call_id for message in messages if message.role is Role.TOOL}
    left = [call for call in _open_calls(db, conversation) if call not in given]
    return [tool_result(call, INTERRUPTED_CALL, is_error=True) for call in left]


def _open_calls(db: apsw.Connection, conversation: int) -> list[str]:
    """The calls of the last assistant message that have no result yet, in call order."""
    answered: set[str] = set()
    tail = db.execute(
        f"SELECT {rows.MESSAGE_COLUMNS} FROM messages WHERE id BETWEEN ? AND ? ORDER BY id DESC",
        (rows.message_id(conversation, 1), rows.message_id(conversation, rows.MAX_SEQ)),
    )
    for row in tail:
        message = rows.entry(row).message
        if message.role is not Role.TOOL:
            return [call.id for call in message.tool_calls if call.id not in answered]
        answered.add(message.tool_call_id)
    return []


class _Started(NamedTuple):
    """How a run stands when its row is made."""

    status: RunStatus
    at: float
    user_seq: int


def _insert_new(db: apsw.Connection, conversation: int, request: RunRequest, started: _Started, now: float) -> None:
    try:
        _insert(db, conversation, request, started, now)
    except apsw.ConstraintError:
        if db.execute("SELECT 1 FROM runs WHERE id = ?", (request.id,)).get:
            raise Conflict(f"there is a run {request.id}", fix="Give every run its own id.") from None
        raise _sent_before(request) from None


def _sent_before(request: RunRequest) -> Conflict:
    return Conflict(f"message {request.client_message_id!r} was sent before", fix="Give every new message its own id.")


def _insert(db: apsw.Connection, conversation: int, request: RunRequest, started: _Started, now: float) -> None:
    limits = request.limits
    db.execute(
        "INSERT INTO runs (id, conversation, speaker, status, cwd, max_steps, max_seconds, max_tokens, max_spend,"
        " client_message_id, author, taint, origin, created_at, started_at, user_seq)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            request.id,
            conversation,
            request.speaker,
            started.status.value,
            request.cwd,
            limits.steps,
            limits.seconds,
            limits.tokens,
            limits.spend,
            request.client_message_id,
            request.author,
            rows.tainted(request.taint),
            request.origin,
            now,
            started.at,
            started.user_seq,
        ),
    )
    if request.delivers:
        agent_runs.delivered(db, request.delivers, Delivery.SENT)


class _Standing(NamedTuple):
    """Where a run stands: its conversation, its state, the number of its message and the newest one there."""

    conversation: int
    status: str
    user_seq: int
    last_seq: int


def _standing(db: apsw.Connection, key: ConversationKey, run_id: str) -> _Standing:
    row = db.execute(
        "SELECT conversation, status, user_seq, last_seq, agent, sender FROM runs"
        " JOIN conversations ON conversations.id = runs.conversation WHERE runs.id = ?",
        (run_id,),
    ).fetchone()
    if row is None:
        raise _no_run(run_id)
    if row[4:] != key:
        raise NotFound(f"run {run_id} is not of {key}", fix="Use the conversation it began in.")
    return _Standing._make(row[:4])


def _require(db: apsw.Connection, run_id: str) -> tuple[int, str]:
    row = db.execute("SELECT conversation, status FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise _no_run(run_id)
    return row[0], row[1]


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"no run {run_id}", fix="It may have been deleted with its conversation.")


def _record(db: apsw.Connection, run_id: str, end: RunEnd, *, reply_seq: int, now: float) -> None:
    asks.cancel_of_run(db, run_id, now)
    db.execute(
        "UPDATE runs SET status = 'ended', ended_at = ?, reply_seq = ?, reply = ?, outcome = ?, error = ?,"
        f" hit_limit = ?, provider = ?, model = ?, {spending.RECORD} WHERE id = ?",
        (
            now,
            reply_seq,
            "" if reply_seq else end.content,
            end.outcome.value,
            end.error,
            end.limit,
            end.provider,
            end.model,
            *spending.values(Spent(usage=end.usage, cost=end.cost, steps=end.steps, seconds=end.seconds)),
            run_id,
        ),
    )
