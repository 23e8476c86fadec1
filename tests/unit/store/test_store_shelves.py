"""Notes, tasks, outputs and learnings on disk: whose they are, how long they stay, what they carry."""

from functools import partial

import apsw
import pytest
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.learning import CallRecord, Knowledge, Lesson, failure, result_key
from moot.domain.note import Note, NoteKind
from moot.domain.output import Output
from moot.domain.task import MOST_TASKS, Task, TaskChange, TaskStatus
from moot.store.learnings import SqliteLearnings
from moot.store.notes import MOST_KEPT, SqliteNotes
from moot.store.outputs import SqliteOutputs
from moot.store.sqlite import SqliteStore
from moot.store.tasks import SqliteTasks
from tests.unit.shelves import ADA, ADA_WITH_EVE, BOB, stored, talk

WEB = frozenset({"web"})


def observation(content: str, **fields: object) -> Note:
    return Note(kind=NoteKind.OBSERVATION, content=content, first_seq=0, last_seq=0, **fields)  # type: ignore[arg-type]


@stored
async def test_a_note_is_about_what_was_not_noted_before(store: SqliteStore) -> None:
    notes = SqliteNotes(store)
    await talk(store, turns=2)
    first = await notes.add(ADA, observation("one", taint=WEB), now=5.0)
    await talk(store, turns=1)
    second = await notes.add(ADA, observation("two"), now=6.0)
    assert [(note.first_seq, note.last_seq) for note in (first, second)] == [(1, 4), (5, 6)]
    assert await notes.list_all(ADA, NoteKind.OBSERVATION, limit=5) == [first, second]
    assert await notes.list_all(ADA, NoteKind.OBSERVATION, limit=1) == [second]
    assert first.taint == WEB


@stored
async def test_observations_are_open_until_a_reflection(store: SqliteStore) -> None:
    notes = SqliteNotes(store)
    await talk(store)
    one = await notes.add(ADA, observation("one"), now=1.0)
    state = await notes.state(ADA)
    assert (state.open, state.last_seq, state.noted_seq) == ((one,), 2, 2)
    await notes.add(ADA, Note(kind=NoteKind.REFLECTION, content="r", first_seq=1, last_seq=2), now=2.0)
    assert (await notes.state(ADA)).open == ()
    late = await notes.add(ADA, observation("late"), now=3.0)
    assert (await notes.state(ADA)).open == (late,)


@stored
async def test_notes_of_another_conversation_are_not_there(store: SqliteStore) -> None:
    notes = SqliteNotes(store)
    await talk(store)
    await talk(store, ADA_WITH_EVE)
    await notes.add(ADA, observation("ours"), now=1.0)
    assert await notes.list_all(ADA_WITH_EVE, NoteKind.OBSERVATION, limit=5) == []
    assert (await notes.state(ADA_WITH_EVE)).open == ()
    assert await notes.list_all(BOB, NoteKind.OBSERVATION, limit=5) == []
    assert (await notes.state(BOB)).last_seq == 0


@stored
async def test_the_oldest_notes_go_and_all_of_them_with_their_conversation(store: SqliteStore) -> None:
    notes = SqliteNotes(store)
    await talk(store)
    for number in range(MOST_KEPT + 3):
        await notes.add(ADA, observation(f"{number}"), now=float(number))
    kept = await notes.list_all(ADA, NoteKind.OBSERVATION, limit=MOST_KEPT * 2)
    assert (len(kept), kept[0].content) == (MOST_KEPT, "3")
    await store.delete(ADA)
    assert await store.read(lambda db: db.execute("SELECT count(*) FROM notes").get) == 0


def task(number: int, **fields: object) -> Task:
    return Task(id=f"task-{number}", title=f"t{number}", created_at=float(number), **fields)  # type: ignore[arg-type]


@stored
async def test_tasks_are_listed_as_created_and_filtered(store: SqliteStore) -> None:
    tasks = SqliteTasks(store)
    for made in (task(2), task(1), task(3, parent_id="task-1", status=TaskStatus.DONE)):
        await tasks.create(ADA, made)
    assert [each.id for each in await tasks.list_all(ADA)] == ["task-1", "task-2", "task-3"]
    assert [each.id for each in await tasks.list_all(ADA, status=TaskStatus.DONE)] == ["task-3"]
    assert [each.id for each in await tasks.list_all(ADA, parent_id="task-1")] == ["task-3"]


