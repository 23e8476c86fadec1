"""What teammates did is let go of after its time, the oldest first; never what somebody still waits for."""

import json

from msgspec.structs import replace

from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.memory import Memory
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.trace import TraceKind, TraceNote
from moot.domain.usage import Usage
from moot.multiagent.teammates.run_factory import background_run
from moot.multiagent.teammates.spawn_request import SpawnRequest
from moot.store.ledger import SqliteLedger
from moot.store.memories import SqliteMemories
from moot.store.retention import SqliteRetention
from moot.store.sqlite import SqliteStore
from moot.store.traces import SqliteTraces
from tests.unit.shelves import ADA, DAY, SetClock, stored, teammate_run

CONFIG = TraceConfig()


async def root(store: SqliteStore, run_id: str = "run-1", *, at: float = 0.0, ended: bool = True) -> None:
    await store.begin(RunRequest(id=run_id, key=ADA, speaker="ada", content="go"), now=at)
    SqliteTraces(store).add(
        TraceNote(run_id=run_id, at=at, kind=TraceKind.ROUTING, agent="ada", payload=json.dumps({}))
    )
    if ended:
        await store.end(ADA, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant("Done.")], now=at)


async def teammate(
    store: SqliteStore,
    run_id: str,
    *,
    at: float,
    outcome: Outcome | None = Outcome.COMPLETED,
    parent: str = "run-1",
    is_shown: bool = True,
) -> ConversationKey:
    """One that was spawned and, unless it goes on, ended at that time."""
    run = teammate_run(run_id, parent=parent, instruction="the task", at=at)
    await store.spawn(run)
    await store.begin(replace(run.request, is_first=True), now=at)
    SqliteTraces(store).add(
        TraceNote(run_id=run_id, at=at, kind=TraceKind.POLICY_DECISION, agent="operator", payload="{}")
    )
    if outcome is not None:
        end = RunEnd(outcome=outcome, content="the result", cost=0.5, usage=Usage(prompt=2, completion=1))
        await store.end(run.key, run_id, end, [assistant("the result")], now=at)
        if is_shown:
            await show(store, run_id)
    return run.key


async def show(store: SqliteStore, run_id: str) -> None:
    """A message of the root conversation tells the result."""
    report = RunRequest(id=f"report-{run_id}", key=ADA, speaker="ada", content=run_id, author="op", delivers=(run_id,))
    await store.begin(report, now=0.0)
    await store.end(ADA, report.id, RunEnd(outcome=Outcome.COMPLETED), [], now=0.0)


async def gone(store: SqliteStore, config: TraceConfig = CONFIG, *, now: float, batch: int = 20) -> int:
    return await SqliteRetention(store).expire(config, now=now, batch=batch)


async def kept(store: SqliteStore) -> set[str]:
    """The teammates whose conversation is there."""
    rows = await store.read(lambda db: db.execute("SELECT sender FROM conversations").fetchall())
    return {str(sender).removeprefix("run:") for (sender,) in rows if str(sender).startswith("run:")}


@stored
async def test_a_completed_run_goes_after_thirty_days_and_a_failed_one_after_sixty(store: SqliteStore) -> None:
    clock = SetClock(0.0)
    await root(store)
    await teammate(store, "arun-done", at=0.0)
    await teammate(store, "arun-stopped", at=0.0, outcome=Outcome.CANCELLED)
    await teammate(store, "arun-failed", at=0.0, outcome=Outcome.LOOP_DETECTED)
    clock.at = 29.9 * DAY
    assert await gone(store, now=clock.now()) == 0
    clock.at = 30.1 * DAY
    await gone(store, now=clock.now())
    assert await kept(store) == {"arun-failed"}
    clock.at = 60.1 * DAY
    await gone(store, now=clock.now())
    assert await kept(store) == set()
    assert await gone(store, now=clock.now()) == 0


@stored
async def test_everything_of_a_run_goes_but_what_it_took(store: SqliteStore) -> None:
    await root(store)
    key = await teammate(store, "arun-1", at=0.0)
    ledger = SqliteLedger(store)
    await ledger.blocked("arun-1", {"grant_request_id": "grant-arun-1-exec"}, now=0.0)
    await SqliteMemories(store).save(key, Memory(key="k", content="for this run alone"), max_entries=9, now=0.0)

    await gone(store, now=31 * DAY)

    assert await store.run("arun-1") is None
    (spent,) = await store.teammate_spend()
    assert (spent.agent, spent.runs, spent.cost, spent.usage.total) == ("operator", 1, 0.5, 3)
    assert (spent.root, spent.sender) == ADA
    assert await ledger.entries("arun-1") == []
    for table in ("messages", "runs", "trace_notes", "memories", "memory_index_docsize"):
        count = "SELECT count(*) FROM messages WHERE run_id = 'arun-1'" if table == "messages" else ""
        count = count or (f"SELECT count(*) FROM {table}" + (" WHERE id = 'arun-1'" if table == "runs" else ""))
        assert await store.read(lambda db, count=count: db.execute(count).get) == 0, table  # type: ignore[misc]
    loaded = await store.load(ADA)
    assert loaded is not None
    assert loaded.conversation.last_seq == 3


