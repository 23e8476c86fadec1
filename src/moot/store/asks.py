"""The table of asks: questions, approvals and grants. Each change is one transaction; rules are in store/rules.py."""

import apsw
import msgspec

from moot.domain.approval import Decision, require_rules
from moot.domain.ask import (
    LIST_OPEN,
    Ask,
    AskAttempt,
    AskKind,
    AskReply,
    AskState,
    Binding,
    Question,
    check_answerable,
    check_decidable,
)
from moot.domain.call_shape import CallShape
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.store import nodes, rows, rules
from moot.store.transactions import Transactions

_ATTEMPT = "call, line, reason, attempt, decided_attempts, state, opened_at, decided_at, decided_by, closed_at"
# Keeps an attempt of an approval or grant before it is asked again.
_KEEP_ATTEMPT = (
    f"INSERT INTO past_attempts (ask, {_ATTEMPT}) SELECT number, {_ATTEMPT} FROM asks"
    " WHERE id = ? AND kind <> 'question'"
)
# The attempts of the approvals and grants of a run, in the order in which its asks were first opened.
_ATTEMPTS = (
    f"SELECT id, kind, speaker, tool, number AS ask, {_ATTEMPT} FROM asks WHERE run = ?1 AND kind <> 'question'"
    f" UNION ALL SELECT id, kind, speaker, tool, ask, {{past}} FROM past_attempts"
    " JOIN asks ON asks.number = ask WHERE run = ?1 ORDER BY ask, attempt"
).format(past=", ".join(f"past_attempts.{column}" for column in _ATTEMPT.split(", ")))
_COLUMNS = (
    "agent, sender, asks.id, kind, run, call, speaker, asks.chain, tool, questions, answer, arguments, subject, line,"
    " preview, reason, digest, exact, what, sealed, resumable, attempt, decided_attempts, state, opened_at, expires_at,"
    " shape"
)
_SELECT = f"SELECT {_COLUMNS} FROM asks JOIN conversations ON conversations.id = asks.conversation"
# Whether another daemon has taken over the run that asks. Takes the number of this node.
_IS_LOST = f"EXISTS (SELECT 1 FROM runs WHERE runs.id = asks.run AND {nodes.IS_LOST})"
_SELECT_HELD = _SELECT.replace(_COLUMNS, f"{_COLUMNS}, {_IS_LOST}")
_IS_OPEN = "state IN ('pending', 'granted')"
# For a row of `runs`: whether it has an open ask.
HAS_OPEN = f"EXISTS (SELECT 1 FROM asks WHERE asks.run = runs.id AND {_IS_OPEN})"
# The call of the ask was not made: it is undecided, granted but not used, denied or expired.
_IS_UNUSED = "state IN ('pending', 'granted', 'denied', 'expired')"


