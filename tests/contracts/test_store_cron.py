"""What every implementation promises of scheduled jobs and their firings."""

import asyncio

import pytest
from msgspec.structs import replace

from moot.automation.workflow_start import make_step_run
from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import (
    MOST_FIRINGS,
    CronJob,
    Firing,
    JobDelivery,
    JobIsolation,
    MissedRule,
    SkipReason,
    make_job_run,
)
from moot.domain.errors import Conflict, Fenced
from moot.domain.message import assistant
from moot.domain.ports.storage import Storage
from moot.domain.run import Delivery, Outcome, Run, RunEnd, RunStatus
from moot.domain.schedule import Schedule, ScheduleKind
from moot.domain.senders import SenderSet
from moot.domain.token import Token
from moot.domain.workflow import (
    LISTED_SOURCE,
    StepAttempt,
    Workflow,
    WorkflowLaunch,
    WorkflowReport,
    WorkflowRun,
    WorkflowStatus,
    WorkflowStep,
)
from tests.contracts.store_kit import DONE, KEY, OTHER, Disk, request, turn, with_disk, with_storage

FLOW = Workflow(name="demo", steps=())

HOURLY = Schedule(kind=ScheduleKind.CRON, text="0 * * * *", zone="Europe/Berlin")
JOB = CronJob(
    id="cron-1",
    owner=KEY,
    name="news",
    agent="bob",
    prompt="What is new?",
    schedule=HOURLY,
    conversation_mode=JobIsolation.MAIN,
    missed=MissedRule.SKIP,
    timeout=60.0,
    cwd="/work",
    search_path="/bin",
    taint=frozenset({"web"}),
    created_at=1.0,
    updated_at=1.0,
    next_at=100.0,
)


def run_of(job: CronJob, number: int, due_at: float = 100.0) -> Run:
    return make_job_run(job, run_id=f"arun-{number}", due_at=due_at, now=due_at)


async def fire(storage: Storage, job: CronJob, number: int, *, next_at: float | None = 200.0) -> Firing | None:
    assert job.next_at is not None
    firing = Firing(job_id=job.id, due_at=job.next_at, fired_at=job.next_at)
    return await storage.cron.fire(job, firing, run_of(job, number, job.next_at), next_at=next_at)


async def end(storage: Storage, run_id: str) -> None:
    await storage.store.unqueue(run_id, RunEnd(outcome=Outcome.COMPLETED), now=150.0)


@with_storage
async def test_a_prompt_does_not_replace_a_workflow_nor_a_workflow_a_prompt(storage: Storage) -> None:
    jobs = [JOB, replace(JOB, id="cron-2", name="report", prompt="", workflow="steps: []")]
    for job, kind in zip(jobs, ("a prompt", "a workflow"), strict=True):
        await storage.cron.save(job)
        other = jobs[1] if job is JOB else JOB
        with pytest.raises(Conflict, match=f"there is a job '{job.name}' with {kind}"):
            await storage.cron.save(replace(other, id="cron-3", name=job.name))
    assert await storage.cron.list_jobs() == jobs


@with_storage
async def test_a_job_is_found_as_it_was_saved_and_replaced_by_name(storage: Storage) -> None:
    cron = storage.cron
    assert await cron.save(JOB) == (JOB, True)
    assert [each.key for each in await storage.store.list_conversations()] == [KEY]
    assert await cron.get("cron-1") == JOB == await cron.find(KEY, "news")
    changed, is_new = await cron.save(replace(JOB, id="cron-9", prompt="Other", created_at=5.0, updated_at=5.0))
    assert (changed.id, changed.created_at, changed.updated_at, is_new) == ("cron-1", 1.0, 5.0, False)
    assert await cron.list_jobs() == [changed] == [await cron.get("cron-1")]
    # Others have names of their own.
    theirs = replace(JOB, id="cron-2", owner=OTHER)
    assert (await cron.save(theirs))[1]
    assert await cron.list_jobs(sender=OTHER.sender) == [theirs]
    assert await cron.list_jobs(agent="nobody") == []
    assert await cron.remove("cron-1")
    assert not await cron.remove("cron-1")
    assert await cron.find(KEY, "news") is None


