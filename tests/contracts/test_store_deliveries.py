"""Deliveries: a row in the transaction of the message that shows a result, so that each is delivered once."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict
from moot.domain.message import ToolCall, assistant, tool_result, user
from moot.domain.ports.store import Store
from moot.domain.run import Delivery, Outcome, Run, RunEnd, RunStatus, Spawn
from moot.domain.usage import RunUsage
from tests.contracts.store_kit import DONE, KEY, request, stored

CALL = ToolCall(id="c1", name="agent_wait", arguments="{}")


def child(run_id: str = "arun-1", parent: str = "run-1", **spawn: Any) -> Run:
    key = ConversationKey("operator", f"run:{run_id}")
    given = {"parent_call": f"call-{run_id}", "chain": ("ada",), **spawn}
    return Run(
        request=request(run_id, "do", key, root=KEY, root_id="run-1", parent_id=parent),
        status=RunStatus.QUEUED,
        created_at=1.0,
        spawn=Spawn(**given),
    )


async def ended_child(store: Store, *, outcome: Outcome = Outcome.COMPLETED, **spawn: Any) -> Run:
    run = await store.spawn(child(**spawn))
    await store.begin(replace(run.request, is_first=True), now=2.0)
    await store.end(run.key, run.id, RunEnd(outcome=outcome, content="done"), [assistant("done")], now=3.0)
    return run


async def owed(store: Store) -> list[str]:
    return [run.id for run in await store.list_owed_runs()]


async def delivery(store: Store, run_id: str = "arun-1") -> tuple[Delivery, str, int]:
    run = await store.get_run(run_id)
    assert run is not None
    return run.delivery, run.delivered_by, run.delivered_seq


@stored
async def test_a_spawned_run_is_read_back_as_it_was_given(store: Store) -> None:
    for allowed in (None, (), ("fs_read",)):
        given = child(f"arun-{allowed}", parent_step=2, parent_seq=3, reason="it can", allowed_tools=allowed)
        assert await store.spawn(given) == given
        assert await store.get_run(given.id) == replace(given, delivery=Delivery.OWED)
        await store.unqueue(given.id, RunEnd(outcome=Outcome.CANCELLED), now=2.0)


@stored
async def test_the_same_call_and_the_same_start_spawn_one_run(store: Store) -> None:
    first = await store.spawn(child("arun-1", parent_call="same"))
    again = await store.spawn(child("arun-2", parent_call="same"))
    assert again.id == first.id
    started = await store.spawn(child("arun-3", parent="", parent_call="", client_key="k"))
    assert (await store.spawn(child("arun-4", parent="", parent_call="", client_key="k"))).id == started.id
    assert [owned.run.id for owned in await store.list_live_runs()] == ["arun-1", "arun-3"]


@stored
async def test_a_result_is_owed_until_a_message_of_the_parent_shows_it(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await ended_child(store)
    assert await owed(store) == ["arun-1"]
    await store.append(KEY, "run-1", [assistant("", tool_calls=(CALL,))], now=4.0)
    await store.append(KEY, "run-1", [tool_result("c1", "done")], now=4.0, delivers=["arun-1"])
    assert (await owed(store), await delivery(store)) == ([], (Delivery.WAITED, "run-1", 3))
    # Shown once more, it is delivered where it was first.
    await store.append(KEY, "run-1", [tool_result("c2", "done")], now=5.0, delivers=["arun-1"])
    assert await delivery(store) == (Delivery.WAITED, "run-1", 3)


@stored
async def test_a_message_that_is_refused_delivers_nothing(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await ended_child(store)
    await store.end(KEY, "run-1", DONE, (), now=4.0)
    with pytest.raises(Conflict):
        await store.append(KEY, "run-1", [tool_result("c1", "done")], now=4.0, delivers=["arun-1"])
    assert await owed(store) == ["arun-1"]


@stored
async def test_a_report_delivers_once_queued_or_not(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await ended_child(store)
    report = request("run-2", "it has ended", author="operator", delivers=("arun-1",))
    await store.enqueue(report, now=4.0)
    assert (await owed(store), (await delivery(store))[0]) == ([], Delivery.SENT)
    with pytest.raises(Conflict):
        await store.enqueue(replace(report, id="run-3"), now=4.0)
    with pytest.raises(Conflict):
        await store.begin(replace(report, id="run-4"), now=4.0)
    await store.end(KEY, "run-1", DONE, (), now=5.0)
    await store.begin(report, now=6.0)
    assert await delivery(store) == (Delivery.SENT, "run-2", 2)


@stored
async def test_what_a_message_was_to_deliver_that_never_began_is_owed_again(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await ended_child(store)
    await store.enqueue(request("run-2", "told", author="operator", delivers=("arun-1",)), now=4.0)
    await store.unqueue("run-2", RunEnd(outcome=Outcome.INTERNAL_ERROR), now=5.0)
    assert await owed(store) == ["arun-1"]


@pytest.mark.parametrize(
    ("parent", "own", "outlives", "is_owed"),
    [
        (Outcome.COMPLETED, Outcome.COMPLETED, False, True),
        (Outcome.COMPLETED, Outcome.CANCELLED, False, True),
        # Stopped together with its parent, it is owed to nobody; what it had done before is.
        (Outcome.CANCELLED, Outcome.CANCELLED, False, False),
        (Outcome.CANCELLED, Outcome.COMPLETED, False, True),
        (Outcome.CANCELLED, Outcome.CANCELLED, True, True),
    ],
)
def test_what_was_stopped_with_its_parent_is_owed_to_nobody(
    parent: Outcome, own: Outcome, outlives: bool, is_owed: bool, tmp_path: Path, storage_kind: str
) -> None:
    @stored
    async def scenario(store: Store) -> None:
        await store.begin(request(), now=1.0)
        await ended_child(store, outcome=own, outlives=outlives)
        await store.end(KEY, "run-1", RunEnd(outcome=parent), (), now=4.0)
        assert bool(await owed(store)) is is_owed

    scenario(tmp_path, storage_kind)


@stored
async def test_a_queued_message_ends_with_the_message_that_shows_it_to_an_active_run(store: Store) -> None:
    await store.begin(request("run-1"), now=1.0)
    for number, run_id in enumerate(("run-2", "run-3")):
        await store.enqueue(request(run_id, f"text {run_id}", steers="run-1"), now=2.0 + number)
    (waiting,) = [run for run in await store.list_runs(KEY) if run.id == "run-2"]
    assert waiting.request.steers == "run-1"

    shown = [user("text run-2"), user("text run-3")]
    written = await store.append(KEY, "run-1", shown, now=4.0, steered=["run-2", "run-3"])

    for run_id, entry in zip(("run-2", "run-3"), written, strict=True):
        run = await store.get_run(run_id)
        assert run is not None
        assert run.end is not None
        assert (run.status, run.end.outcome, run.user_seq) == (RunStatus.ENDED, Outcome.COMPLETED, 0)
        assert (run.delivered_by, run.delivered_seq, run.delivery) == ("run-1", entry.seq, "none")
    # They are shown once, whatever is tried again, and nothing of a refused write stays.
    for again in ("run-2", "run-1", "nowhere"):
        with pytest.raises(Conflict):
            await store.append(KEY, "run-1", [user("again")], now=5.0, steered=[again])
    with pytest.raises(Conflict):
        await store.begin(request("run-2"), now=6.0)
    assert [entry.message.content for entry in await store.list_entries(KEY)] == ["hi", "text run-2", "text run-3"]
    # The turn is interrupted; a rerun goes on after its own messages.
    await store.end(KEY, "run-1", RunEnd(outcome=Outcome.INTERRUPTED), (), now=7.0)
    begun = await store.rerun(request("run-4", rerun_of="run-1"), now=8.0)
    assert begun.entry.seq == 1


@stored
async def test_a_report_of_a_deleted_run_is_refused_and_makes_no_conversation(store: Store) -> None:
    await store.begin(request("run-1"), now=1.0)
    await ended_child(store)
    await store.end(KEY, "run-1", DONE, [], now=4.0)
    await store.delete(KEY, now=1000.0)
    with pytest.raises(Conflict, match="deleted"):
        await store.begin(request("run-2", "report", author="operator", delivers=("arun-1",)), now=5.0)
    with pytest.raises(Conflict, match="deleted"):
        await store.enqueue(request("run-3", "report", author="operator", delivers=("arun-1",)), now=5.0)
    assert await store.list_conversations(teammates=True) == []


@stored
async def test_the_workers_of_a_conversation_are_listed_by_their_newest_run(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await ended_child(store, run_id="arun-1")
    await store.spawn(child("arun-2"))
    first = await store.get_run("arun-1")
    assert first is not None
    again = replace(first.request, id="arun-3", content="go on")
    await store.spawn(Run(request=again, status=RunStatus.QUEUED, created_at=4.0, spawn=Spawn(parent_call="c")))
    # Of another parent: its conversation is another one.
    await store.spawn(child("arun-4", parent="arun-2"))

    workers = await store.list_workers(KEY, root=KEY, limit=10)
    assert [(run.id, run.worker_id) for run in workers] == [("arun-3", "arun-1"), ("arun-2", "arun-2")]
    assert [run.id for run in await store.list_workers(KEY, root=KEY, limit=1)] == ["arun-3"]
    assert [run.id for run in await store.list_workers(workers[1].key, root=KEY, limit=9)] == ["arun-4"]
    assert await store.list_workers(ConversationKey("ada", "other"), root=KEY, limit=9) == []


@stored
async def test_a_run_keeps_how_many_tool_calls_it_has_made(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await store.append(KEY, "run-1", [assistant("a")], now=2.0, spent=RunUsage(steps=1, tool_uses=2))
    await store.end(KEY, "run-1", RunEnd(outcome=Outcome.COMPLETED, tool_uses=3), [], now=3.0)
    run = await store.get_run("run-1")
    assert run is not None
    assert run.end is not None
    assert (run.spent.tool_uses, run.end.tool_uses) == (3, 3)