@stored
async def test_an_update_changes_what_it_names_and_keeps_the_strangers(store: SqliteStore) -> None:
    tasks = SqliteTasks(store)
    await tasks.create(ADA, task(1, description="old", taint=WEB))
    change = TaskChange(status=TaskStatus.IN_PROGRESS, agent_id="ada", taint=frozenset({"mcp"}))
    updated = await tasks.update(ADA, "task-1", change, now=9.0)
    assert updated is not None
    assert updated == await tasks.get(ADA, "task-1")
    assert (updated.status, updated.description, updated.agent_id, updated.updated_at) == (
        "in_progress",
        "old",
        "ada",
        9.0,
    )
    assert updated.taint == {"web", "mcp"}


@stored
async def test_a_task_of_another_owner_does_not_exist(store: SqliteStore) -> None:
    tasks = SqliteTasks(store)
    await tasks.create(ADA, task(1))
    for other in (ADA_WITH_EVE, BOB):
        assert await tasks.get(other, "task-1") is None
        assert await tasks.list_all(other) == []
        assert await tasks.update(other, "task-1", TaskChange(status=TaskStatus.DONE), now=1.0) is None
        with pytest.raises(NotFound):
            await tasks.create(other, task(2, parent_id="task-1"))
    untouched = await tasks.get(ADA, "task-1")
    assert untouched is not None
    assert untouched.status is TaskStatus.TODO


@stored
async def test_an_owner_has_a_bounded_number_of_tasks(store: SqliteStore) -> None:
    tasks = SqliteTasks(store)
    row = "INSERT INTO tasks VALUES (?, 'ada', 'user', 't', '', 'todo', '', '', '', 1, 1)"
    await store.write(lambda db: db.executemany(row, [(f"x{number}",) for number in range(MOST_TASKS)]) and None)
    with pytest.raises(BadRequest, match=str(MOST_TASKS)):
        await tasks.create(ADA, task(1))
    await tasks.create(BOB, task(1))


def output(ref: str, *, at: float = 0.0, content: str = "long") -> Output:
    return Output(ref=ref, tool="exec", content=content, taint=WEB, created_at=at)


@stored
async def test_an_output_is_read_where_it_was_kept_and_nowhere_else(store: SqliteStore) -> None:
    outputs = SqliteOutputs(store)
    await talk(store)
    await talk(store, ADA_WITH_EVE)
    await outputs.keep(ADA, output("out-1"), most=9)
    assert await outputs.get(ADA, "out-1", since=0.0) == output("out-1")
    assert await outputs.get(ADA_WITH_EVE, "out-1", since=-10.0) is None
    assert await outputs.get(BOB, "out-1", since=-10.0) is None
    assert await outputs.get(ADA, "out-1", since=0.5) is None


@stored
async def test_outputs_expire_and_the_oldest_make_room(store: SqliteStore) -> None:
    outputs = SqliteOutputs(store)
    await talk(store)
    for number in range(3):
        await outputs.keep(ADA, output(f"out-{number}", at=float(number)), most=2)
    assert await outputs.get(ADA, "out-0", since=-7.0) is None
    assert await outputs.get(ADA, "out-2", since=-7.0) is not None
    assert await outputs.expire(before=1.5) == 1
    assert await store.read(lambda db: [row[0] for row in db.execute("SELECT ref FROM outputs")]) == ["out-2"]


def record(*, ok: bool = True, at: float = 1.0) -> CallRecord:
    return CallRecord(
        agent="ada", sender="user", run_id="r", call_id="c", tool="fs_read", ok=ok, seconds=0.5, at=at
    )  # fmt: skip


