"""What teammates did is let go of after its time, the oldest first; never what somebody still waits for."""

import json

from msgspec.structs import replace

from moot.domain.ask import AskKind
from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.memory import Memory
from moot.domain.message import assistant
from moot.domain.ports.storage import Storage
from moot.domain.run import Outcome, Run, RunEnd, RunRequest, RunStatus
from moot.domain.scope import ALL_TOOLS
from moot.domain.trace import TraceKind, TraceNote
from moot.domain.usage import Usage
from moot.multiagent.teammates.run_factory import SpawnRequest, build_background_run
from tests.contracts.store_kit import with_storage
from tests.unit.shelves import ADA, DAY, SetClock, approval, teammate_run

CONFIG = TraceConfig()


async def root(storage: Storage, run_id: str = "run-1", *, at: float = 0.0, ended: bool = True) -> None:
    await storage.store.begin(RunRequest(id=run_id, key=ADA, speaker="ada", content="go"), now=at)
    storage.traces.add(TraceNote(run_id=run_id, at=at, kind=TraceKind.ROUTING, agent="ada", payload=json.dumps({})))
    if ended:
        await storage.store.end(ADA, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant("Done.")], now=at)


async def teammate(
    storage: Storage,
    run_id: str,
    *,
    at: float,
    outcome: Outcome | None = Outcome.COMPLETED,
    parent: str = "run-1",
    is_shown: bool = True,
) -> ConversationKey:
    """One that was spawned and, unless it goes on, ended at that time."""
    run = teammate_run(run_id, parent=parent, instruction="the task", at=at)
    await storage.store.spawn(run)
    await storage.store.begin(replace(run.request, is_first=True), now=at)
    storage.traces.add(TraceNote(run_id=run_id, at=at, kind=TraceKind.POLICY_DECISION, agent="operator", payload="{}"))
    await storage.asks.open(approval(id=f"grant-{run_id}-exec", kind=AskKind.GRANT, run_id=run_id, speaker="operator"))
    if outcome is not None:
        end = RunEnd(outcome=outcome, content="the result", cost=0.5, usage=Usage(prompt=2, completion=1))
        await storage.store.end(run.key, run_id, end, [assistant("the result")], now=at)
        if is_shown:
            await show(storage, run_id)
    return run.key


async def show(storage: Storage, run_id: str) -> None:
    """A message of the root conversation tells the result."""
    report = RunRequest(id=f"report-{run_id}", key=ADA, speaker="ada", content=run_id, author="op", delivers=(run_id,))
    await storage.store.begin(report, now=0.0)
    await storage.store.end(ADA, report.id, RunEnd(outcome=Outcome.COMPLETED), [], now=0.0)


async def gone(storage: Storage, config: TraceConfig = CONFIG, *, now: float, batch: int = 20) -> int:
    return (await storage.retention.expire(config, now=now, batch=batch)).count


async def kept(storage: Storage) -> set[str]:
    """The teammates whose conversation is there."""
    senders = [each.key.sender for each in await storage.store.list_conversations(teammates=True)]
    return {sender.removeprefix("run:") for sender in senders if sender.startswith("run:")}


@with_storage
async def test_a_completed_run_goes_after_thirty_days_and_a_failed_one_after_sixty(storage: Storage) -> None:
    clock = SetClock(0.0)
    await root(storage)
    await teammate(storage, "arun-done", at=0.0)
    await teammate(storage, "arun-stopped", at=0.0, outcome=Outcome.CANCELLED)
    await teammate(storage, "arun-failed", at=0.0, outcome=Outcome.LOOP_DETECTED)
    clock.at = 29.9 * DAY
    assert await gone(storage, now=clock.now()) == 0
    clock.at = 30.1 * DAY
    await gone(storage, now=clock.now())
    assert await kept(storage) == {"arun-failed"}
    clock.at = 60.1 * DAY
    await gone(storage, now=clock.now())
    assert await kept(storage) == set()
    assert await gone(storage, now=clock.now()) == 0


@with_storage
async def test_everything_of_a_run_goes_but_what_it_took(storage: Storage) -> None:
    await root(storage)
    key = await teammate(storage, "arun-1", at=0.0)
    await storage.memories.save(key, Memory(key="k", content="for this run alone"), max_entries=9, now=0.0)

    await gone(storage, now=31 * DAY)

    assert await storage.store.get_run("arun-1") is None
    (spent,) = await storage.store.list_teammate_spend()
    assert (spent.agent, spent.runs, spent.cost, spent.usage.total) == ("operator", 1, 0.5, 3)
    assert (spent.root, spent.sender) == ADA
    # It was asked in the conversation of the root, which stays.
    assert await storage.asks.find("grant-arun-1-exec") is None
    assert await storage.store.load(key) is None
    assert await storage.memories.recall(key, "alone", limit=5, now=0.0) == []
    loaded = await storage.store.load(ADA)
    assert loaded is not None
    assert loaded.conversation.last_seq == 3


@with_storage
async def test_how_a_run_ended_stays_in_the_trace_of_its_parent_until_that_is_deleted(storage: Storage) -> None:
    await root(storage)
    for run_id, outcome in (("arun-a", Outcome.LOOP_DETECTED), ("arun-b", Outcome.COMPLETED)):
        await teammate(storage, run_id, at=0.0, outcome=outcome)

    async def delegated() -> list[tuple[str, str, str]]:
        found = (await storage.traces.find("run-1")).delegated
        return [(run.id, run.end.outcome if run.end else "", run.delivery) for run in found]

    before = await delegated()
    # The one that failed stays longer, and is still the first that was spawned.
    await gone(storage, now=31 * DAY)
    assert await kept(storage) == {"arun-a"}
    assert await delegated() == before
    await gone(storage, now=61 * DAY)
    assert await delegated() == before
    await storage.store.delete(ADA, now=1000.0)
    await root(storage)
    assert await delegated() == []