@with_storage
async def test_what_is_due_is_listed_in_order(storage: Storage) -> None:
    cron = storage.cron
    assert await cron.find_next_due() is None
    for number, next_at in enumerate((300.0, 100.0, 200.0, None)):
        await cron.save(replace(JOB, id=f"cron-{number}", name=f"job {number}", next_at=next_at))
    assert await cron.find_next_due() == 100.0
    assert [job.id for job in await cron.list_due(200.0, limit=9)] == ["cron-1", "cron-2"]
    assert [job.id for job in await cron.list_due(900.0, limit=1)] == ["cron-1"]
    paused = await cron.pause("cron-1", now=7.0)
    assert paused is not None
    assert (paused.is_paused, paused.next_at, paused.updated_at) == (True, None, 7.0)
    assert await cron.find_next_due() == 200.0
    resumed = await cron.resume("cron-1", next_at=150.0, now=8.0)
    assert resumed is not None
    assert (resumed.is_paused, await cron.find_next_due()) == (False, 150.0)
    assert await cron.pause("cron-none", now=9.0) is None


@with_storage
async def test_the_times_of_jobs_are_moved_unless_they_have_changed(storage: Storage) -> None:
    cron = storage.cron
    assert await cron.find_last_fired() == 0.0
    for number in range(3):
        await cron.save(replace(JOB, id=f"cron-{number}", name=f"job {number}"))
    await cron.pause("cron-1", now=7.0)
    await cron.move({"cron-0": (100.0, 50.0), "cron-1": (100.0, 50.0), "cron-2": (99.0, 50.0), "cron-9": (1.0, 2.0)})
    assert [job.next_at for job in await cron.list_jobs()] == [50.0, None, 100.0]
    await fire(storage, replace(JOB, id="cron-2", name="job 2"), 1)
    assert await cron.find_last_fired() == 100.0


@with_storage
async def test_a_firing_and_its_run_are_written_once(storage: Storage) -> None:
    await storage.cron.save(JOB)
    # As several daemons would, at once.
    fired = await asyncio.gather(*(fire(storage, JOB, number) for number in range(5)))
    (one,) = [each for each in fired if each is not None]
    assert one.run_id == "arun-0"
    run = await storage.store.get_run("arun-0")
    assert run is not None
    assert (run.status, run.key, run.root) == (RunStatus.QUEUED, ConversationKey("bob", "cron:cron-1:user"), KEY)
    assert (run.request.taint, run.request.limits.seconds, run.request.cwd) == (JOB.taint, 60.0, "/work")
    assert [left.run.id for left in await storage.store.list_live_runs()] == ["arun-0"]
    job = await storage.cron.get("cron-1")
    assert job is not None
    assert job.next_at == 200.0
    (record,) = await storage.cron.list_firings(SenderSet(is_everyone=True), limit=9)
    assert (record.firing, record.job, record.run) == (one, job, run)


@with_storage
async def test_a_firing_and_the_run_of_its_workflow_are_written_once(storage: Storage) -> None:
    source = "name: demo\n" * 100
    job = replace(JOB, prompt="", workflow=source)
    await storage.cron.save(job)
    assert await storage.cron.get("cron-1") == job
    run = WorkflowRun(id="wf-1", name="demo", source=source, owner="user", created_at=100.0, start_key="cron-1/100")
    work = WorkflowLaunch(run=run, workflow=FLOW, reports=(WorkflowReport(id="wf-1@1", key=KEY),))
    firing = Firing(job_id="cron-1", due_at=100.0, fired_at=100.0)
    assert await storage.cron.fire(job, firing, work, next_at=200.0) == replace(firing, run_id="wf-1")
    assert await storage.cron.fire(job, firing, work, next_at=200.0) is None
    assert await storage.workflows.get("wf-1") == run
    assert len(await storage.workflows.list_owed("wf-1")) == 1
    # Lists contain the beginning of the text: it may be large, and they may be long.
    (record,) = await storage.cron.list_firings(SenderSet(is_everyone=True), limit=9)
    listed = replace(run, source=source[:LISTED_SOURCE])
    assert (record.run, record.workflow, record.job.workflow) == (None, listed, listed.source)
    assert await storage.workflows.list_runs(SenderSet(is_everyone=True), limit=9) == [listed]
    assert [each.workflow for each in await storage.cron.list_jobs()] == [listed.source]
    # It is not run beside itself.
    now = await storage.cron.get("cron-1")
    assert now is not None
    again = WorkflowLaunch(run=replace(run, id="wf-2", start_key="cron-1/200"), workflow=FLOW)
    skipped = await storage.cron.fire(now, replace(firing, due_at=200.0), again, next_at=300.0)
    assert skipped == replace(firing, due_at=200.0, skipped=SkipReason.RUNNING)
    assert await storage.workflows.get("wf-2") is None


