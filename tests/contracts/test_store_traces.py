"""What every implementation promises of traces: notes in their place, runs found by their id, failures counted."""

import json

import pytest

from moot.domain.ask import Ask, AskKind, AskState
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.message import Message, assistant, tool_result
from moot.domain.mode import PLAN_REFUSED
from moot.domain.ports.storage import Storage
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.trace import TraceKind, TraceNote
from tests.contracts.store_kit import with_storage
from tests.unit.shelves import ADA, teammate_run


def note(run_id: str = "run-1", kind: TraceKind = TraceKind.ROUTING, *, at: float = 1.0) -> TraceNote:
    return TraceNote(run_id=run_id, at=at, kind=kind, agent="ada", payload=json.dumps({"n": at}))


async def begin(store: Store, run_id: str = "run-1", key: ConversationKey = ADA) -> None:
    await store.begin(RunRequest(id=run_id, key=key, speaker=key.agent, content="go"), now=1.0)


async def end(
    store: Store,
    run_id: str = "run-1",
    key: ConversationKey = ADA,
    outcome: Outcome = Outcome.COMPLETED,
    *messages: Message,
    now: float = 2.0,
) -> None:
    await store.end(key, run_id, RunEnd(outcome=outcome), messages, now=now)


@with_storage
async def test_a_note_is_on_disk_before_the_end_and_knows_its_place_among_the_messages(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    await begin(store)
    traces.add(note(at=1.0))
    await store.append(ADA, "run-1", [assistant("Looking.")], now=1.0)
    # Nobody waits for it; what is handed over after it cannot come before it.
    traces.add(note(kind=TraceKind.MODEL_RETRY, at=0.5))
    await end(store, "run-1", ADA, Outcome.COMPLETED, assistant("Done."))
    recorded = await traces.find("run-1")
    assert [(each.kind.value, each.after_seq) for each in recorded.notes] == [("routing", 1), ("model_retry", 2)]
    assert [entry.message.content for entry in recorded.entries] == ["Looking.", "Done."]


@with_storage
async def test_a_note_of_a_run_that_is_not_there_is_let_go(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    traces.add(note("run-none"))
    await begin(store, "run-none")
    await end(store, "run-none")
    assert (await traces.find("run-none")).notes == []


@with_storage
async def test_notes_go_with_their_conversation(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    await begin(store)
    traces.add(note())
    await end(store)
    await store.delete(ADA, now=1000.0)
    await begin(store)
    await end(store)
    assert (await traces.find("run-1")).notes == []


@with_storage
async def test_a_trace_tells_of_its_own_run_alone(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    for number in ("1", "2"):
        await begin(store, f"run-{number}")
        await store.append(ADA, f"run-{number}", [assistant(f"step {number}")], now=1.0)
        await end(store, f"run-{number}", ADA, Outcome.COMPLETED, assistant(f"done {number}"))
    assert [entry.message.content for entry in (await traces.find("run-1")).entries] == ["step 1", "done 1"]
    assert [entry.message.content for entry in (await traces.find("run-2")).entries] == ["step 2", "done 2"]


@with_storage
async def test_a_run_is_found_by_the_beginning_of_its_id_where_that_is_enough(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    for run_id in ("run-1a", "run-1ab", "run-2"):
        await begin(store, run_id)
        await end(store, run_id)
    assert (await traces.find("run-2")).run.request.id == "run-2"
    assert (await traces.find("run-1ab")).run.request.id == "run-1ab"
    assert (await traces.find("run-1a")).run.request.id == "run-1a"
    with pytest.raises(BadRequest):
        await traces.find("run-1")
    for nothing in ("run-3", "", "%", "run-2z"):
        with pytest.raises(NotFound) as caught:
            await traces.find(nothing)
        assert caught.value.fix


@with_storage
async def test_teammates_stand_under_their_parent_and_failures_are_found_among_all(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    await begin(store)
    for run_id, parent in (("arun-1", "run-1"), ("arun-2", "arun-1"), ("arun-3", "run-1")):
        await store.spawn(teammate_run(run_id, parent=parent))
    for run_id in ("arun-1", "arun-2"):
        await begin(store, run_id, teammate_run(run_id).key)
        await store.end(teammate_run(run_id).key, run_id, RunEnd(outcome=Outcome.LOOP_DETECTED, cost=0.25), [], now=3.0)
    await end(store)

    (root,) = await traces.list_recent(limit=10, failed=False)
    assert root.run.request.id == "run-1"
    assert [run.id for run in root.delegated] == ["arun-1", "arun-3"]
    # One that has not begun has nothing to tell yet.
    assert [child.run.request.id for child in root.children] == ["arun-1"]
    assert [child.run.request.id for child in root.children[0].children] == ["arun-2"]
    assert root.tree_cost == 0.5
    failed = await traces.list_recent(limit=10, failed=True)
    assert [each.run.request.id for each in failed] == ["arun-2", "arun-1"]
    assert failed[0].run.parent_id == "arun-1"
    await store.unqueue("arun-3", RunEnd(outcome=Outcome.CANCELLED), now=4.0)


@with_storage
async def test_health_counts_what_failed_and_when(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    outcomes = [Outcome.LOOP_DETECTED, Outcome.TIMEOUT, Outcome.TIMEOUT, Outcome.COMPLETED, Outcome.MODEL_ERROR]
    for number, outcome in enumerate(outcomes):
        await begin(store, f"run-{number}")
        await end(store, f"run-{number}", ADA, outcome, now=100.0 + number)
    health = await traces.load_health(since=101.0)
    assert (health.loops, health.timeouts, list(health.leaks)) == (0, 1, [])
    assert [each.run.request.id for each in health.failed] == ["run-4", "run-2"]
    assert (await traces.load_health(since=105.0)).failed == []


@with_storage
async def test_what_a_person_has_denied_is_no_problem(storage: Storage) -> None:
    store, child = storage.store, teammate_run()
    denied = RunEnd(outcome=Outcome.DENIED, error="Denied: fs_write. Nothing was changed.")
    await begin(store, child.root_id)
    await store.spawn(child)
    await store.begin(child.request, now=1.0)
    ask = Ask(
        id="ask-1", kind=AskKind.APPROVAL, key=ADA, run_id=child.id, call_id="c", speaker=child.agent, tool="fs_write",
        opened_at=1.0, expires_at=9.0,
    )  # fmt: skip
    await storage.asks.open(ask)
    await storage.asks.close(ask.id, AskState.DENIED, now=2.0)
    await store.end(child.key, child.id, denied, [], now=2.0)
    await store.end(ADA, child.root_id, denied, [], now=2.0)
    await begin(store, "run-plan")
    planned = RunEnd(outcome=Outcome.DENIED, error=f"{PLAN_REFUSED}: fs_write. Nothing was changed.")
    await store.end(ADA, "run-plan", planned, [], now=3.0)
    assert (await storage.traces.load_health(since=0.0)).failed == []
    # Here nobody has decided.
    await begin(store, "run-alone")
    await store.end(ADA, "run-alone", denied, [], now=4.0)
    (left,) = (await storage.traces.load_health(since=0.0)).failed
    assert left.run.id == "run-alone"
    # They are listed as before.
    assert len(await storage.traces.list_recent(limit=9, failed=True)) == 4


@with_storage
async def test_what_went_wrong_is_reported_until_it_is_acknowledged(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    for number, outcome in enumerate([Outcome.LOOP_DETECTED, Outcome.COMPLETED]):
        await begin(store, f"run-{number}")
        await end(store, f"run-{number}", ADA, outcome, now=100.0 + number)
    payload = '{"action": "reroute", "specialist": "operator"}'
    traces.add(TraceNote(run_id="run-0", at=100.0, kind=TraceKind.RECOVERY_ATTEMPT, agent="ada", payload=payload))
    # Neither work given before the failure nor the same agent once more is a reroute.
    await store.spawn(teammate_run("arun-1", parent="run-0", agent="librarian", at=99.0))
    await store.spawn(teammate_run("arun-2", parent="run-0", agent="operator", at=101.0))
    assert (await traces.load_health(since=0.0)).reroutes == 0
    await store.spawn(teammate_run("arun-3", parent="run-0", agent="librarian", at=101.0))

    health = await traces.load_health(since=0.0)
    assert ([each.run.request.id for each in health.failed], health.loops, health.reroutes) == (["run-0"], 1, 1)
    await traces.acknowledge(now=102.0)
    health = await traces.load_health(since=0.0)
    assert (list(health.failed), health.loops, health.reroutes) == ([], 0, 0)


@with_storage
async def test_a_guest_and_a_report_are_no_leak_and_what_crossed_over_is(storage: Storage) -> None:
    store = storage.store
    traces = storage.traces
    guest = RunRequest(id="run-g", key=ADA, speaker="bob", content="what do you say?")
    await store.begin(guest, now=1.0)
    await end(store, "run-g", ADA, Outcome.COMPLETED, assistant("I am Bob.", agent="bob"))
    report = RunRequest(id="run-r", key=ADA, speaker="ada", content="operator has ended", author="operator")
    await store.begin(report, now=1.0)
    await end(store, "run-r", ADA, Outcome.COMPLETED, assistant("Fine."))
    assert list((await traces.load_health(since=0.0)).leaks) == []

    child = teammate_run()
    await begin(store, child.id, child.key)
    await end(store, child.id, child.key, Outcome.COMPLETED, tool_result("c", "raw"), assistant("mine"))
    await begin(store, "run-2")
    await end(store, "run-2", ADA, Outcome.COMPLETED, assistant("I ran it.", agent="operator"))
    (leak,) = (await traces.load_health(since=0.0)).leaks
    assert "message 6 of ada as user is operator's, of run run-2" in leak
