"""A daemon that lost a conversation to another cannot write it: two handles of one store, and who may do what."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_type_hints

import apsw
import pytest
from msgspec.structs import replace

from moot.domain.approval import Decision
from moot.domain.ask import Ask, AskKind, AskReply, AskState, Question
from moot.domain.conversation import Conversation, ConversationKey
from moot.domain.cron_job import CronJob, Firing, JobIsolation, make_job_run
from moot.domain.errors import Conflict, Fenced
from moot.domain.mail import Mail
from moot.domain.message import assistant, user
from moot.domain.note import Note, NoteKind
from moot.domain.output import Output
from moot.domain.owner import Location, Owner
from moot.domain.ports.storage import Storage
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, Run, RunRequest, RunStatus, Spawn
from moot.domain.schedule import Schedule, ScheduleKind
from moot.domain.senders import SenderSet
from moot.domain.step_record import StepRecord, make_part
from moot.domain.trace import TraceKind, TraceNote
from moot.domain.workflow import StepAttempt, WorkflowRun, WorkflowStatus
from moot.store.sqlite import SqliteStore
from tests.contracts.store_kit import (
    DONE,
    KEY,
    OTHER,
    Disk,
    SqliteDisk,
    archived,
    contents,
    request,
    turn,
    with_disk,
)

QUEUED = ConversationKey("ada", "queued")
QUESTION = Ask(
    id="ask-1",
    kind=AskKind.QUESTION,
    key=KEY,
    run_id="run-1",
    call_id="c1",
    speaker="ada",
    tool="ask_user",
    questions=(Question(question="Which?"),),
    opened_at=2.0,
    expires_at=100.0,
)
APPROVAL = replace(QUESTION, id="ask-2", kind=AskKind.APPROVAL, call_id="c2", tool="exec", digest="d")
GRANTED = replace(APPROVAL, id="ask-3", call_id="c3")
STEP = StepRecord(run_id="run-1", step=1, last_seq=3, archive=0, head=make_part(b"head"))
NOTE = Note(kind=NoteKind.OBSERVATION, content="They talk.", first_seq=1, last_seq=2)
TRACE = TraceNote(run_id="run-1", at=3.0, kind=TraceKind.TOOL_CALL, agent="ada", payload="{}")
# Its runs are all in one conversation, and one of them has not ended.
JOB = CronJob(
    id="cron-1",
    owner=KEY,
    name="news",
    agent="ada",
    prompt="What is new?",
    schedule=Schedule(kind=ScheduleKind.CRON, text="0 * * * *"),
    conversation_mode=JobIsolation.MAIN,
    next_at=100.0,
)
LATER_JOB = replace(JOB, next_at=200.0)
WORKFLOW = WorkflowRun(id="wf-1", name="demo", source="name: demo", owner="user", created_at=1.0, origin=KEY)
ATTEMPT = StepAttempt(step="a", attempt=1, run_id="arun-7")


def spawned(run_id: str) -> Run:
    """A run that run-1 spawns."""
    child = RunRequest(
        id=run_id,
        key=ConversationKey("operator", f"run:{run_id}"),
        speaker="operator",
        content="do",
        root=KEY,
        root_id="run-1",
        parent_id="run-1",
    )
    spawn = Spawn(parent_call=f"call-{run_id}", chain=("ada",))
    return Run(request=child, status=RunStatus.QUEUED, created_at=2.0, spawn=spawn)


async def fire(storage: Storage, job: CronJob, number: int) -> Firing | None:
    assert job.next_at is not None
    run = make_job_run(job, run_id=f"arun-{number}", due_at=job.next_at, now=job.next_at)
    firing = Firing(job_id=job.id, due_at=job.next_at, fired_at=job.next_at)
    return await storage.cron.fire(job, firing, run, next_at=job.next_at + 100)


async def work(storage: Storage) -> None:
    """All that a daemon may be in the middle of."""
    await turn(storage.store, 1, "one")
    await storage.store.begin(request(), now=2.0)
    await storage.store.enqueue(request("run-2"), now=2.0)
    await storage.store.enqueue(request("run-3", key=QUEUED), now=2.0)
    await storage.store.spawn(spawned("arun-1"))
    await storage.cron.save(JOB)
    await fire(storage, JOB, 3)
    await storage.store.unqueue("arun-3", DONE, now=150.0)
    await storage.workflows.create(WORKFLOW, [])
    for ask in (QUESTION, APPROVAL, GRANTED):
        await storage.asks.open(ask)
    await storage.asks.decide(GRANTED.id, attempt=1, decision=Decision.ONCE, by="user", now=2.0)


@asynccontextmanager
async def two_handles(disk: Disk) -> AsyncIterator[tuple[Storage, Storage]]:
    """The handle of a daemon that is paused in the middle of its work, and that of the next, which has taken over."""
    first = await disk.open()
    try:
        await work(first)
        second = await disk.open()
        try:
            assert {left.run.id for left in await second.store.recover()} == {"run-1", "run-2", "run-3", "arun-1"}
            assert [run.id for run in await second.workflows.recover()] == ["wf-1"]
            # It has done something in the conversation of the job as well.
            await second.store.set_title(make_job_run(JOB, run_id="", due_at=1.0, now=1.0).key, "theirs")
            yield first, second
            assert await second.store.check() == []
        finally:
            await second.store.close()
    finally:
        await first.store.close()


async def snapshot(storage: Storage) -> object:
    """All that a write of a conversation or a run could change."""
    store = storage.store
    found = await store.list_conversations(teammates=True)
    asks = [await storage.asks.find(ask.id) for ask in (QUESTION, APPROVAL, GRANTED)]
    return (
        found,
        asks,
        [(await store.list_entries(each.key), await store.list_runs(each.key)) for each in found],
        [await store.list_archives(each.key) for each in found],
        [await storage.notes.list_all(KEY, kind, limit=9) for kind in NoteKind],
        await storage.outputs.get(KEY, "out-1", since=0.0),
        await storage.steps.list_numbers("run-1"),
        (await storage.traces.find("run-1")).notes,
        (await storage.traces.find("run-1")).attempts,
        (await storage.cron.list_jobs(), await storage.cron.list_firings(SenderSet(is_everyone=True), limit=9)),
        (await storage.workflows.get("wf-1"), await storage.workflows.list_attempts("wf-1")),
        [await storage.mail.list_unread(each.key) for each in found],
    )


Write = Callable[[Storage], Awaitable[object]]

# Every method that writes a conversation or a run, as a daemon calls it that does not know yet that it lost them.
WRITES: dict[str, Write] = {
    "store.append": lambda to: to.store.append(KEY, "run-1", [assistant("late")], now=3.0, delivers=["arun-9"]),
    "store.archive": lambda to: to.store.archive(KEY, archived(2)),
    "store.open_stretch": lambda to: to.store.open_stretch(KEY, closing=archived(3)),
    "store.begin": lambda to: to.store.begin(request("run-9"), now=3.0),
    "store.delete": lambda to: to.store.delete(KEY, now=1000.0),
    "store.end": lambda to: to.store.end(KEY, "run-1", DONE, [assistant("late")], now=3.0),
    "store.enqueue": lambda to: to.store.enqueue(request("run-9"), now=3.0),
    "store.rerun": lambda to: to.store.rerun(request("run-9", rerun_of="user-1"), now=3.0),
    "store.restore_conversation": lambda to: to.store.restore_conversation(
        Conversation(key=QUEUED), [(user("before"), 1.0)], []
    ),
    "store.set_project_files": lambda to: to.store.set_project_files(KEY, used=False, now=3.0),
    "store.set_cwd": lambda to: to.store.set_cwd(KEY, "/late", now=3.0),
    "store.set_mode": lambda to: to.store.set_mode(KEY, "free", now=3.0),
    "store.set_auto_approve": lambda to: to.store.set_auto_approve(KEY, "edits", now=3.0),
    "store.set_model": lambda to: to.store.set_model(KEY, "late", now=3.0),
    "store.set_title": lambda to: to.store.set_title(KEY, "late"),
    "store.detach_children": lambda to: to.store.detach_children("run-1"),
    "store.spawn": lambda to: to.store.spawn(spawned("arun-9")),
    "store.trust": lambda to: to.store.trust(KEY, last=2),
    "store.unqueue": lambda to: to.store.unqueue("run-2", DONE, now=3.0),
    "asks.open": lambda to: to.asks.open(replace(QUESTION, id="ask-9")),
    "asks.answer": lambda to: to.asks.answer(KEY, AskReply(content="this one", by="user"), now=3.0),
    "asks.decide": lambda to: to.asks.decide("ask-2", attempt=1, decision=Decision.ONCE, by="user", now=3.0),
    "asks.use": lambda to: to.asks.use(GRANTED, now=3.0),
    "asks.close": lambda to: to.asks.close("ask-1", AskState.CANCELLED, now=3.0),
    "cron.fire": lambda to: fire(to, LATER_JOB, 9),
    "workflows.start_attempt": lambda to: to.workflows.start_attempt("wf-1", ATTEMPT),
    "workflows.cancel": lambda to: to.workflows.cancel("wf-1", now=3.0),
    "workflows.end": lambda to: to.workflows.end("wf-1", WorkflowStatus.COMPLETED, now=3.0),
    "notes.add": lambda to: to.notes.add(KEY, NOTE, now=3.0),
    "outputs.keep": lambda to: to.outputs.keep(KEY, Output(ref="out-1", tool="exec", content="late"), most=9),
}
# The same of what is handed over without waiting: it is dropped, as it is where the disk refuses it.
DROPPED: dict[str, Callable[[Storage], None]] = {
    "steps.add": lambda to: to.steps.add(STEP),
    "traces.add": lambda to: to.traces.add(TRACE),
}
# What changes no conversation and no run.
READS = {
    "count_commits",
    *(
        f"store.{name}"
        for name in (
            "load",
            "list_stopped_turns",
            "list_conversations",
            "list_entries",
            "count_deletion",
            "find_run",
            "find_retried",
            "list_run_ids",
            "is_short_of_room",
        )
    ),
    *(
        f"store.{name}"
        for name in (
            "list_ended_runs",
            "list_live_runs",
            "find_auto_approve",
            "find_mode",
            "find_visit",
            "find_owner",
            "list_owed_runs",
            "list_still_owed",
            "list_runs",
        )
    ),
    *(
        f"store.{name}"
        for name in (
            "list_runs_of_root",
            "list_workers",
            "find_root_conversations",
            "get_run",
            "list_archives",
            "recall",
            "list_spend",
        )
    ),
    *(
        f"store.{name}"
        for name in ("list_teammate_spend", "load_budget", "find_token", "list_tokens", "backup", "check", "close")
    ),
    *(f"asks.{name}" for name in ("find", "find_held", "find_reply", "list_open", "list_unused_calls")),
    *("rules.load", "steps.find", "steps.list_numbers", "notes.list_all", "notes.state", "outputs.get"),
    *("traces.find", "traces.load_health", "traces.list_recent"),
    *(f"cron.{name}" for name in ("get", "find", "list_jobs", "find_next_due", "list_due", "find_last_fired")),
    *("cron.list_last_firings", "cron.list_firings"),
    *(f"workflows.{name}" for name in ("get", "list_runs", "list_attempts", "list_owed")),
    *(
        f"mail.list_{name}"
        for name in ("unread", "shown_by", "correlated", "wakes", "goals", "muted", "dead", "untold")
    ),
    *(f"mail.{name}" for name in ("count_unread", "find_targets", "find_goal_of", "find_dead", "find_dead_among")),
    *(f"outbox.{name}" for name in ("load_store_number", "load_position", "count_waiting")),
    *(f"outbox.list_{name}" for name in ("unpublished", "waiting", "failed")),
}
# What is claimed by these is no living daemon's; tests of their own are below.
CLAIMS = {"store.recover", "retention.expire", "workflows.recover"}
# What belongs to an agent and a sender, to the owner, or to the daemon, and not to a conversation or a run.
BESIDE = {
    *("store.set_visit", "store.add_spend"),
    *("store.add_token", "store.touch_token", "store.revoke_token", "rules.delete"),
    *("outputs.expire", "traces.acknowledge", "reserve_event_numbers"),
    # A job belongs to its owner; a run of it is queued by `fire` alone.
    *(f"cron.{name}" for name in ("save", "move", "pause", "resume", "remove")),
    # A new run of a workflow is nobody else's yet.
    "workflows.create",
    # Mail may come from any daemon. It is evicted where no run will read it, whoever has the conversation; see below.
    *(f"mail.{name}" for name in ("send", "evict", "resend", "expire_dead", "set_muted")),
    *(
        f"outbox.{name}"
        for name in ("add", "set_positions", "settle", "receive", "receive_checked", "expire", "resend")
    ),
}
BESIDE_PORTS = {
    *("daemons", "documents", "memories", "tasks", "graph", "mcp_decisions", "secrets", "keys"),
    *("knowledge", "learnings", "inquiries", "vocabularies"),
}


def test_every_method_of_the_storage_ports_is_known_to_write_a_conversation_or_not() -> None:
    """Whoever adds one says here what it is; one that writes is rejected like the others."""
    known = {*WRITES, *DROPPED, *READS, *CLAIMS, *BESIDE}
    found = set()
    for name, port in get_type_hints(Storage).items():
        methods = [method for method in dir(port) if not method.startswith("_")]
        found |= {f"{name}.{method}" for method in methods} if methods else {name}
    assert {each for each in found if each.partition(".")[0] not in BESIDE_PORTS} == known


@pytest.mark.parametrize("name", WRITES)
def test_what_was_taken_over_cannot_be_written_and_nothing_changes(
    tmp_path: Path, storage_kind: str, name: str
) -> None:
    async def scenario(disk: Disk) -> None:
        async with two_handles(disk) as (first, second):
            before = await snapshot(second)
            with pytest.raises(Fenced, match="another daemon has taken over"):
                await WRITES[name](first)
            assert await snapshot(second) == before
            # The one that has taken over goes on.
            await WRITES[name](second)

    with_disk(scenario)(tmp_path, storage_kind)


@pytest.mark.parametrize("name", DROPPED)
def test_what_nobody_waits_for_is_dropped_once_its_run_was_taken_over(
    tmp_path: Path, storage_kind: str, name: str
) -> None:
    async def scenario(disk: Disk) -> None:
        async with two_handles(disk) as (first, second):
            before = await snapshot(second)
            DROPPED[name](first)
            # Whatever is handed over later is written later.
            await first.reserve_event_numbers(1)
            assert await snapshot(second) == before
            DROPPED[name](second)
            await second.reserve_event_numbers(1)
            assert await snapshot(second) != before

    with_disk(scenario)(tmp_path, storage_kind)


@pytest.mark.parametrize("name", DROPPED)
def test_what_nobody_waits_for_is_dropped_also_where_the_next_daemon_has_ended_its_run(
    tmp_path: Path, storage_kind: str, name: str
) -> None:
    async def scenario(disk: Disk) -> None:
        async with two_handles(disk) as (first, second):
            await second.store.end(KEY, "run-1", DONE, [], now=4.0)
            before = await snapshot(second)
            DROPPED[name](first)
            await first.reserve_event_numbers(1)
            assert await snapshot(second) == before
            # A run that has ended can still get notes.
            DROPPED[name](second)
            await second.reserve_event_numbers(1)
            assert await snapshot(second) != before

    with_disk(scenario)(tmp_path, storage_kind)


def test_mail_for_a_run_that_was_taken_over_is_not_evicted_by_the_daemon_that_lost_it(
    tmp_path: Path, storage_kind: str
) -> None:
    async def scenario(disk: Disk) -> None:
        async with two_handles(disk) as (first, second):
            key = spawned("arun-1").key
            goal = await second.mail.find_goal_of(key)
            assert goal is not None
            mail = Mail(
                id="mail-1", goal_id=goal.id, from_agent="bob", from_goal="", to_agent="ada", body="x", sent_at=3.0
            )
            await second.mail.send([mail], now=3.0)
            assert await first.mail.evict(key, now=4.0) == []
            assert [each.id for each in await second.mail.list_unread(key)] == ["mail-1"]
            await second.store.unqueue("arun-1", DONE, now=5.0)
            assert [each.id for each in await second.mail.evict(key, now=5.0)] == ["mail-1"]

    with_disk(scenario)(tmp_path, storage_kind)


@pytest.mark.parametrize("name", ["append", "end", "archive", "open_stretch", "begin", "rerun"])
def test_a_write_names_its_epoch_and_is_rejected_though_its_node_has_the_conversation_again(
    tmp_path: Path, storage_kind: str, name: str
) -> None:
    """It was lost and claimed again: what is still at work from before works on a history that is not current."""
    late: dict[str, Callable[[Store, int], Awaitable[object]]] = {
        "append": lambda store, epoch: store.append(KEY, "run-1", [assistant("late")], now=3.0, epoch=epoch),
        "end": lambda store, epoch: store.end(KEY, "run-1", DONE, [assistant("late")], now=3.0, epoch=epoch),
        "archive": lambda store, epoch: store.archive(KEY, archived(2), epoch=epoch),
        "open_stretch": lambda store, epoch: store.open_stretch(KEY, closing=archived(3), epoch=epoch),
        "begin": lambda store, epoch: store.begin(request("run-9"), now=3.0, epoch=epoch),
        "rerun": lambda store, epoch: store.rerun(request("run-9", rerun_of="user-1"), now=3.0, epoch=epoch),
    }

    async def scenario(disk: Disk) -> None:
        store = (await disk.open()).store
        await turn(store, 1, "one")
        await store.begin(request(), now=2.0)
        loaded = await store.load(KEY)
        assert loaded is not None
        disk.advance_epochs(2)
        with pytest.raises(Fenced):
            await late[name](store, loaded.epoch)
        assert await contents(store) == [(1, "question 1"), (2, "one"), (3, "hi")]
        await late[name](store, loaded.epoch + 2)
        await store.close()

    with_disk(scenario)(tmp_path, storage_kind)


def test_a_history_is_not_continued_in_a_conversation_that_was_deleted_meanwhile(
    tmp_path: Path, storage_kind: str
) -> None:
    """Its messages would have other numbers there than those who were told of them know."""

    async def scenario(disk: Disk) -> None:
        first = await disk.open()
        await turn(first.store, 1, "one")
        second = await disk.open()
        await second.store.delete(KEY, now=2.0)
        # Also if it is alive by now.
        for is_revived in (False, True):
            if is_revived:
                disk.resend(first)
            with pytest.raises(Fenced):
                await first.store.begin(request("run-9"), now=3.0, epoch=1)
        assert await second.store.load(KEY) is None
        # Without a history, it is the first message of a new conversation.
        assert (await first.store.begin(request("run-9"), now=3.0)).created
        await first.store.close()
        await second.store.close()

    with_disk(scenario)(tmp_path, storage_kind)


@pytest.mark.parametrize("name", ["store.begin", "store.enqueue", "store.set_cwd", "store.restore_conversation"])
def test_a_daemon_that_was_replaced_creates_no_conversation(tmp_path: Path, storage_kind: str, name: str) -> None:
    """It may remember one of the same name, which the one that replaced it has deleted."""

    async def scenario(disk: Disk) -> None:
        first, second = await disk.open(), await disk.open()
        with pytest.raises(Fenced, match="another daemon has taken over"):
            await WRITES[name](first)
        assert await second.store.list_conversations() == []
        await WRITES[name](second)
        assert len(await second.store.list_conversations()) == 1
        for storage in (first, second):
            await storage.store.close()

    with_disk(scenario)(tmp_path, storage_kind)


def test_loading_tells_the_epoch_that_the_first_write_claims(tmp_path: Path, storage_kind: str) -> None:
    async def scenario(disk: Disk) -> None:
        first = (await disk.open()).store
        begun = await first.begin(request(), now=1.0)
        await first.end(KEY, "run-1", DONE, [assistant("hello")], now=1.0, epoch=begun.epoch)
        assert await epoch_of(first) == begun.epoch
        second = (await disk.open()).store
        # To look at it claims nothing: its owner, who may not know yet, can still write it.
        assert await epoch_of(second) == begun.epoch + 1
        await first.set_title(KEY, "still mine")
        again = await second.begin(request("run-2"), now=2.0, epoch=begun.epoch + 1)
        assert again.epoch == begun.epoch + 1 == await epoch_of(second)
        with pytest.raises(Fenced):
            await first.set_title(KEY, "not mine")
        await second.end(KEY, "run-2", DONE, [assistant("hello")], now=3.0, epoch=again.epoch)
        await first.close()
        await second.close()

    with_disk(scenario)(tmp_path, storage_kind)


async def epoch_of(store: Store) -> int:
    loaded = await store.load(KEY)
    assert loaded is not None
    return loaded.epoch


async def three_nodes(disk: Disk) -> tuple[Storage, Storage, Storage]:
    """Handles of a daemon that is dead, of one that is alive, and of a third that starts now."""
    dead = await disk.open()
    await dead.store.begin(request("run-2", key=OTHER), now=1.0)
    living = await disk.open()
    await living.store.begin(request(), now=1.0)
    third = await disk.open()
    disk.resend(living)
    return dead, living, third


def test_recovery_leaves_the_runs_of_a_living_node_alone(tmp_path: Path, storage_kind: str) -> None:
    async def scenario(disk: Disk) -> None:
        dead, living, third = await three_nodes(disk)
        assert [left.run.id for left in await third.store.recover()] == ["run-2"]
        # What it works on itself by now is not left by anybody.
        assert await third.store.recover() == []
        for write in ("store.begin", "store.end"):
            with pytest.raises(Fenced):
                await WRITES[write](third)
        await living.store.end(KEY, "run-1", DONE, [assistant("hello")], now=2.0)
        await third.store.end(OTHER, "run-2", DONE, [assistant("hello")], now=2.0)
        assert await third.store.check() == []
        for storage in (dead, living, third):
            await storage.store.close()

    with_disk(scenario)(tmp_path, storage_kind)


def test_live_runs_and_open_asks_of_all_nodes_are_listed_with_their_owners(tmp_path: Path, storage_kind: str) -> None:
    async def scenario(disk: Disk) -> None:
        dead, living, third = await three_nodes(disk)
        for key, ask in ((KEY, QUESTION), (OTHER, replace(APPROVAL, key=OTHER, run_id="run-2"))):
            await (living if key == KEY else dead).asks.open(ask)
        locations = {owned.run.id: owned.location for owned in await third.store.list_live_runs()}
        assert locations == {"run-1": Location.ELSEWHERE, "run-2": Location.NOWHERE}
        assert [ask.id for ask in await third.asks.list_open()] == [QUESTION.id, APPROVAL.id]
        assert await third.asks.list_open(here=True) == []

        await third.store.recover()
        owner = await third.store.find_owner(KEY)
        assert owner is not None
        assert await third.store.find_owner(OTHER) == Owner(owner.node + 1, Location.HERE)
        assert await third.store.find_owner(QUEUED) is None
        assert await living.store.find_owner(KEY) == Owner(owner.node, Location.HERE)
        assert [ask.id for ask in await third.asks.list_open(here=True)] == [APPROVAL.id]
        assert await third.asks.find_held(APPROVAL.id) is not None
        for write in (
            third.asks.find_held(QUESTION.id),
            third.asks.answer(KEY, AskReply(content="late", by="user"), now=3.0),
        ):
            with pytest.raises(Fenced, match=f"another daemon has taken over .*: node {owner.node}$"):
                await write

        await third.store.end(OTHER, "run-2", DONE, [], now=3.0)
        assert [owned.run.id for owned in await third.store.list_live_runs()] == ["run-1"]
        for storage in (dead, living, third):
            await storage.store.close()

    with_disk(scenario)(tmp_path, storage_kind)


def test_an_end_is_not_told_as_recorded_where_another_daemon_has_ended_the_run(
    tmp_path: Path, storage_kind: str
) -> None:
    async def scenario(disk: Disk) -> None:
        async with two_handles(disk) as (first, second):
            epoch = await epoch_of(second.store)
            await second.store.end(KEY, "run-1", replace(DONE, outcome=Outcome.INTERRUPTED), [], now=3.0)
            for late in (epoch - 1, 0):
                with pytest.raises(Fenced):
                    await first.store.end(KEY, "run-1", DONE, [], now=4.0, epoch=late)
            # Whoever has ended it may do so again, which changes nothing.
            assert await second.store.end(KEY, "run-1", DONE, [], now=5.0, epoch=epoch) == []

    with_disk(scenario)(tmp_path, storage_kind)


def test_a_message_is_not_told_as_withdrawn_where_another_daemon_has_answered_it(
    tmp_path: Path, storage_kind: str
) -> None:
    async def scenario(disk: Disk) -> None:
        async with two_handles(disk) as (first, second):
            await second.store.end(KEY, "run-1", replace(DONE, outcome=Outcome.INTERRUPTED), [], now=3.0)
            await second.store.begin(request("run-2"), now=3.0)
            await second.store.end(KEY, "run-2", DONE, [assistant("hello")], now=3.0)
            with pytest.raises(Fenced, match="another daemon has taken over"):
                await first.store.unqueue("run-2", replace(DONE, outcome=Outcome.CANCELLED), now=4.0)
            # To the one that has ended it, it changes nothing.
            await second.store.unqueue("run-2", replace(DONE, outcome=Outcome.CANCELLED), now=5.0)
            answered = await second.store.get_run("run-2")
            assert answered is not None
            assert answered.end is not None
            assert answered.end.outcome is Outcome.COMPLETED

    with_disk(scenario)(tmp_path, storage_kind)


def test_results_that_are_owed_to_the_runs_of_a_living_node_are_delivered_by_that_one(
    tmp_path: Path, storage_kind: str
) -> None:
    async def scenario(disk: Disk) -> None:
        dead, living, third = await three_nodes(disk)
        child = spawned("arun-1")
        await living.store.spawn(child)
        await living.store.unqueue(child.id, DONE, now=2.0)
        report = request("run-9", key=OTHER, author="operator", delivers=(child.id,))
        assert await third.store.list_owed_runs() == []
        assert await third.store.list_still_owed([child.id]) == []
        with pytest.raises(Conflict, match="another daemon"):
            await third.store.begin(report, now=3.0)
        for storage in (living, third):
            if storage is third:
                disk.bury(living)
            assert [run.id for run in await storage.store.list_owed_runs()] == [child.id]
            assert [run.id for run in await storage.store.list_still_owed([child.id])] == [child.id]
        await third.store.begin(report, now=3.0)
        assert await third.store.list_owed_runs() == []
        for storage in (dead, living, third):
            await storage.store.close()

    with_disk(scenario)(tmp_path, storage_kind)


def test_what_a_living_node_imports_is_not_removed_by_one_that_starts(tmp_path: Path) -> None:
    """A conversation that is being imported stands in SQLite unseen; recovery removes what was left so by the dead."""

    async def scenario() -> None:
        disk = SqliteDisk(tmp_path)
        dead, living, third = await three_nodes(disk)
        for number, storage in enumerate((dead, living)):
            assert isinstance(storage.store, SqliteStore)
            disk.change(
                "INSERT INTO conversations (agent, sender, created_at, updated_at, node) VALUES ('', ?, 1.0, 1.0, ?)",
                f"token-{number}",
                storage.store.node,
            )
        await third.store.recover()
        with apsw.Connection(str(disk.path)) as db:
            assert list(db.execute("SELECT sender FROM conversations WHERE agent = ''")) == [("token-1",)]
        for storage in (dead, living, third):
            await storage.store.close()

    asyncio.run(scenario())


def test_a_write_of_nothing_tells_whether_a_run_was_taken_over(tmp_path: Path, storage_kind: str) -> None:
    """A resumed run asks so before it repeats its open calls."""

    async def scenario(disk: Disk) -> None:
        async with two_handles(disk) as (first, second):
            assert await second.store.append(KEY, "run-1", [], now=3.0) == []
            before = await snapshot(second)
            with pytest.raises(Fenced, match="another daemon has taken over"):
                await first.store.append(KEY, "run-1", [], now=3.0)
            assert await snapshot(second) == before

    with_disk(scenario)(tmp_path, storage_kind)
