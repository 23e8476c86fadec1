"""What teammates did is let go of after its time, the oldest first; never what somebody still waits for."""

import json
from dataclasses import replace

from moot.domain.agent_run import AgentRun, Delivery
from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.memory import Memory
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.trace import TraceKind, TraceNote
from moot.store.agent_runs import SqliteAgentRuns
from moot.store.ledger import SqliteLedger
from moot.store.memories import SqliteMemories
from moot.store.retention import Retention
from moot.store.sqlite import SqliteStore
from moot.store.traces import SqliteTraces
from tests.unit.shelves import ADA, DAY, SetClock, stored

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
    delivery: Delivery = Delivery.WAITED,
) -> ConversationKey:
    """One that was spawned and, unless it goes on, ended at that time."""
    key, shelf = ConversationKey("operator", f"run:{run_id}"), SqliteAgentRuns(store)
    run = AgentRun(
        id=run_id,
        agent="operator",
        instruction="the task",
        key=key,
        root=ADA,
        parent=parent,
        parent_key=ADA,
        call=f"call-{run_id}",
        delivery=Delivery.OWED,
        created_at=at,
    )
    await shelf.create(run)
    await store.begin(RunRequest(id=run_id, key=key, speaker="operator", content="the task"), now=at)
    SqliteTraces(store).add(
        TraceNote(run_id=run_id, at=at, kind=TraceKind.POLICY_DECISION, agent="operator", payload="{}")
    )
    if outcome is not None:
        end = RunEnd(outcome=outcome, content="the result", cost=0.5)
        await store.end(key, run_id, end, [assistant("the result")], now=at)
        await shelf.end(
            AgentRun(
                id=run_id, agent="operator", instruction="", key=key, root=ADA, end=end, delivery=delivery, ended_at=at
            )
        )
    return key


async def gone(store: SqliteStore, config: TraceConfig = CONFIG, *, now: float, batch: int = 20) -> int:
    return await Retention(store).expire(config, now=now, batch=batch)


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

    run = await SqliteAgentRuns(store).get("arun-1")
    assert run is not None
    assert run.end is not None
    assert (run.instruction, run.end.content, run.end.cost) == ("", "", 0.5)
    assert await ledger.entries("arun-1") == []
    for table in ("messages", "runs", "trace_notes", "memories", "memory_index_docsize"):
        count = "SELECT count(*) FROM messages WHERE run_id = 'arun-1'" if table == "messages" else ""
        count = count or (f"SELECT count(*) FROM {table}" + (" WHERE id = 'arun-1'" if table == "runs" else ""))
        assert await store.read(lambda db, count=count: db.execute(count).get) == 0, table  # type: ignore[misc]
    loaded = await store.load(ADA)
    assert loaded is not None
    assert loaded.conversation.last_seq == 2


@stored
async def test_sums_over_the_past_do_not_change_when_runs_go(store: SqliteStore) -> None:
    await root(store)
    await teammate(store, "arun-1", at=0.0)
    key, end = ConversationKey("ada", "bg:arun-2:user"), RunEnd(outcome=Outcome.COMPLETED, cost=0.25)
    shelf = SqliteAgentRuns(store)
    run = AgentRun(id="arun-2", agent="ada", instruction="do", key=key, root=key, delivery=Delivery.NONE)
    await shelf.create(run)
    await store.begin(RunRequest(id="arun-2", key=key, speaker="ada", content="do"), now=0.0)
    await store.end(key, "arun-2", end, [], now=0.0)
    await shelf.end(replace(run, end=end, ended_at=0.0))

    async def total() -> float:
        return sum(spent.cost for spent in (*await store.spend(), *await shelf.spend()))

    assert await total() == 0.75
    assert await gone(store, now=31 * DAY) == 3
    assert await total() == 0.75


@stored
async def test_what_is_owed_or_still_at_work_above_or_below_stays(store: SqliteStore) -> None:
    await root(store, "run-1")
    await root(store, "run-live", ended=False)
    await teammate(store, "arun-owed", at=0.0, delivery=Delivery.OWED)
    await teammate(store, "arun-waited-for", at=0.0, parent="run-live")
    await teammate(store, "arun-above", at=0.0)
    await teammate(store, "arun-below", at=0.0, parent="arun-above", outcome=None)
    stays = {"arun-owed", "arun-waited-for", "arun-above", "arun-below"}

    await gone(store, now=1000 * DAY)
    assert await kept(store) == stays
    await gone(store, TraceConfig(most=1), now=1.0)
    assert await kept(store) == stays

    await SqliteAgentRuns(store).deliver(["arun-owed"], Delivery.SENT)
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