@with_storage
async def test_the_result_of_a_workflow_is_that_of_the_step_that_ended_last(storage: Storage) -> None:
    job = replace(JOB, prompt="", workflow="name: demo\n")
    await storage.cron.save(job)
    run = WorkflowRun(id="wf-1", name="demo", source=job.workflow, owner="user", created_at=100.0)
    firing = Firing(job_id="cron-1", due_at=100.0, fired_at=100.0)
    await storage.cron.fire(job, firing, WorkflowLaunch(run=run, workflow=FLOW), next_at=200.0)
    for name, ended_at in (("a", 110.0), ("b", 130.0), ("c", 120.0)):
        await storage.workflows.start_attempt("wf-1", StepAttempt(step=name, attempt=1, run_id=f"arun-{name}"))
        step = WorkflowStep(id=name, prompt="go", agent="ada")
        made = make_step_run(run, step, "go", run_id=f"arun-{name}", attempt=1, taint=frozenset(), now=100.0)
        await storage.store.spawn(made)
        await storage.store.begin(replace(made.request, is_first=True), now=100.0)
        done = replace(DONE, content=f"result {name}")
        await storage.store.end(made.key, made.id, done, [assistant(done.content)], now=ended_at)
    (record,) = await storage.cron.list_last_firings()
    assert (record.last_step, record.result) == (None, "")
    await storage.workflows.end("wf-1", WorkflowStatus.COMPLETED, now=140.0)
    (record,) = await storage.cron.list_last_firings()
    assert record.result == "result b"
    assert await storage.cron.list_firings(SenderSet(is_everyone=True), limit=9) == [record]


@with_storage
async def test_what_was_changed_meanwhile_does_not_fire(storage: Storage) -> None:
    await storage.cron.save(JOB)
    await storage.cron.save(replace(JOB, prompt="Other", updated_at=2.0))
    assert await fire(storage, JOB, 1) is None
    await storage.cron.pause("cron-1", now=3.0)
    paused = await storage.cron.get("cron-1")
    assert paused is not None
    assert await fire(storage, replace(paused, next_at=100.0), 1) is None
    await storage.cron.remove("cron-1")
    assert await fire(storage, JOB, 1) is None
    assert await storage.store.get_run("arun-1") is None
    assert await storage.cron.list_firings(SenderSet(is_everyone=True), limit=9) == []


@with_storage
async def test_a_firing_is_skipped_while_a_run_of_the_job_has_not_ended(storage: Storage) -> None:
    await storage.cron.save(JOB)
    await fire(storage, JOB, 1)
    due = replace(JOB, next_at=200.0)
    second = await fire(storage, due, 2, next_at=300.0)
    assert second == Firing(job_id="cron-1", due_at=200.0, fired_at=200.0, skipped=SkipReason.RUNNING)
    manual = Firing(job_id="cron-1", due_at=250.0, fired_at=250.0, is_manual=True)
    with pytest.raises(Conflict, match="a run of news has not ended"):
        await storage.cron.fire(due, manual, run_of(JOB, 3, 250.0), next_at=None)
    await end(storage, "arun-1")
    # One by hand leaves the schedule alone.
    assert await storage.cron.fire(due, manual, run_of(JOB, 3, 250.0), next_at=None) == replace(manual, run_id="arun-3")
    job = await storage.cron.get("cron-1")
    assert job is not None
    assert job.next_at == 300.0
    assert [each.firing.due_at for each in await storage.cron.list_firings(SenderSet(is_everyone=True), limit=9)] == [
        250.0,
        200.0,
        100.0,
    ]
    (last,) = await storage.cron.list_last_firings(agent=KEY.agent)
    assert last.firing.due_at == 250.0
    assert await storage.cron.list_last_firings(sender="nobody") == []


