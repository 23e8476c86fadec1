"""Approvals and the rules decided with them. An approval that is used is used up in the transaction that says so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import apsw

from moot.domain.approval import Approval, AskState, Binding, Decision, Rule
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.senders import is_grant
from moot.store import rows

if TYPE_CHECKING:
    from moot.store.sqlite import SqliteStore

_COLUMNS = (
    "agent, sender, asks.id, run, call, speaker, tool, arguments, subject, line, preview, reason, attempt, state,"
    " opened_at, expires_at, digest, sealed, exact, what, settled"
)
_SELECT = f"SELECT {_COLUMNS} FROM asks JOIN conversations ON conversations.id = asks.conversation"
_IS_OPEN = "state IN ('pending', 'granted')"
_RULE_COLUMNS = "agent, sender, tool, pattern, bound, run, number, created_at, created_by"
# A rule for one run means nothing once that has ended.
_OVER = "run IN (SELECT id FROM runs WHERE status = 'ended')"


class StoredApprovals:
    def __init__(self, store: "SqliteStore") -> None:
        self._store = store

    async def open(self, approval: Approval) -> Approval:
        """Keep it as pending. The same call of the same run, asked before, keeps its id and counts an attempt more."""
        return await self._store.write(lambda db: _open(db, approval), "ask")

    async def decide(
        self, ask_id: str, *, attempt: int, decision: Decision, by: str, now: float, whole: bool = False
    ) -> Approval:
        def settle(db: apsw.Connection) -> Approval:
            approval = _open_at(db, ask_id, attempt, now)
            rules = approval.rules(decision, whole=whole)
            # A grant is for the run anyway.
            held = is_grant(ask_id) and decision is Decision.RUN
            if not rules and not held and decision in (Decision.RUN, Decision.ALWAYS):
                raise _no_rule(approval)
            decided = _decide(db, approval, decision, by, now)
            _write(db, rules, by, now)
            return decided

        return await self._store.write(settle, "decide")

    async def use(self, approval: Approval, *, now: float) -> None:
        """Spend a granted approval; Conflict when it is not there to be spent."""
        await self._store.write(lambda db: _use(db, approval, now), "use")

    async def close(self, ask_id: str, state: AskState, *, now: float) -> None:
        await self._store.write(
            lambda db: db.execute(
                "UPDATE asks SET state = ?, decided_at = ?, sealed = NULL"
                " WHERE id = ? AND state IN ('pending', 'granted')",
                (state.value, now, ask_id),
            ),
            "close ask",
        )

    async def find(self, ask_id: str) -> Approval | None:
        return await self._store.read(lambda db: _find(db, ask_id))

    async def of_call(self, run_id: str, call_id: str) -> Approval | None:
        """What was asked for this call and is still open, or granted and not yet used."""
        return await self._store.read(lambda db: _of_call(db, run_id, call_id))

    async def open_calls(self) -> list[tuple[str, str]]:
        """The run and the id of each call that is still open, or granted and not yet used."""
        return await self._store.read(
            lambda db: [(run, call) for run, call in db.execute(f"SELECT run, call FROM asks WHERE {_IS_OPEN}")]
        )

    async def pending(self) -> list[Approval]:
        return await self._store.read(
            lambda db: [_approval(row) for row in db.execute(f"{_SELECT} WHERE state = 'pending' ORDER BY opened_at")]
        )

    async def rules(self) -> list[Rule]:
        return await self._store.read(
            lambda db: [
                _rule(row) for row in db.execute(f"SELECT {_RULE_COLUMNS} FROM rules WHERE NOT {_OVER} ORDER BY number")
            ]
        )

    async def delete_rule(self, number: int) -> None:
        await self._store.write(lambda db: _delete_rule(db, number), "rule")


def _no_rule(approval: Approval) -> Conflict:
    told = f"no rule can be made for the call of {approval.id}"
    if not approval.is_once_only:
        return Conflict(told, fix="Allow it once.")
    return Conflict(
        f"{told}: its run has seen strangers' words, and with them in sight no rule counts",
        fix="Allow it once, or deny it; `moot trust` takes what was said so far as trusted.",
    )


def _approval(row: rows.Row) -> Approval:
    return Approval(
        key=ConversationKey(row[0], row[1]),
        id=row[2],
        run_id=row[3],
        call_id=row[4],
        speaker=row[5],
        tool=row[6],
        arguments=row[7],
        subject=row[8],
        line=row[9],
        preview=row[10],
        reason=row[11],
        attempt=row[12],
        state=AskState(row[13]),
        opened_at=row[14],
        expires_at=row[15],
        digest=row[16],
        sealed=row[17] or b"",
        exact=row[18],
        binding=Binding(what=row[19]),
        settled=row[20],
    )


def _rule(row: rows.Row) -> Rule:
    agent, sender, tool, pattern, bound, run, number, created_at, created_by = row
    return Rule(
        agent=agent,
        sender=sender,
        tool=tool,
        pattern=pattern,
        bound=bound,
        run=run,
        number=number,
        created_at=created_at,
        created_by=created_by,
    )


def _find(db: apsw.Connection, ask_id: str) -> Approval | None:
    row = db.execute(f"{_SELECT} WHERE asks.id = ?", (ask_id,)).fetchone()
    return None if row is None else _approval(row)


def _of_call(db: apsw.Connection, run_id: str, call_id: str) -> Approval | None:
    row = db.execute(
        f"{_SELECT} WHERE run = ? AND call = ? AND {_IS_OPEN} ORDER BY attempt DESC LIMIT 1",
        (run_id, call_id),
    ).fetchone()
    return None if row is None else _approval(row)


def _open(db: apsw.Connection, approval: Approval) -> Approval:
    conversation = rows.require_conversation(db, approval.key)
    db.execute(
        "INSERT INTO asks (id, conversation, run, call, speaker, tool, arguments, digest, subject, line, preview,"
        " reason, attempt, state, opened_at, expires_at, sealed, exact, what)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 'pending', ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET attempt = attempt + 1, state = 'pending', call = excluded.call,"
        # A decision ends what was asked before it; that nobody decided does not.
        " settled = CASE WHEN state IN ('granted', 'used', 'denied') THEN attempt ELSE settled END,"
        " arguments = excluded.arguments,"
        " digest = excluded.digest, sealed = excluded.sealed, line = excluded.line, preview = excluded.preview,"
        " reason = excluded.reason, subject = excluded.subject, exact = excluded.exact, what = excluded.what,"
        " opened_at = excluded.opened_at, expires_at = excluded.expires_at",
        (
            approval.id,
            conversation,
            approval.run_id,
            approval.call_id,
            approval.speaker,
            approval.tool,
            approval.arguments,
            approval.digest,
            approval.subject,
            approval.line,
            approval.preview,
            approval.reason,
            approval.opened_at,
            approval.expires_at,
            approval.sealed or None,
            approval.exact,
            approval.binding.what,
        ),
    )
    stored = _find(db, approval.id)
    assert stored is not None
    return stored


def _open_at(db: apsw.Connection, ask_id: str, attempt: int, now: float) -> Approval:
    """What is asked, if it is still the very thing that was looked at."""
    approval = _find(db, ask_id)
    if approval is None:
        raise NotFound(f"there is no approval {ask_id}", fix="See what waits with `moot inbox`.")
    if approval.state is not AskState.PENDING:
        raise Conflict(f"the approval {ask_id} is {approval.state} already", fix="See what waits with `moot inbox`.")
    if approval.attempt != attempt:
        raise Conflict(
            f"the approval {ask_id} is at attempt {approval.attempt}, not {attempt}", fix="Look at it again first."
        )
    if now >= approval.expires_at:
        raise Conflict(f"the approval {ask_id} has expired", fix="Let the agent ask again.")
    return approval


def _decide(db: apsw.Connection, approval: Approval, decision: Decision, by: str, now: float) -> Approval:
    ask_id = approval.id
    state = AskState.DENIED if decision is Decision.DENY else AskState.GRANTED
    db.execute("UPDATE asks SET state = ?, decided_at = ?, decided_by = ? WHERE id = ?", (state.value, now, by, ask_id))
    if state is AskState.DENIED:
        db.execute("UPDATE asks SET sealed = NULL WHERE id = ?", (ask_id,))
    decided = _find(db, ask_id)
    assert decided is not None
    return decided


def _write(db: apsw.Connection, rules: Sequence[Rule], by: str, now: float) -> None:
    """One that is there already is not written twice: taking it back is to be enough."""
    if rules:
        db.execute(f"DELETE FROM rules WHERE {_OVER}")
    for rule in rules:
        bounds = rule.agent, rule.sender, rule.tool, rule.bound, rule.run
        if db.execute(
            "SELECT 1 FROM rules WHERE agent = ? AND sender = ? AND tool = ? AND bound = ? AND run = ?", bounds
        ).fetchone():
            continue
        db.execute(
            "INSERT INTO rules (agent, sender, tool, bound, run, pattern, created_at, created_by)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*bounds, rule.pattern, now, by),
        )


def _use(db: apsw.Connection, approval: Approval, now: float) -> None:
    db.execute(
        "UPDATE asks SET state = 'used', decided_at = ?, sealed = NULL"
        " WHERE id = ? AND state = 'granted' AND digest = ? AND attempt = ?",
        (now, approval.id, approval.digest, approval.attempt),
    )
    if not db.changes():
        raise Conflict(f"the approval {approval.id} cannot be used for this call")


def _delete_rule(db: apsw.Connection, number: int) -> None:
    db.execute("DELETE FROM rules WHERE number = ?", (number,))
    if not db.changes():
        raise NotFound(f"there is no rule {number}", fix="See which there are with `moot rules`.")
