"""Runs as they are read back: by id, by a client's id, of a conversation, waiting."""

import json
from collections.abc import Callable, Iterable

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.run import Limits, Outcome, Run, RunEnd, RunRequest, RunStatus
from moot.domain.scope import ALL_TOOLS, NO_TOOLS
from moot.domain.usage import Spent
from moot.store import rows

_COLUMNS = (
    "conversations.agent, conversations.sender, runs.id, speaker, status, coalesce(messages.content, runs.content, ''),"
    " runs.cwd, max_steps, max_seconds, max_tokens, max_spend, client_message_id, runs.created_at, started_at,"
    " ended_at, user_seq, outcome, error, hit_limit, coalesce(replies.content, reply), provider, model, prompt,"
    " completion, cache_hit, cache_miss, reasoning, cost, steps, seconds, author, runs.taint, runs.origin"
)
_SELECT = (
    f"SELECT {_COLUMNS} FROM runs JOIN conversations ON conversations.id = runs.conversation"
    " LEFT JOIN messages ON user_seq > 0 AND messages.id = (runs.conversation << 32) + user_seq"
    " LEFT JOIN messages AS replies ON reply_seq > 0 AND replies.id = (runs.conversation << 32) + reply_seq"
)
# What was said and answered, cut: many of them are read at once, and nobody reads them whole.
_LISTED_TEXT = 4_001
_LISTED = _SELECT.replace(
    "coalesce(messages.content, runs.content, '')",
    f"substr(coalesce(messages.content, runs.content, ''), 1, {_LISTED_TEXT})",
).replace("coalesce(replies.content, reply)", f"substr(coalesce(replies.content, reply), 1, {_LISTED_TEXT})")
# Worded as the index that keeps them in this order.
_ENDED_TURNS = (
    "SELECT number, conversation FROM runs WHERE status = 'ended' AND substr(id, 1, 5) <> 'arun-'"
    " ORDER BY ended_at DESC, number DESC"
)


def _read(found: Iterable[rows.Row]) -> list[Run]:
    return [_run(row) for row in found]


def _run(row: rows.Row) -> Run:
    agent, sender, run_id, speaker, status, content, cwd = row[:7]
    request = RunRequest(
        id=run_id,
        key=ConversationKey(agent, sender),
        speaker=speaker,
        content=content,
        # A scope is not stored; what comes back never allows a guest more than a guest may have.
        scope=ALL_TOOLS if speaker == agent else NO_TOOLS,
        cwd=cwd,
        limits=Limits(steps=row[7], seconds=row[8], tokens=row[9], spend=row[10]),
        client_message_id=row[11],
        author=row[30],
        taint=rows.untainted(row[31]),
        origin=row[32],
    )
    created_at, started_at, ended_at, user_seq = row[12:16]
    return Run(
        request=request,
        status=RunStatus(status),
        created_at=created_at,
        started_at=started_at,
        ended_at=ended_at,
        user_seq=user_seq,
        end=_end(row[16:30]) if status == RunStatus.ENDED else None,
        spent=Spent(usage=rows.usage(row[22:27]), cost=row[27], steps=row[28], seconds=row[29]),
    )


def _end(row: rows.Row) -> RunEnd:
    outcome, error, limit, content, provider, model, *spent, cost, steps, seconds = row
    return RunEnd(
        outcome=Outcome(outcome),
        error=error,
        limit=limit,
        content=content,
        provider=provider,
        model=model,
        usage=rows.usage(tuple(spent)),
        cost=cost,
        steps=steps,
        seconds=seconds,
    )


def ids_from(db: apsw.Connection, start: str, limit: int) -> list[str]:
    # No id has a character beyond those of ASCII.
    found = db.execute(
        "SELECT id FROM runs WHERE id >= ?1 AND id < ?1 || x'7f' ORDER BY id DESC LIMIT ?2", (start, limit)
    )
    return [str(run_id) for (run_id,) in found]


def ended_turns(db: apsw.Connection, owns: Callable[[str], bool], limit: int) -> list[Run]:
    """The turns that ended last, the newest first, of conversations with senders that `owns` says yes to."""
    seen: dict[int, bool] = {}
    numbers: list[int] = []
    for number, conversation in db.execute(_ENDED_TURNS):
        if conversation not in seen:
            seen[conversation] = owns(db.execute("SELECT sender FROM conversations WHERE id = ?", (conversation,)).get)
        if seen[conversation]:
            numbers.append(number)
        if len(numbers) >= limit:
            break
    chosen = f"{_LISTED} WHERE number IN (SELECT value FROM json_each(?)) ORDER BY ended_at DESC, number DESC"
    return _read(db.execute(chosen, (json.dumps(numbers),)))


def find(db: apsw.Connection, key: ConversationKey, client_message_id: str) -> Run | None:
    conversation = rows.conversation_id(db, key)
    if conversation is None or not client_message_id:
        return None
    found = db.execute(
        f"{_SELECT} WHERE runs.conversation = ? AND client_message_id = ? AND client_message_id <> ''",
        (conversation, client_message_id),
    )
    return next(iter(_read(found)), None)


def find_retried(db: apsw.Connection, key: ConversationKey, prefix: str, since: float) -> Run | None:
    """The newest run whose client message id begins so, if it has not ended before then."""
    conversation = rows.conversation_id(db, key)
    found = db.execute(
        f"{_SELECT} WHERE runs.conversation = ?1 AND client_message_id <> ''"
        " AND substr(client_message_id, 1, length(?2)) = ?2 AND (status <> 'ended' OR ended_at >= ?3)"
        " ORDER BY number DESC LIMIT 1",
        (conversation, prefix, since),
    )
    return next(iter(_read(found)), None)


def get(db: apsw.Connection, run_id: str) -> Run | None:
    return next(iter(_read(db.execute(f"{_SELECT} WHERE runs.id = ?", (run_id,)))), None)


def queued(db: apsw.Connection) -> list[Run]:
    """Every run that waits, in the order they came."""
    return _read(db.execute(f"{_SELECT} WHERE status = 'queued' AND status <> 'ended' ORDER BY number"))


def of_conversation(db: apsw.Connection, key: ConversationKey, first_seq: int) -> list[Run]:
    """Runs on messages from first_seq on, then those that have no message; the last of a message holds."""
    conversation = rows.conversation_id(db, key)
    if conversation is None:
        return []
    return _read(
        db.execute(
            f"{_SELECT} WHERE runs.conversation = ? AND (user_seq >= ? OR user_seq = 0)"
            " ORDER BY user_seq = 0, user_seq, number",
            (conversation, first_seq),
        )
    )


def waiting(db: apsw.Connection) -> list[Run]:
    """After recover: runs that go on where the last daemon stopped."""
    return _read(db.execute(f"{_SELECT} WHERE status = 'running' AND status <> 'ended' ORDER BY number"))