@with_storage
async def test_firings_of_others_do_not_push_out_those_of_a_sender(storage: Storage) -> None:
    busy = replace(JOB, id="cron-2", owner=ConversationKey("ada", "tg:busy"), missed=MissedRule.SKIP)
    for job, times in ((JOB, (100.0,)), (busy, (100.0, 200.0, 300.0))):
        saved, _ = await storage.cron.save(replace(job, next_at=100.0))
        for due_at in times:
            firing = Firing(job_id=job.id, due_at=due_at, fired_at=due_at, skipped=SkipReason.MISSED)
            assert await storage.cron.fire(saved, firing, None, next_at=due_at + 100.0) is not None
            saved = replace(saved, next_at=due_at + 100.0)

    async def list_due(senders: SenderSet, limit: int = 2) -> list[float]:
        return [each.firing.due_at for each in await storage.cron.list_firings(senders, limit=limit)]

    assert await list_due(SenderSet(names=(KEY.sender,))) == [100.0]
    assert await list_due(SenderSet(patterns=("tg:*",))) == [300.0, 200.0]
    assert await list_due(SenderSet(is_everyone=True), 9) == [300.0, 200.0, 100.0, 100.0]
    assert await list_due(SenderSet()) == []


@with_storage
async def test_few_firings_are_kept(storage: Storage) -> None:
    job, _ = await storage.cron.save(replace(JOB, missed=MissedRule.SKIP))
    for number in range(MOST_FIRINGS + 3):
        assert job.next_at is not None
        firing = Firing(job_id=job.id, due_at=job.next_at, fired_at=job.next_at, skipped=SkipReason.MISSED)
        assert await storage.cron.fire(job, firing, None, next_at=200.0 + number) is not None
        job = replace(job, next_at=200.0 + number)
    found = await storage.cron.list_firings(SenderSet(is_everyone=True), job_id="cron-1", limit=500)
    assert (len(found), found[0].firing.due_at) == (MOST_FIRINGS, 200.0 + MOST_FIRINGS + 1)


@with_storage
async def test_an_instant_whose_firing_is_not_kept_any_more_does_not_fire_again(storage: Storage) -> None:
    flow = WorkflowRun(id="wf-1", name="demo", source="steps: []", owner="ann", created_at=1.0, start_key="cron-2/100")
    await storage.cron.save(JOB)
    other, _ = await storage.cron.save(replace(JOB, id="cron-2", name="report", prompt="", workflow="steps: []"))
    await fire(storage, JOB, 1)
    await end(storage, "arun-1")
    at_once = Firing(job_id="cron-2", due_at=100.0, fired_at=100.0)
    launch = WorkflowLaunch(run=flow, workflow=FLOW)
    assert await storage.cron.fire(other, at_once, launch, next_at=200.0) is not None
    await storage.workflows.end("wf-1", WorkflowStatus.COMPLETED, now=150.0)
    for job_id in ("cron-1", "cron-2"):
        for number in range(MOST_FIRINGS):
            job = await storage.cron.get(job_id)
            assert job is not None
            assert job.next_at is not None
            skipped = Firing(job_id=job_id, due_at=job.next_at, fired_at=300.0, skipped=SkipReason.MISSED)
            await storage.cron.fire(job, skipped, None, next_at=201.0 + number)
    # The clock is set back.
    await storage.cron.move({"cron-1": (300.0, 100.0), "cron-2": (300.0, 100.0)})
    assert await fire(storage, JOB, 2) is None
    assert await storage.cron.fire(other, at_once, replace(launch, run=replace(flow, id="wf-2")), next_at=200.0) is None
    assert [job.next_at for job in await storage.cron.list_jobs()] == [200.0, 200.0]
    assert (await storage.store.get_run("arun-2"), await storage.workflows.get("wf-2")) == (None, None)