class SqliteAsks:
    def __init__(self, store: Transactions) -> None:
        self._store = store

    async def open(self, ask: Ask) -> Ask:
        """Store an ask as pending. An ask that exists keeps its id, and its attempt number goes up."""
        return await self._store.write(lambda db: _open(db, ask, self._store.node), "ask")

    async def answer(self, key: ConversationKey, reply: AskReply, *, now: float) -> Ask:
        """Answer the oldest open question of the conversation. Idempotent: a repeated reply changes nothing."""
        return await self._store.write(lambda db: _answer(db, key, reply, now, self._store.node), "answer")

    async def decide(  # noqa: PLR0913 — what one decision consists of
        self,
        ask_id: str,
        *,
        attempt: int,
        decision: Decision,
        by: str,
        now: float,
        whole: bool = False,
        pattern: str = "",
        reason: str = "",
    ) -> Ask:
        """Store the decision on an approval or grant, with its rules in the same transaction."""

        def settle(db: apsw.Connection) -> Ask:
            ask = _require_pending(db, ask_id, attempt, now, self._store.node)
            written = require_rules(ask, decision, whole=whole, pattern=pattern)
            state = AskState.DENIED if decision is Decision.DENY else AskState.GRANTED
            db.execute(
                "UPDATE asks SET state = ?1, decided_at = ?2, decided_by = ?3, answer = ?5,"
                " sealed = CASE ?1 WHEN 'denied' THEN NULL ELSE sealed END,"
                " closed_at = CASE ?1 WHEN 'denied' THEN ?2 ELSE 0 END WHERE id = ?4",
                (state.value, now, by, ask_id, reason if state is AskState.DENIED else ""),
            )
            rules.write(db, written, by, now)
            return _require(db, ask_id)

        return await self._store.write(settle, "decide")

    async def use(self, ask: Ask, *, now: float) -> None:
        """Mark a granted ask as used. Raise Conflict if it is not granted for this call and attempt."""
        await self._store.write(lambda db: _use(db, ask, now, self._store.node), "use")

    async def close(self, ask_id: str, state: AskState, *, now: float) -> Ask | None:
        """Close a pending ask and return its current value. An ask that is already decided is not changed.

        Only a cancellation also closes a granted ask that was not used.
        """
        open_states = _IS_OPEN if state is AskState.CANCELLED else "state = 'pending'"

        def close(db: apsw.Connection) -> Ask | None:
            db.execute(
                f"UPDATE asks SET state = ?, closed_at = ?, sealed = NULL WHERE id = ? AND {open_states}",
                (state.value, now, ask_id),
            )
            return _find_held(db, ask_id, self._store.node)

        return await self._store.write(close, "close ask")

    async def find(self, ask_id: str) -> Ask | None:
        return await self._store.read(lambda db: _find(db, ask_id))

    async def find_held(self, ask_id: str) -> Ask | None:
        return await self._store.read(lambda db: _find_held(db, ask_id, self._store.node))

    async def find_reply(self, key: ConversationKey, prefix: str) -> Ask | None:
        """Return the question that was answered last by a reply whose id has this prefix."""
        return await self._store.read(lambda db: _find_reply(db, key, prefix, is_prefix=True))

    async def list_open(self, *, here: bool = False) -> list[Ask]:
        """Return the pending asks, and the granted ones that were not used, oldest first."""
        found = f"{_SELECT_HELD} WHERE {_IS_OPEN} ORDER BY opened_at, number"
        return await self._store.read(
            lambda db: [_ask(row) for row in db.execute(found, (self._store.node,)) if not (here and row[-1])]
        )

    async def list_unused_calls(self) -> list[tuple[str, str]]:
        """Return (run, call) of each approval and grant that was not used, for runs that have not ended."""
        found = (
            f"SELECT run, call FROM asks WHERE kind <> 'question' AND {_IS_UNUSED}"
            " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = asks.run AND runs.status = 'ended')"
        )
        return await self._store.read(lambda db: [(run, call) for run, call in db.execute(found)])


def list_attempts(db: apsw.Connection, run_id: str) -> list[AskAttempt]:
    """Return every attempt of the approvals and grants of a run; attempts of one ask in order."""
    return [
        AskAttempt(
            ask_id=row[0],
            kind=AskKind(row[1]),
            speaker=row[2],
            tool=row[3],
            call_id=row[5],
            line=row[6],
            reason=row[7],
            attempt=row[8],
            decided_attempts=row[9],
            state=AskState(row[10]),
            opened_at=row[11],
            decided_at=row[12],
            decided_by=row[13],
            closed_at=row[14],
        )
        for row in db.execute(_ATTEMPTS, (run_id,))
    ]


def resumable_calls(db: apsw.Connection, run_id: str) -> set[str]:
    """Return the calls of a run that can be made after a restart: those with an open, unused or answered ask."""
    found = db.execute(
        "SELECT call FROM asks WHERE run = ? AND resumable = 1"
        f" AND (kind = 'question' AND state <> 'cancelled' OR {_IS_UNUSED})",
        (run_id,),
    )
    return {str(call) for (call,) in found}


