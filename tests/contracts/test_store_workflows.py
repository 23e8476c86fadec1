"""What every implementation promises of workflow runs: each attempt is made once, each report delivered once."""

from typing import Any

import pytest
from msgspec.structs import replace

from moot.automation.workflow_start import make_step_run
from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict, Fenced, NotFound
from moot.domain.message import assistant
from moot.domain.ports.storage import Storage
from moot.domain.run import RunRequest
from moot.domain.senders import SenderSet
from moot.domain.workflow import StepAttempt, WorkflowReport, WorkflowRun, WorkflowStatus, WorkflowStep
from tests.contracts.store_kit import DONE, KEY, OTHER, Disk, with_disk, with_storage

DAY = 86_400.0
EVERYONE = SenderSet(is_everyone=True)
RUN = WorkflowRun(
    id="wf-1",
    name="demo",
    source="name: demo",
    owner="user",
    created_at=1.0,
    origin=KEY,
    start_key="run-1/c1",
    cwd="/tmp",
    search_path="/bin",
    taint=frozenset({"web"}),
)
REPORT = WorkflowReport(id="wf-1@1", key=KEY)
FIRST = StepAttempt(step="a", attempt=1, run_id="arun-1")


def other(number: int, **fields: Any) -> WorkflowRun:
    return replace(RUN, id=f"wf-{number}", start_key="", created_at=float(number), **fields)


async def execute(storage: Storage, run_id: str, *, at: float = 2.0) -> None:
    """Make a run of a step from its beginning to its end."""
    step = WorkflowStep(id=run_id, prompt="go", agent="ada")
    run = make_step_run(RUN, step, "go", run_id=run_id, attempt=1, taint=frozenset(), now=at)
    await storage.store.spawn(run)
    await storage.store.begin(replace(run.request, is_first=True), now=at)
    await storage.store.end(run.key, run_id, DONE, [assistant("hello")], now=at)


@with_storage
async def test_a_run_is_read_as_it_was_stored_and_the_same_start_is_made_once(storage: Storage) -> None:
    flows = storage.workflows
    assert await flows.create(RUN, [REPORT]) == RUN
    assert await flows.get("wf-1") == RUN
    assert await flows.create(replace(RUN, id="wf-2"), [replace(REPORT, id="wf-2@1")]) == RUN
    assert await flows.get("wf-2") is None
    await flows.create(other(3, owner="tg:1", origin=None), [])
    await flows.create(other(4, name="second"), [])
    assert [run.id for run in await flows.list_runs(EVERYONE, limit=9)] == ["wf-4", "wf-3", "wf-1"]
    assert [run.id for run in await flows.list_runs(EVERYONE, limit=1)] == ["wf-4"]
    assert [run.id for run in await flows.list_runs(EVERYONE, limit=9, name="demo")] == ["wf-3", "wf-1"]
    assert [run.id for run in await flows.list_runs(SenderSet(names=("tg:1",)), limit=9)] == ["wf-3"]


@with_storage
async def test_an_attempt_is_stored_once_and_has_its_run_as_soon_as_there_is_one(storage: Storage) -> None:
    flows = storage.workflows
    await flows.create(RUN, [])
    assert await flows.start_attempt("wf-1", FIRST) == FIRST
    assert await flows.start_attempt("wf-1", replace(FIRST, run_id="arun-9")) == FIRST
    await execute(storage, "arun-1")
    await flows.start_attempt("wf-1", StepAttempt(step="b", attempt=1, run_id="arun-2"))
    await flows.start_attempt("wf-1", StepAttempt(step="a", attempt=2, run_id="arun-3"))
    found = await flows.list_attempts("wf-1")
    assert [(each.step, each.attempt, each.run_id) for each in found] == [
        ("a", 1, "arun-1"),
        ("b", 1, "arun-2"),
        ("a", 2, "arun-3"),
    ]
    assert found[0].run is not None
    assert found[0].run.end is not None
    assert found[0].run.end.content == "hello"
    assert found[1].run is None
    again = await flows.start_attempt("wf-1", replace(FIRST, run_id="arun-9"))
    assert again == found[0]


@with_storage
async def test_nothing_is_started_after_a_cancellation_or_an_end(storage: Storage) -> None:
    flows = storage.workflows
    await flows.create(RUN, [])
    await flows.create(other(2), [])
    cancelled = await flows.cancel("wf-1", now=5.0)
    assert cancelled is not None
    assert cancelled.cancelled_at == 5.0
    assert await flows.cancel("wf-1", now=6.0) == cancelled
    with pytest.raises(Conflict):
        await flows.start_attempt("wf-1", FIRST)
    ended = await flows.end("wf-2", WorkflowStatus.FAILED, error="step a failed", now=7.0)
    assert (ended.status, ended.error, ended.ended_at) == (WorkflowStatus.FAILED, "step a failed", 7.0)
    assert await flows.end("wf-2", WorkflowStatus.COMPLETED, now=8.0) == ended
    assert await flows.cancel("wf-2", now=8.0) is None
    assert await flows.cancel("wf-9", now=8.0) is None
    with pytest.raises(Conflict):
        await flows.start_attempt("wf-2", FIRST)
    with pytest.raises(NotFound):
        await flows.start_attempt("wf-9", FIRST)
    assert [run.id for run in await flows.recover()] == ["wf-1"]
    # A step may fail while the cancellation is being confirmed.
    late = await flows.end("wf-1", WorkflowStatus.FAILED, error="step a failed", now=9.0)
    assert (late.status, late.error, late.ended_at) == (WorkflowStatus.CANCELLED, "", 9.0)