@with_storage
async def test_the_result_of_a_run_is_owed_to_the_conversation_that_asked(storage: Storage) -> None:
    store = storage.store
    await storage.cron.save(JOB)
    await storage.cron.save(replace(JOB, id="cron-2", name="silent", delivery=JobDelivery.NOWHERE))
    await fire(storage, JOB, 1)
    await fire(storage, replace(JOB, id="cron-2", name="silent", delivery=JobDelivery.NOWHERE), 2)
    for run_id in ("arun-1", "arun-2"):
        await end(storage, run_id)
    assert [run.id for run in await store.list_owed_runs()] == ["arun-1"]
    await store.begin(request("run-1", delivers=("arun-1",), author="bob"), now=160.0)
    await store.end(KEY, "run-1", DONE, [assistant("hello")], now=160.0)
    assert await store.list_still_owed(["arun-1", "arun-2"]) == []
    told = [await store.get_run(run_id) for run_id in ("arun-1", "arun-2")]
    assert [run.delivery for run in told if run is not None] == [Delivery.SENT, Delivery.NONE]


@with_storage
async def test_jobs_are_deleted_with_their_conversation_and_firings_with_their_runs(storage: Storage) -> None:
    store = storage.store
    await turn(store, 1, "one")
    await storage.cron.save(JOB)
    await storage.cron.save(replace(JOB, id="cron-2", owner=OTHER))
    await fire(storage, JOB, 1)
    await fire(storage, replace(JOB, id="cron-2", owner=OTHER), 2)
    for run_id in ("arun-1", "arun-2"):
        await end(storage, run_id)
    assert (await store.count_deletion(KEY)).schedules == 1
    assert (await store.delete(KEY, now=1000.0)).counts.schedules == 1
    assert [job.id for job in await storage.cron.list_jobs()] == ["cron-2"]
    assert await store.get_run("arun-1") is None
    await store.delete(ConversationKey("bob", "cron:cron-2:tg:1"), now=1000.0)
    assert await storage.cron.list_firings(SenderSet(is_everyone=True), limit=9) == []


def test_a_job_does_not_fire_into_a_conversation_that_another_daemon_has(storage_kind: str, tmp_path: object) -> None:
    async def scenario(disk: Disk) -> None:
        first = await disk.open()
        await first.cron.save(JOB)
        await fire(first, JOB, 1)
        await end(first, "arun-1")
        second = await disk.open()
        # Both are alive, and the conversation of the job is with the first.
        disk.resend(first)
        due = replace(JOB, next_at=200.0)
        with pytest.raises(Fenced):
            await fire(second, due, 2, next_at=300.0)
        assert await second.cron.get("cron-1") == due
        assert await fire(first, due, 2, next_at=300.0) is not None
        # Where each run has a conversation of its own, whoever is first fires.
        await second.cron.save(replace(JOB, id="cron-2", name="own", conversation_mode=JobIsolation.ISOLATED))
        own = await second.cron.get("cron-2")
        assert own is not None
        assert await fire(second, own, 3) is not None
        assert await fire(first, own, 4) is None
        await first.store.close()
        await second.store.close()

    with_disk(scenario)(tmp_path, storage_kind)  # type: ignore[arg-type]


@with_storage
async def test_revoking_a_token_pauses_the_jobs_of_its_senders(storage: Storage) -> None:
    cron, store = storage.cron, storage.store
    await store.add_token(Token(name="alice", senders=("tg:*", "shared", "user"), created_at=1.0), "d1")
    await store.add_token(Token(name="bob", senders=("shared",), created_at=1.0), "d2")
    for sender in ("alice", "tg:1", "shared", "bob", "user", "other"):
        owner = ConversationKey("ada", sender)
        await cron.save(replace(JOB, id=f"cron-{sender}", name=f"of {sender}", owner=owner))
    assert await store.revoke_token("alice", now=2.0) == ("of alice", "of tg:1")
    assert await store.revoke_token("alice", now=3.0) == ()
    assert {job.owner.sender for job in await cron.list_jobs() if job.is_paused} == {"alice", "tg:1"}
    # Neither a run that has not ended nor a new token of the name lets them run again.
    later = replace(JOB, id="cron-later", name="later", owner=ConversationKey("ada", "alice"))
    assert (await cron.save(later))[0].is_paused
    await store.add_token(Token(name="alice", senders=(), created_at=4.0), "d3")
    with pytest.raises(Conflict, match="the token of alice was revoked"):
        await cron.resume("cron-alice", next_at=150.0, now=5.0)
    await store.revoke_token("alice", now=6.0)
    await store.add_token(Token(name="alice", senders=("alice",), created_at=7.0), "d4")
    resumed = await cron.resume("cron-alice", next_at=150.0, now=8.0)
    assert resumed is not None
    assert not resumed.is_paused
