"""What every implementation promises of step records."""

from moot.domain.message import assistant
from moot.domain.ports.storage import Storage
from moot.domain.step_record import StepRecord, make_part
from tests.contracts.store_kit import DONE, KEY, OTHER, archived, request, turn, with_storage


@with_storage
async def test_a_step_is_found_with_the_history_as_it_was_and_what_was_answered(storage: Storage) -> None:
    store = storage.store
    await turn(store, 1, "one")
    await store.begin(request(), now=2.0)
    tools = make_part(b"tools")
    head = make_part(b"head" * 200, tools)
    storage.steps.add(StepRecord(run_id="run-1", step=1, last_seq=3, archive=0, head=head, max_tokens=7))
    await store.append(KEY, "run-1", [assistant("thinking")], now=3.0)
    storage.steps.add(StepRecord(run_id="run-1", step=2, last_seq=4, archive=0, head=head, extra=make_part(b"extra")))
    await store.end(KEY, "run-1", DONE, [], now=4.0)
    await store.archive(KEY, archived(2))
    await turn(store, 2, "two")

    assert await storage.steps.list_numbers("run-1") == [1, 2]
    first = await storage.steps.find("run-1", 1)
    assert first is not None
    assert [entry.seq for entry in first.loaded.entries] == [1, 2, 3]
    assert (first.loaded.archive, first.head, first.extra, first.max_tokens) == (None, (b"tools", b"head" * 200), (), 7)
    assert first.reply == assistant("thinking")
    second = await storage.steps.find("run-1", 2)
    assert second is not None
    assert (second.extra, second.changes, second.reply) == ((b"extra",), (), None)
    assert await storage.steps.find("run-1", 3) is None
    assert await storage.steps.list_numbers("none") == []


@with_storage
async def test_an_answer_belongs_to_the_last_step_that_was_asked_with_its_history(storage: Storage) -> None:
    """What was answered before was discarded: a guest's text beside a call, for one."""
    await storage.store.begin(request(), now=1.0)
    for step in (1, 2):
        storage.steps.add(StepRecord(run_id="run-1", step=step, last_seq=1, archive=0, head=make_part(b"head")))
    await storage.store.end(KEY, "run-1", DONE, [assistant("kept")], now=2.0)
    found = [await storage.steps.find("run-1", step) for step in (1, 2)]
    assert [each.reply for each in found if each is not None] == [None, assistant("kept")]


@with_storage
async def test_a_step_written_again_replaces_the_first_and_goes_with_its_run(storage: Storage) -> None:
    store = storage.store
    await store.begin(request(), now=1.0)
    await store.begin(request("run-2", key=OTHER), now=1.0)
    shared = make_part(b"shared")
    for run_id, content in (("run-1", b"old"), ("run-1", b"new"), ("run-2", b"new"), ("none", b"new")):
        record = StepRecord(run_id=run_id, step=1, last_seq=1, archive=0, head=make_part(content, shared))
        storage.steps.add(record)
    await store.end(KEY, "run-1", DONE, [], now=2.0)
    found = await storage.steps.find("run-1", 1)
    assert found is not None
    assert found.head == (b"shared", b"new")
    await store.delete(KEY, now=1000.0)
    assert await storage.steps.list_numbers("run-1") == []
    kept = await storage.steps.find("run-2", 1)
    assert kept is not None
    assert kept.head == (b"shared", b"new")