def list_unapproved_calls(db: apsw.Connection, run_id: str) -> set[str]:
    """Return the calls of a run that were not begun. An approval is marked as used before its call is made."""
    found = db.execute(
        f"SELECT call FROM asks WHERE run = ?1 AND kind <> 'question' AND {_IS_UNUSED}"
        " EXCEPT SELECT call FROM asks WHERE run = ?1 AND state = 'used'",
        (run_id,),
    )
    return {str(call) for (call,) in found}


def cancel_of_run(db: apsw.Connection, run_id: str, now: float) -> None:
    """Cancel the open asks of a run that ends."""
    db.execute(
        f"UPDATE asks SET state = 'cancelled', closed_at = ?, sealed = NULL WHERE run = ? AND {_IS_OPEN}",
        (now, run_id),
    )


def _ask(row: rows.Row) -> Ask:
    return Ask(
        key=ConversationKey(row[0], row[1]),
        id=row[2],
        kind=AskKind(row[3]),
        run_id=row[4],
        call_id=row[5],
        speaker=row[6],
        chain=tuple(msgspec.json.decode(row[7])),
        tool=row[8],
        questions=msgspec.json.decode(row[9], type=tuple[Question, ...]),
        answer=row[10],
        arguments=row[11],
        subject=row[12],
        line=row[13],
        preview=row[14],
        reason=row[15],
        digest=row[16],
        exact=row[17],
        binding=Binding(what=row[18]),
        sealed=row[19] or b"",
        is_resumable=bool(row[20]),
        attempt=row[21],
        decided_attempts=row[22],
        state=AskState(row[23]),
        opened_at=row[24],
        expires_at=row[25],
        shape=msgspec.json.decode(row[26], type=CallShape) if row[26] else None,
    )


def _find(db: apsw.Connection, ask_id: str) -> Ask | None:
    row = db.execute(f"{_SELECT} WHERE asks.id = ?", (ask_id,)).fetchone()
    return None if row is None else _ask(row)


def _find_held(db: apsw.Connection, ask_id: str, node: int) -> Ask | None:
    """Return the ask. Raise Fenced if another daemon has taken over its run."""
    row = db.execute(f"{_SELECT_HELD} WHERE asks.id = ?", (node, ask_id)).fetchone()
    return None if row is None else _require_owned(db, row, node)


def _require_owned(db: apsw.Connection, row: rows.Row, node: int) -> Ask:
    ask = _ask(row)
    if row[-1]:
        nodes.require_run(db, ask.run_id, node)
    return ask


def _require(db: apsw.Connection, ask_id: str) -> Ask:
    ask = _find(db, ask_id)
    if ask is None:
        raise NotFound(f"there is no ask {ask_id}", fix=LIST_OPEN)
    return ask


def _find_reply(db: apsw.Connection, key: ConversationKey, reply_id: str, *, is_prefix: bool = False) -> Ask | None:
    same = "substr(reply_id, 1, length(?3)) = ?3" if is_prefix else "reply_id = ?3"
    found = f"{_SELECT} WHERE agent = ?1 AND sender = ?2 AND reply_id <> '' AND {same} ORDER BY decided_at DESC LIMIT 1"
    row = db.execute(found, (*key, reply_id)).fetchone()
    return None if row is None else _ask(row)