@stored
async def test_failures_alike_are_one_learning_that_grows_surer_when_overcome(store: SqliteStore) -> None:
    learnings = SqliteLearnings(store)
    await talk(store)
    first = failure("fs_read", "file not found: /home/ann/a.txt")
    again = failure("fs_read", "file not found: /srv/b.txt", WEB)
    await learnings.learn([Lesson(record=record(ok=False), failure=first)])
    await learnings.learn([Lesson(record=record(ok=False, at=2.0), failure=again)])
    await learnings.learn([Lesson(record=record(at=3.0), overcome=(first.pattern, "never seen"))])
    rows = await store.read(
        lambda db: db.execute(
            "SELECT trigger, error_pattern, occurrences, round(confidence, 3), taint, category, updated_at"
            " FROM learnings"
        ).fetchall()
    )
    assert rows == [("tool:fs_read", "file not found: <path>", 2, 0.55, "web", "not_found", 3.0)]
    audit = await store.read(lambda db: db.execute("SELECT ok, seconds, at FROM tool_audit").fetchall())
    assert audit == [(0, 0.5, 1.0), (0, 0.5, 2.0), (1, 0.5, 3.0)]


@stored
async def test_knowledge_gets_a_version_when_it_changes_and_old_ones_go(store: SqliteStore) -> None:
    learnings = SqliteLearnings(store)

    async def know(content: str, taint: frozenset[str] = frozenset()) -> None:
        item = Knowledge(key="k", category="fact", content=content, tags=("a",), taint=taint, created_at=1.0)
        await learnings.know([item], versions=2)

    for content in ("a", "a", "b"):
        await know(content)
    await know("b", WEB)
    rows = await store.read(lambda db: db.execute("SELECT version, content, taint, tags FROM knowledge").fetchall())
    assert rows == [(2, "b", "", '["a"]'), (3, "b", "web", '["a"]')]


@stored
async def test_nothing_is_learnt_late_from_a_conversation_that_was_deleted(store: SqliteStore) -> None:
    learnings = SqliteLearnings(store)
    await talk(store)
    await store.delete(ADA)
    item = Knowledge(key=result_key("ada", "user", "fs_read"), category="fact", content="words", owner=ADA)
    await learnings.learn([Lesson(record=record(ok=False), failure=failure("fs_read", "not found"))])
    await learnings.know([item], versions=2)
    for table in ("tool_audit", "learnings", "knowledge"):
        assert await store.read(partial(_count, table)) == 0


@stored
async def test_what_was_learnt_in_one_conversation_stays_when_another_is_deleted(store: SqliteStore) -> None:
    """A sender with a colon in it, or one that begins alike, is somebody else."""
    learnings = SqliteLearnings(store)
    keys = [ADA, ConversationKey("ada", "user:x"), ConversationKey("ada", "use"), ConversationKey("ad", "a:user")]
    for key in keys:
        await talk(store, key)
        named = result_key(key.agent, key.sender, "fs_read")
        await learnings.know([Knowledge(key=named, category="fact", content=str(key), owner=key)], versions=2)
        taught = failure("fs_read", f"it went wrong for {'abcdefgh'[keys.index(key)] * 5}")
        call = replace(record(ok=False), agent=key.agent, sender=key.sender, run_id=f"{key.agent}-{key.sender}-0")
        await learnings.learn([Lesson(record=call, failure=taught)])
    doomed = await store.delete(ADA)
    assert doomed.lessons == 2
    left = await store.read(lambda db: {row[0] for row in db.execute("SELECT content FROM knowledge")})
    assert left == {str(key) for key in keys[1:]}
    patterns = await store.read(lambda db: [row[0] for row in db.execute("SELECT error_pattern FROM learnings")])
    assert len(patterns) == 3
    assert not any("aaaaa" in pattern for pattern in patterns)


@stored
async def test_a_note_on_a_conversation_that_was_deleted_is_not_put_into_the_next(store: SqliteStore) -> None:
    notes = SqliteNotes(store)
    await talk(store, turns=3)
    await store.delete(ADA)
    await talk(store)
    late = Note(kind=NoteKind.OBSERVATION, content="late", first_seq=1, last_seq=6)
    with pytest.raises(NotFound):
        await notes.add(ADA, late, now=1.0)
    assert await notes.list_all(ADA, NoteKind.OBSERVATION, limit=5) == []


def _count(table: str, db: apsw.Connection) -> object:
    return db.execute(f"SELECT count(*) FROM {table}").get
