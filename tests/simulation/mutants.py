"""Deliberate defects that the simulation must find. Each is a patch of the code under test, applied in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from moot.domain.run import Delivery, RunStatus
from moot.store.memory import found_runs, runs
from moot.store.memory.transactions import Transactions

Patch = tuple[Any, str, Any]


def _drop_deliveries() -> list[Patch]:
    """What a message shows is not recorded."""
    return [(runs, "_deliver", lambda *_given: None)]


def _skip_fence() -> list[Patch]:
    """A daemon that has lost a run still extends and ends it."""

    def find_anyway(db: Any, _key: Any, run_id: str, _epoch: int) -> Any:
        row = db.runs[run_id]
        return db.conversations[row.conversation], row

    return [(runs, "_read_state", find_anyway)]


def _acknowledge_early() -> list[Patch]:
    """A write is answered before it is committed."""
    post = Transactions.post

    def post_and_answer(transactions: Transactions, work: Any) -> Any:
        future = post(transactions, work)
        copy = transactions.database.snapshot()
        try:
            result = copy.transact(work, transactions.node)
        except Exception:  # noqa: BLE001 - it fails in its own time
            return future
        future.set_result(result)
        return future

    return [(Transactions, "post", post_and_answer)]


def _deliver_twice() -> list[Patch]:
    """A result that a wait has shown is reported as well."""
    insert = runs._insert

    def list_shown_too(db: Any, run_ids: Any) -> Any:
        rows = [db.runs[run_id] for run_id in run_ids]
        wanted = (Delivery.OWED, Delivery.WAITED)
        return [found_runs.read(db, row) for row in rows if found_runs.delivery_of(db, row) in wanted]

    def insert_anyway(db: Any, conversation: Any, request: Any, started: Any, now: float) -> None:
        for item in request.delivers:
            db.deliveries.remove(item)
        insert(db, conversation, request, started, now)

    return [(runs, "_insert", insert_anyway), (found_runs, "list_still_owed", list_shown_too)]


def _forget_queue() -> list[Patch]:
    """A message that waited is not taken up after a restart."""
    list_left = runs.list_left

    def list_running(db: Any, taken: Any) -> Any:
        return [left for left in list_left(db, taken) if left.run.status is not RunStatus.QUEUED]

    return [(runs, "list_left", list_running)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "drop deliveries": _drop_deliveries,
    "skip the fence": _skip_fence,
    "acknowledge before the commit": _acknowledge_early,
    "deliver twice": _deliver_twice,
    "forget the queue": _forget_queue,
}


@contextmanager
def mutated(make: Callable[[], list[Patch]]) -> Iterator[None]:
    patches = make()
    before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in patches]
    for owner, attribute, value in patches:
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for owner, attribute, value in before:
            setattr(owner, attribute, value)
