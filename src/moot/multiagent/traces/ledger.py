"""Derives the ledger of a teammate from its asks: an entry for each change of what blocks it. Pure."""

from collections.abc import Callable, Iterator, Sequence

from moot.domain.ask import AskAttempt, AskState
from moot.domain.ledger import LedgerEntry, LedgerType, block_payload
from moot.domain.run_view import Block, Condition, GrantState
from moot.multiagent.traces.ask_changes import AskChange


def list_ledger(changes: Sequence[AskChange], clean: Callable[[str], str]) -> list[LedgerEntry]:
    """Return the entries of a run, given the changes of its asks in order. `clean` removes secrets.

    A run is blocked by the newest of its pending asks.
    """
    return list(_list_entries(changes, clean))


def _list_entries(changes: Sequence[AskChange], clean: Callable[[str], str]) -> Iterator[LedgerEntry]:
    pending: dict[str, AskAttempt] = {}
    blocked_by: AskAttempt | None = None
    seq = 0
    for number, change in enumerate(changes):
        attempt = change.attempt
        pending.pop(attempt.ask_id, None)
        if change.state is AskState.PENDING:
            pending[attempt.ask_id] = attempt
        newest = next(reversed(pending.values()), None)
        if newest == blocked_by:
            continue
        seq += 1
        if newest is not None:
            kind, payload = LedgerType.BLOCKED, block_payload(_block(newest, clean))
        else:
            kind, payload = LedgerType.UNBLOCKED, {"previous_grant_request_id": attempt.ask_id}
        blocked_by = newest
        yield LedgerEntry(seq=seq, type=kind, at=change.at, payload=payload, change=number)


def _block(attempt: AskAttempt, clean: Callable[[str], str]) -> Block:
    return Block(
        condition=Condition.BLOCKED,
        reason=clean(attempt.waits_for),
        request_id=attempt.ask_id,
        attempt=attempt.attempt - attempt.decided_attempts,
        state=GrantState.PENDING,
    )