@with_storage
async def test_a_report_is_owed_until_a_message_delivers_it(storage: Storage) -> None:
    flows = storage.workflows
    await flows.create(RUN, [REPORT, WorkflowReport(id="wf-1@2", key=OTHER, step="a")])
    await flows.create(other(2), [WorkflowReport(id="wf-2@1", key=KEY)])
    assert [(run, report.id) for run, report in await flows.list_owed()] == [
        ("wf-1", "wf-1@1"),
        ("wf-1", "wf-1@2"),
        ("wf-2", "wf-2@1"),
    ]
    told = RunRequest(id="run-7", key=KEY, speaker="ada", content="x", author="workflow", delivers=("wf-1@1",))
    await storage.store.begin(told, now=3.0)
    assert [report.step for _, report in await flows.list_owed("wf-1")] == ["a"]
    with pytest.raises(Conflict):
        await storage.store.begin(replace(told, id="run-8"), now=3.0)
    with pytest.raises(Conflict):
        await storage.store.begin(replace(told, id="run-9", delivers=("wf-9@1",)), now=3.0)


@with_storage
async def test_a_deleted_conversation_is_owed_nothing_and_takes_its_ended_workflows_along(storage: Storage) -> None:
    flows = storage.workflows
    await storage.store.enqueue(RunRequest(id="run-1", key=KEY, speaker="ada", content="hi"), now=1.0)
    await storage.store.unqueue("run-1", DONE, now=1.0)
    await flows.create(RUN, [REPORT])
    await flows.create(other(2), [WorkflowReport(id="wf-2@1", key=KEY), WorkflowReport(id="wf-2@2", key=OTHER)])
    await flows.end("wf-1", WorkflowStatus.COMPLETED, now=2.0)
    await storage.store.delete(KEY, now=1000.0)
    assert await flows.get("wf-1") is None
    assert [report.id for _, report in await flows.list_owed()] == ["wf-2@2"]
    assert [run.id for run in await flows.recover()] == ["wf-2"]


@with_storage
async def test_ended_workflows_are_removed_after_their_time_and_results_that_are_needed_stay(storage: Storage) -> None:
    flows, config = storage.workflows, TraceConfig(keep_days=1, keep_failed_days=2)
    for number in (1, 2, 3):
        await flows.create(other(number), [])
        await flows.start_attempt(f"wf-{number}", StepAttempt(step="a", attempt=1, run_id=f"arun-{number}"))
        await execute(storage, f"arun-{number}")
    await flows.end("wf-1", WorkflowStatus.COMPLETED, now=2.0)
    await flows.end("wf-2", WorkflowStatus.FAILED, now=2.0)
    await storage.retention.expire(config, now=1.5 * DAY, batch=100)
    assert [run.id for run in await flows.list_runs(EVERYONE, limit=9)] == ["wf-3", "wf-2"]
    runs = [(await storage.store.get_run(f"arun-{number}")) is not None for number in (1, 2, 3)]
    assert runs == [False, False, True]
    await storage.retention.expire(config, now=2.5 * DAY, batch=100)
    assert [run.id for run in await flows.list_runs(EVERYONE, limit=9)] == ["wf-3"]


@with_disk
async def test_the_next_daemon_takes_over_and_the_former_one_can_write_no_more(disk: Disk) -> None:
    first = await disk.open()
    await first.workflows.create(RUN, [])
    second = await disk.open()
    try:
        assert await second.workflows.recover() == [RUN]
        with pytest.raises(Fenced, match="another daemon has taken over"):
            await first.workflows.start_attempt("wf-1", FIRST)
        assert await first.workflows.recover() == []
        disk.resend(first)
        with pytest.raises(Fenced):
            await first.workflows.end("wf-1", WorkflowStatus.COMPLETED, now=1.0)
        with pytest.raises(Fenced):
            await first.workflows.cancel("wf-1", now=1.0)
        assert await second.workflows.start_attempt("wf-1", FIRST) == FIRST
    finally:
        await second.store.close()
        await first.store.close()


@with_storage
async def test_a_step_belongs_to_the_owner_of_its_workflow(storage: Storage) -> None:
    await execute(storage, "arun-1")
    runs = await storage.store.list_ended_runs(SenderSet(names=("user",)), limit=9)
    assert [run.id for run in runs] == ["arun-1"]
    assert await storage.store.list_ended_runs(SenderSet(names=("eve",)), limit=9) == []
    assert runs[0].key == ConversationKey("ada", "workflow:wf-1.arun-1:user")
