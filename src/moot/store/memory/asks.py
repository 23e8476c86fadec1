"""Asks and rules in memory: opened, answered, decided, used and closed. Used by storage.py and runs.py."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from moot.domain.approval import Decision, Rule, require_rules
from moot.domain.ask import (
    LIST_OPEN,
    Ask,
    AskAttempt,
    AskReply,
    AskState,
    Binding,
    check_answerable,
    check_decidable,
)
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.store.memory import nodes
from moot.store.memory.database import AskRow, Database
from moot.store.memory.transactions import Transactions

_OPEN = (AskState.PENDING, AskState.GRANTED)
# The call of the ask was not made: it is undecided, granted but not used, denied or expired.
_UNUSED = (AskState.PENDING, AskState.GRANTED, AskState.DENIED, AskState.EXPIRED)
_DECIDED = (AskState.GRANTED, AskState.USED, AskState.DENIED)


class MemoryAsks:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def open(self, ask: Ask) -> Ask:
        return await self._transactions.write(lambda db: _open(db, ask))

    async def answer(self, key: ConversationKey, reply: AskReply, *, now: float) -> Ask:
        return await self._transactions.write(lambda db: _answer(db, key, reply, now))

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
        chosen = _Choice(attempt, decision, by, whole, pattern, reason)
        return await self._transactions.write(lambda db: _decide(db, ask_id, chosen, now))

    async def use(self, ask: Ask, *, now: float) -> None:
        await self._transactions.write(lambda db: _use(db, ask, now))

    async def close(self, ask_id: str, state: AskState, *, now: float) -> Ask | None:
        return await self._transactions.write(lambda db: _close(db, ask_id, state, now))

    async def find(self, ask_id: str) -> Ask | None:
        return await self._transactions.read(lambda db: _find(db, ask_id))

    async def find_held(self, ask_id: str) -> Ask | None:
        return await self._transactions.read(lambda db: _find_held(db, ask_id))

    async def find_reply(self, key: ConversationKey, reply_id: str) -> Ask | None:
        return await self._transactions.read(lambda db: _find_reply(db, key, reply_id, is_prefix=True))

    async def list_open(self, *, here: bool = False) -> list[Ask]:
        return await self._transactions.read(lambda db: _list_open(db, here=here))

    async def list_unused_calls(self) -> list[tuple[str, str]]:
        return await self._transactions.read(_list_unused_calls)


class MemoryRules:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def load(self) -> list[Rule]:
        return await self._transactions.read(_load_rules)

    async def delete(self, number: int) -> None:
        await self._transactions.write(lambda db: _delete_rule(db, number))


class _Choice(NamedTuple):
    attempt: int
    decision: Decision
    by: str
    whole: bool
    pattern: str
    reason: str


def resumable_calls(db: Database, run_id: str) -> set[str]:
    """Return the calls of a run that can be made after a restart: those with an open, unused or answered ask."""
    found = [row.ask for row in db.asks.find("run", run_id) if row.ask.is_resumable]
    return {
        ask.call_id
        for ask in found
        if (ask.is_question and ask.state is not AskState.CANCELLED) or ask.state in _UNUSED
    }


def list_unapproved_calls(db: Database, run_id: str) -> set[str]:
    """Return the calls of a run that were not begun. An approval is marked as used before its call is made."""
    found = [row.ask for row in db.asks.find("run", run_id)]
    used = {ask.call_id for ask in found if ask.state is AskState.USED}
    return {ask.call_id for ask in found if not ask.is_question and ask.state in _UNUSED} - used


def list_attempts(db: Database, run_id: str) -> list[AskAttempt]:
    """Return every attempt of the approvals and grants of a run; attempts of one ask in order."""
    found = [*db.asks.find("run", run_id), *db.past_attempts.find("run", run_id)]
    found.sort(key=lambda row: (row.number, row.ask.attempt))
    return [_read_attempt(row) for row in found if not row.ask.is_question]


def _read_attempt(row: AskRow) -> AskAttempt:
    ask = row.ask
    return AskAttempt(
        ask_id=ask.id,
        kind=ask.kind,
        speaker=ask.speaker,
        tool=ask.tool,
        call_id=ask.call_id,
        line=ask.line,
        reason=ask.reason,
        attempt=ask.attempt,
        decided_attempts=ask.decided_attempts,
        state=ask.state,
        opened_at=ask.opened_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        closed_at=row.closed_at,
    )


def cancel_of_run(db: Database, run_id: str, now: float) -> None:
    """Cancel the open asks of a run that ends."""
    for row in db.asks.find("run", run_id):
        if row.ask.state in _OPEN:
            _set(db, row, now, state=AskState.CANCELLED, sealed=b"")


def _set(db: Database, row: AskRow, now: float, **changes: object) -> Ask:
    """Change an ask; if that closes it, `now` is when."""
    ask = replace(row.ask, **changes)
    return db.asks.put(ask.id, replace(row, ask=ask, closed_at=0.0 if ask.state in _OPEN else now)).ask


def _find(db: Database, ask_id: str) -> Ask | None:
    row = db.asks.get(ask_id)
    return None if row is None else row.ask


def _find_held(db: Database, ask_id: str) -> Ask | None:
    ask = _find(db, ask_id)
    if ask is not None:
        nodes.require_run(db, ask.run_id)
    return ask


def _find_reply(db: Database, key: ConversationKey, reply_id: str, *, is_prefix: bool = False) -> Ask | None:
    def is_same(row: AskRow) -> bool:
        if not row.reply_id or row.ask.key != key:
            return False
        return row.reply_id.startswith(reply_id) if is_prefix else row.reply_id == reply_id

    found = [row for row in db.asks if is_same(row)]
    return max(found, key=lambda row: row.decided_at).ask if found else None


def _in_order(row: AskRow) -> tuple[float, int]:
    return row.ask.opened_at, row.number


def _list_open(db: Database, *, here: bool) -> list[Ask]:
    found = [row.ask for row in sorted(db.asks, key=_in_order) if row.ask.state in _OPEN]
    return [ask for ask in found if not here or not _is_lost(db, ask)]


def _is_lost(db: Database, ask: Ask) -> bool:
    run = db.runs.get(ask.run_id)
    return run is not None and nodes.is_lost(db, run)


def _list_unused_calls(db: Database) -> list[tuple[str, str]]:
    def has_ended(run_id: str) -> bool:
        run = db.runs.get(run_id)
        return run is not None and run.is_ended

    found = [row.ask for row in db.asks if not row.ask.is_question and row.ask.state in _UNUSED]
    return [(ask.run_id, ask.call_id) for ask in found if not has_ended(ask.run_id)]


def _open(db: Database, ask: Ask) -> Ask:
    """Store an ask as pending. An ask that exists keeps its id, and its attempt number goes up."""
    nodes.require_run(db, ask.run_id)
    conversation = db.require_conversation(ask.key)
    run = db.runs.get(ask.run_id)
    if run is not None and run.is_ended:
        # Another daemon has taken the run over and ended it, so nothing would close the ask.
        raise Conflict(f"run {ask.run_id} has ended and asks nothing any more")
    known = db.asks.get(ask.id)
    # Only the text of a binding is stored; the digest covers the rest.
    pending = replace(
        ask,
        state=AskState.PENDING,
        answer="",
        binding=Binding(what=ask.binding.what),
        attempt=1,
        decided_attempts=0,
    )
    if known is None:
        row = AskRow(number=db.count_up("asks"), conversation=conversation.id, ask=pending)
        return db.asks.put(ask.id, row).ask
    before = known.ask
    # A decision also settles earlier attempts; an expiry does not.
    decided = before.attempt if before.state in _DECIDED else before.decided_attempts
    again = replace(
        pending,
        kind=before.kind,
        key=before.key,
        run_id=before.run_id,
        speaker=before.speaker,
        chain=before.chain,
        tool=before.tool,
        attempt=before.attempt + 1,
        decided_attempts=decided,
    )
    if not before.is_question:
        db.past_attempts.put((ask.id, before.attempt), known)
    row = AskRow(number=known.number, conversation=known.conversation, ask=again)
    return db.asks.put(ask.id, row).ask


def _answer(db: Database, key: ConversationKey, reply: AskReply, now: float) -> Ask:
    if reply.reply_id and (known := _find_reply(db, key, reply.reply_id)):
        if known.answer != reply.content:
            raise Conflict(
                f"another reply was sent under the id {reply.reply_id!r}", fix="Give every new reply its own id."
            )
        return known
    waiting = [
        row
        for row in db.asks
        if row.ask.key == key and row.ask.is_question and row.ask.state is AskState.PENDING and row.ask.expires_at > now
    ]
    if not waiting:
        raise NotFound(f"{key.agent} is not asking {key.sender} anything", fix=LIST_OPEN)
    row = replace(min(waiting, key=_in_order), reply_id=reply.reply_id, decided_at=now, decided_by=reply.by)
    nodes.require_run(db, row.ask.run_id)
    check_answerable(row.ask, reply)
    return _set(db, row, now, state=AskState.ANSWERED, answer=reply.content)


def _decide(db: Database, ask_id: str, choice: _Choice, now: float) -> Ask:
    ask = _require_pending(db, ask_id, choice.attempt, now)
    written = require_rules(ask, choice.decision, whole=choice.whole, pattern=choice.pattern)
    row = replace(db.asks[ask_id], decided_at=now, decided_by=choice.by)
    if choice.decision is Decision.DENY:
        decided = _set(db, row, now, state=AskState.DENIED, sealed=b"", answer=choice.reason)
    else:
        decided = _set(db, row, now, state=AskState.GRANTED)
    _write_rules(db, written, choice.by, now)
    return decided


def _require_pending(db: Database, ask_id: str, attempt: int, now: float) -> Ask:
    """Return a pending approval or grant. Raise if it was decided, has expired or is at another attempt."""
    ask = _find(db, ask_id)
    if ask is not None and not ask.is_question:
        nodes.require_run(db, ask.run_id)
    return check_decidable(ask, ask_id, attempt=attempt, now=now)


def _use(db: Database, ask: Ask, now: float) -> None:
    nodes.require_run(db, ask.run_id)
    row = db.asks.get(ask.id)
    wanted = (AskState.GRANTED, ask.digest, ask.attempt)
    if row is None or (row.ask.state, row.ask.digest, row.ask.attempt) != wanted:
        raise Conflict(f"the approval {ask.id} cannot be used for this call")
    _set(db, row, now, state=AskState.USED, sealed=b"")


def _close(db: Database, ask_id: str, state: AskState, now: float) -> Ask | None:
    """Close a pending ask; decided ones are not changed. A cancellation also closes a granted, unused ask."""
    row = db.asks.get(ask_id)
    if row is None:
        return None
    nodes.require_run(db, row.ask.run_id)
    closable = _OPEN if state is AskState.CANCELLED else (AskState.PENDING,)
    return _set(db, row, now, state=state, sealed=b"") if row.ask.state in closable else row.ask


# ---- rules --------------------------------------------------------------------------------------


def _is_over(db: Database, rule: Rule) -> bool:
    """Return whether a rule is for a run that has ended."""
    run = db.runs.get(rule.run)
    return run is not None and run.is_ended


def _load_rules(db: Database) -> list[Rule]:
    return [rule for _, rule in sorted(db.rules.pairs()) if not _is_over(db, rule)]


def _write_rules(db: Database, rules: Sequence[Rule], by: str, now: float) -> None:
    """Add rules. An existing rule is not added twice, so that revoking it once is enough."""
    if rules:
        for number, rule in db.rules.pairs():
            if _is_over(db, rule):
                db.rules.remove(number)
    known = {_bounds(rule) for rule in db.rules}
    for rule in rules:
        if _bounds(rule) not in known:
            known.add(_bounds(rule))
            number = db.count_up("rules")
            db.rules.put(number, replace(rule, number=number, created_at=now, created_by=by))


def _bounds(rule: Rule) -> tuple[object, ...]:
    return rule.agent, rule.sender, rule.tool, rule.bound, rule.run, rule.is_of_conversation, rule.teammates


def _delete_rule(db: Database, number: int) -> None:
    if not db.rules.remove(number):
        raise NotFound(f"there is no rule {number}", fix="`moot rules` lists them.")