@with_storage
async def test_sums_over_the_past_do_not_change_when_runs_go(storage: Storage) -> None:
    await root(storage)
    mate = await teammate(storage, "arun-1", at=0.0)
    asked = SpawnRequest(agent="ada", instruction="do")
    run = build_background_run(asked, run_id="arun-2", owner="user", cwd="", now=0.0)
    await storage.store.spawn(run)
    await storage.store.begin(replace(run.request, is_first=True), now=1.0)
    await storage.store.end(run.key, "arun-2", RunEnd(outcome=Outcome.COMPLETED, cost=0.25), [], now=0.0)
    for key in (mate, run.key):
        await storage.store.add_spend(key, "big", Usage(prompt=1), 1.0, root_id="run-1")
    # What a teammate had a model do outside its steps is in the budget of its tree, and listed for its root.
    _, used = await storage.store.load_budget("run-1")
    assert used.usage.prompt == 4
    of_mate = await storage.store.list_teammate_spend()
    assert sum(each.usage.prompt for each in of_mate if (each.root, each.sender) == ADA) == 3

    async def total() -> float:
        return sum(
            spent.cost for spent in (*await storage.store.list_spend(), *await storage.store.list_teammate_spend())
        )

    assert await total() == 2.75
    assert await gone(storage, now=31 * DAY) == 3
    assert await total() == 2.75


@with_storage
async def test_what_is_owed_or_still_at_work_above_or_below_stays(storage: Storage) -> None:
    await root(storage, "run-1")
    await root(storage, "run-live", ended=False)
    await teammate(storage, "arun-owed", at=0.0, is_shown=False)
    await teammate(storage, "arun-waited-for", at=0.0, parent="run-live")
    await teammate(storage, "arun-above", at=0.0)
    await teammate(storage, "arun-below", at=0.0, parent="arun-above", outcome=None)
    stays = {"arun-owed", "arun-waited-for", "arun-above", "arun-below"}

    await gone(storage, now=1000 * DAY)
    assert await kept(storage) == stays
    await gone(storage, TraceConfig(most=1), now=1.0)
    assert await kept(storage) == stays

    await show(storage, "arun-owed")
    await gone(storage, now=1000 * DAY)
    assert await kept(storage) == stays - {"arun-owed"}
    await storage.store.end(ADA, "run-live", RunEnd(outcome=Outcome.INTERRUPTED), [], now=1.0)
    await storage.store.end(ConversationKey("operator", "run:arun-below"), "arun-below",
                    RunEnd(outcome=Outcome.INTERRUPTED), [], now=1.0)  # fmt: skip


@with_storage
async def test_beyond_the_most_the_oldest_go_first_and_a_few_at_a_time(storage: Storage) -> None:
    await root(storage)
    for number in range(6):
        await teammate(storage, f"arun-{number}", at=float(number))
    config = TraceConfig(most=2)
    await gone(storage, config, now=10.0, batch=3)
    assert await kept(storage) == {"arun-3", "arun-4", "arun-5"}
    await gone(storage, config, now=10.0, batch=3)
    assert await kept(storage) == {"arun-4", "arun-5"}
    await gone(storage, config, now=10.0, batch=3)
    assert await kept(storage) == {"arun-4", "arun-5"}


@with_storage
async def test_notes_of_turns_go_after_the_same_time_and_the_turns_stay(storage: Storage) -> None:
    await root(storage, "run-1", at=0.0)
    await root(storage, "run-2", at=20 * DAY)
    await root(storage, "run-live", at=0.0, ended=False)
    assert await gone(storage, now=31 * DAY) == 1
    traces = storage.traces
    assert [len((await traces.find(run)).notes) for run in ("run-1", "run-2", "run-live")] == [0, 1, 1]
    assert len((await traces.find("run-1")).entries) == 1
    await storage.store.end(ADA, "run-live", RunEnd(outcome=Outcome.INTERRUPTED), [], now=1.0)


@with_storage
async def test_a_worker_is_kept_until_the_newest_of_its_runs_goes(storage: Storage) -> None:
    await root(storage)
    key = await teammate(storage, "arun-worker", at=0.0)
    first = await storage.store.get_run("arun-worker")
    assert first is not None
    spawn = replace(first.spawn, parent_call="again")
    request = replace(first.request, id="arun-again", content="go on", scope=ALL_TOOLS)
    await storage.store.spawn(
        Run(request=request, status=RunStatus.QUEUED, created_at=20 * DAY, spawn=spawn),
    )
    await gone(storage, now=31 * DAY)
    assert await kept(storage) == {"arun-worker"}
    await storage.store.begin(request, now=31 * DAY)
    await storage.store.end(key, "arun-again", RunEnd(outcome=Outcome.COMPLETED), [assistant("x")], now=31 * DAY)
    await show(storage, "arun-again")
    await gone(storage, now=32 * DAY)
    assert await kept(storage) == {"arun-worker"}
    await gone(storage, now=62 * DAY)
    assert await kept(storage) == set()