def _open(db: apsw.Connection, ask: Ask, node: int) -> Ask:
    row = db.execute(
        f"SELECT id, EXISTS (SELECT 1 FROM runs WHERE runs.id = ? AND {nodes.IS_LOST}),"
        " EXISTS (SELECT 1 FROM runs WHERE runs.id = ? AND status = 'ended')"
        " FROM conversations WHERE agent = ? AND sender = ?",
        (ask.run_id, node, ask.run_id, *ask.key),
    ).fetchone()
    if row is None:
        raise rows.no_conversation(ask.key)
    conversation, is_lost, has_ended = row
    if is_lost:
        nodes.require_run(db, ask.run_id, node)
    if has_ended:
        # Another daemon took the run over and ended it; this ask would never be closed.
        raise Conflict(f"run {ask.run_id} has ended and asks nothing any more")
    db.execute(_KEEP_ATTEMPT, (ask.id,))
    db.execute(
        "INSERT INTO asks (id, kind, conversation, run, call, speaker, chain, tool, questions, arguments, digest,"
        " subject, line, preview, reason, exact, what, shape, sealed, resumable, state, opened_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET attempt = attempt + 1, state = 'pending', call = excluded.call,"
        # Attempts up to a decision are done; attempts that were not decided still count.
        " decided_attempts = CASE WHEN state IN ('granted', 'used', 'denied') THEN attempt ELSE decided_attempts END,"
        " questions = excluded.questions, answer = '', reply_id = '', arguments = excluded.arguments,"
        " digest = excluded.digest, sealed = excluded.sealed, line = excluded.line, preview = excluded.preview,"
        " reason = excluded.reason, subject = excluded.subject, exact = excluded.exact, what = excluded.what,"
        " shape = excluded.shape,"
        " resumable = excluded.resumable, opened_at = excluded.opened_at, expires_at = excluded.expires_at,"
        " decided_at = 0, decided_by = '', closed_at = 0",
        (
            ask.id,
            ask.kind.value,
            conversation,
            ask.run_id,
            ask.call_id,
            ask.speaker,
            msgspec.json.encode(ask.chain).decode(),
            ask.tool,
            msgspec.json.encode(ask.questions).decode(),
            ask.arguments,
            ask.digest,
            ask.subject,
            ask.line,
            ask.preview,
            ask.reason,
            ask.exact,
            ask.binding.what,
            "" if ask.shape is None else msgspec.json.encode(ask.shape).decode(),
            ask.sealed or None,
            int(ask.is_resumable),
            ask.opened_at,
            ask.expires_at,
        ),
    )
    return _require(db, ask.id)


def _answer(db: apsw.Connection, key: ConversationKey, reply: AskReply, now: float, node: int) -> Ask:
    if reply.reply_id and (known := _find_reply(db, key, reply.reply_id)):
        if known.answer != reply.content:
            raise Conflict(
                f"another reply was sent under the id {reply.reply_id!r}", fix="Give every new reply its own id."
            )
        return known
    row = db.execute(
        f"{_SELECT_HELD} WHERE agent = ? AND sender = ? AND kind = 'question' AND state = 'pending'"
        " AND expires_at > ? ORDER BY opened_at, number LIMIT 1",
        (node, *key, now),
    ).fetchone()
    if row is None:
        raise NotFound(f"{key.agent} is not asking {key.sender} anything", fix=LIST_OPEN)
    ask_id = check_answerable(_require_owned(db, row, node), reply).id
    db.execute(
        "UPDATE asks SET state = 'answered', answer = ?1, decided_at = ?2, decided_by = ?3, reply_id = ?4,"
        " closed_at = ?2 WHERE id = ?5",
        (reply.content, now, reply.by, reply.reply_id, ask_id),
    )
    return _require(db, ask_id)


def _require_pending(db: apsw.Connection, ask_id: str, attempt: int, now: float, node: int) -> Ask:
    """Return a pending approval or grant. Raise if it was decided, has expired or is at another attempt."""
    return check_decidable(_find_held(db, ask_id, node), ask_id, attempt=attempt, now=now)


def _use(db: apsw.Connection, ask: Ask, now: float, node: int) -> None:
    db.execute(
        "UPDATE asks SET state = 'used', closed_at = ?, sealed = NULL"
        f" WHERE id = ? AND state = 'granted' AND digest = ? AND attempt = ? AND NOT {_IS_LOST}",
        (now, ask.id, ask.digest, ask.attempt, node),
    )
    if not db.changes():
        nodes.require_run(db, ask.run_id, node)
        raise Conflict(f"the approval {ask.id} cannot be used for this call")
