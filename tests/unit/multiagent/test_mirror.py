"""The ledger mirror: only where both keys are on, one entry for each change, and never in the way."""

from msgspec.structs import replace

from moot.domain.ask import Ask, AskKind, AskState
from moot.domain.config import RunLedgerConfig
from moot.domain.conversation import ConversationKey
from moot.domain.events import AskClosed, AskOpened, Event, EventSource, RunEnded
from moot.domain.ledger import LedgerEntry, LedgerType, block_payload, replay
from moot.domain.run import Outcome, RunEnd
from moot.domain.run_view import Block, Condition, GrantState
from moot.engine.supervisor import Supervisor
from moot.multiagent.traces.ledger_mirror import MIRRORED, Mirror
from moot.store.ledger import SqliteLedger
from moot.store.sqlite import SqliteStore
from tests.unit.events import event
from tests.unit.shelves import ADA, SetClock, approval, stored

KEY = ConversationKey("operator", "run:arun-1")
SOURCE = EventSource(key=KEY, root=ADA, speaker="operator", run_id="arun-1", parent_id="run-1", root_id="run-1")
GRANT = approval(
    id="grant-arun-1-exec",
    kind=AskKind.GRANT,
    key=KEY,
    run_id="arun-1",
    speaker="operator",
    reason="it is not in its list",
)
OPENED = event(AskOpened(GRANT), source=SOURCE)
CLOSED = event(AskClosed(replace(GRANT, state=AskState.GRANTED)), source=SOURCE)
ENDED = event(RunEnded("operator", RunEnd(outcome=Outcome.COMPLETED)), source=SOURCE)
PENDING = Block(
    condition=Condition.BLOCKED,
    reason="exec waits for approval: it is not in its list",
    request_id="grant-arun-1-exec",
    attempt=1,
    state=GrantState.PENDING,
)


class Mirrored:
    """A mirror, and what is open when it reads an event."""

    def __init__(self, store: SqliteStore, *, enabled: bool = True, write_through: bool = True) -> None:
        self.ledger = SqliteLedger(store)
        config = RunLedgerConfig(enabled=enabled, write_through=write_through)
        self._open: dict[str, Ask] = {}
        clock = SetClock()
        self._mirror = Mirror(
            journal=self.ledger, start=Supervisor(clock).start, asks=self, config=lambda: config, clock=clock
        )

    def list_local_of_run(self, run_id: str) -> list[Ask]:
        return [ask for ask in self._open.values() if ask.run_id == run_id]

    def read(self, item: Event) -> None:
        match item.body:
            case AskOpened(ask):
                self._open[ask.id] = ask
            case AskClosed(ask):
                self._open.pop(ask.id)
            case _:
                self._open.clear()
        self._mirror.read(item)

    @property
    def failures(self) -> int:
        return self._mirror.failures


def mirror(store: SqliteStore, *, enabled: bool = True, write_through: bool = True) -> tuple[Mirrored, SqliteLedger]:
    mirrored = Mirrored(store, enabled=enabled, write_through=write_through)
    return mirrored, mirrored.ledger


async def written(store: SqliteStore, ledger: SqliteLedger) -> list[LedgerEntry]:
    """What is in the ledger once everything handed to the writer is on disk."""
    await store.write(lambda _db: None)
    return await ledger.list_entries("arun-1")


def told(entries: list[LedgerEntry]) -> list[tuple[int, str, int]]:
    return [(entry.seq, entry.type.value, entry.payload.get("grant_attempt", 0)) for entry in entries]


@stored
async def test_entering_changing_and_leaving_a_block_are_one_entry_each(store: SqliteStore) -> None:
    mirrored, ledger = mirror(store)
    again = event(AskOpened(replace(GRANT, attempt=2)), source=SOURCE)
    for item in (OPENED, OPENED, again, CLOSED, ENDED):
        mirrored.read(item)

    entries = await written(store, ledger)
    assert told(entries) == [
        (1, "teammate_approval_blocked", 1),
        (2, "teammate_approval_blocked", 2),
        (3, "teammate_approval_unblocked", 0),
    ]
    assert entries[0].payload == {
        "runtime_condition": "blocked_waiting_approval",
        "blocked_reason": "exec waits for approval: it is not in its list",
        "grant_request_id": "grant-arun-1-exec",
        "grant_attempt": 1,
        "grant_state": "pending",
    }
    assert entries[2].payload == {"previous_grant_request_id": "grant-arun-1-exec"}
    assert replay(entries[:2]) == replace(PENDING, attempt=2)
    assert replay(entries[2:], start=PENDING) == replay(entries) == Block()
    assert mirrored.failures == 0


@stored
async def test_a_run_is_blocked_until_its_last_approval_is_closed(store: SqliteStore) -> None:
    mirrored, ledger = mirror(store)
    other = event(AskOpened(replace(GRANT, id="ask-2")), source=SOURCE)
    for item in (OPENED, other, event(AskClosed(replace(GRANT, id="ask-2", state=AskState.DENIED)), source=SOURCE)):
        mirrored.read(item)
    assert replay(await written(store, ledger)) == PENDING


@stored
async def test_a_block_of_an_earlier_daemon_is_neither_written_twice_nor_left_standing(store: SqliteStore) -> None:
    before, ledger = mirror(store)
    before.read(OPENED)
    after, _ = mirror(store)
    after.read(OPENED)
    assert len(await written(store, ledger)) == 1
    later, _ = mirror(store)
    later.read(ENDED)
    assert [entry.type for entry in await written(store, ledger)] == [LedgerType.BLOCKED, LedgerType.UNBLOCKED]


@stored
async def test_only_approvals_and_ends_of_spawned_runs_are_mirrored(store: SqliteStore) -> None:
    assert {type(each.body) for each in (OPENED, CLOSED, ENDED)} == set(MIRRORED)
    mirrored, ledger = mirror(store)
    # The same approval in a turn of a person's.
    mirrored.read(event(AskOpened(GRANT)))
    assert await written(store, ledger) == []


@stored
async def test_nothing_is_mirrored_unless_both_keys_are_on(store: SqliteStore) -> None:
    for enabled, write_through in ((True, False), (False, True), (False, False)):
        mirrored, ledger = mirror(store, enabled=enabled, write_through=write_through)
        mirrored.read(OPENED)
        assert await written(store, ledger) == []


@stored
async def test_a_ledger_that_cannot_be_written_is_counted_and_nothing_else(store: SqliteStore) -> None:
    mirrored, _ = mirror(store)
    await store.write(lambda db: db.execute("ALTER TABLE ledger RENAME TO mislaid"))
    mirrored.read(OPENED)
    # The next write is behind it in the same line, so its failure is known when this one is done.
    await store.write(lambda db: db.execute("ALTER TABLE mislaid RENAME TO ledger"))
    assert mirrored.failures == 1


def test_an_old_entry_that_says_less_is_replayed_as_what_it_says() -> None:
    entry = LedgerEntry(run_id="arun-1", seq=1, type=LedgerType.BLOCKED, at=1.0, payload={"blocked_reason": "exec"})
    assert replay([entry]) == Block(reason="exec")
    assert set(block_payload(Block())) == {
        "runtime_condition",
        "blocked_reason",
        "grant_request_id",
        "grant_attempt",
        "grant_state",
    }