@stored
async def test_how_a_run_ended_stays_in_the_trace_of_its_parent_until_that_is_deleted(store: SqliteStore) -> None:
    await root(store)
    for run_id, outcome in (("arun-a", Outcome.LOOP_DETECTED), ("arun-b", Outcome.COMPLETED)):
        await teammate(store, run_id, at=0.0, outcome=outcome)

    async def delegated() -> list[tuple[str, str, str]]:
        found = (await SqliteTraces(store).find("run-1")).delegated
        return [(run.id, run.end.outcome if run.end else "", run.delivery) for run in found]

    before = await delegated()
    # The one that failed stays longer, and is still the first that was spawned.
    await gone(store, now=31 * DAY)
    assert await kept(store) == {"arun-a"}
    assert await delegated() == before
    await gone(store, now=61 * DAY)
    assert await delegated() == before
    await store.delete(ADA)
    assert await store.read(lambda db: db.execute("SELECT count(*) FROM past_runs").get) == 0


@stored
async def test_sums_over_the_past_do_not_change_when_runs_go(store: SqliteStore) -> None:
    await root(store)
    await teammate(store, "arun-1", at=0.0)
    asked = SpawnRequest(agent="ada", instruction="do")
    run = background_run(asked, run_id="arun-2", owner="user", cwd="", now=0.0)
    await store.spawn(run)
    await store.begin(replace(run.request, is_first=True), now=0.0)
    await store.end(run.key, "arun-2", RunEnd(outcome=Outcome.COMPLETED, cost=0.25), [], now=0.0)

    async def total() -> float:
        return sum(spent.cost for spent in (*await store.spend(), *await store.teammate_spend()))

    assert await total() == 0.75
    assert await gone(store, now=31 * DAY) == 3
    assert await total() == 0.75


@stored
async def test_what_is_owed_or_still_at_work_above_or_below_stays(store: SqliteStore) -> None:
    await root(store, "run-1")
    await root(store, "run-live", ended=False)
    await teammate(store, "arun-owed", at=0.0, is_shown=False)
    await teammate(store, "arun-waited-for", at=0.0, parent="run-live")
    await teammate(store, "arun-above", at=0.0)
    await teammate(store, "arun-below", at=0.0, parent="arun-above", outcome=None)
    stays = {"arun-owed", "arun-waited-for", "arun-above", "arun-below"}

    await gone(store, now=1000 * DAY)
    assert await kept(store) == stays
    await gone(store, TraceConfig(most=1), now=1.0)
    assert await kept(store) == stays

    await show(store, "arun-owed")
    await gone(store, now=1000 * DAY)
    assert await kept(store) == stays - {"arun-owed"}
    await store.end(ADA, "run-live", RunEnd(outcome=Outcome.INTERRUPTED), [], now=1.0)
    await store.end(ConversationKey("operator", "run:arun-below"), "arun-below",
                    RunEnd(outcome=Outcome.INTERRUPTED), [], now=1.0)  # fmt: skip


@stored
async def test_beyond_the_most_the_oldest_go_first_and_a_few_at_a_time(store: SqliteStore) -> None:
    await root(store)
    for number in range(6):
        await teammate(store, f"arun-{number}", at=float(number))
    config = TraceConfig(most=2)
    await gone(store, config, now=10.0, batch=3)
    assert await kept(store) == {"arun-3", "arun-4", "arun-5"}
    await gone(store, config, now=10.0, batch=3)
    assert await kept(store) == {"arun-4", "arun-5"}
    await gone(store, config, now=10.0, batch=3)
    assert await kept(store) == {"arun-4", "arun-5"}


@stored
async def test_notes_of_turns_go_after_the_same_time_and_the_turns_stay(store: SqliteStore) -> None:
    await root(store, "run-1", at=0.0)
    await root(store, "run-2", at=20 * DAY)
    await root(store, "run-live", at=0.0, ended=False)
    assert await gone(store, now=31 * DAY) == 1
    traces = SqliteTraces(store)
    assert [len((await traces.find(run)).notes) for run in ("run-1", "run-2", "run-live")] == [0, 1, 1]
    assert len((await traces.find("run-1")).entries) == 1
    await store.end(ADA, "run-live", RunEnd(outcome=Outcome.INTERRUPTED), [], now=1.0)
