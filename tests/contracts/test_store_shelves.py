"""What every implementation promises of notes, tasks, outputs, pins, secrets and keys."""

import asyncio

import pytest
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.mcp import TextDecision
from moot.domain.note import Note, NoteKind
from moot.domain.output import Output
from moot.domain.ports.storage import Storage
from moot.domain.secret import Holder, KeyInfo, SealedKey, SealedSecret, SecretInfo, SecretScope, SecretUse
from moot.domain.task import MOST_TASKS, Task, TaskChange, TaskStatus
from moot.domain.token import Token
from moot.store.notes import MOST_KEPT
from tests.contracts.store_kit import with_storage
from tests.unit.shelves import ADA, ADA_WITH_EVE, BOB, talk

WEB = frozenset({"web"})


def observation(content: str, **fields: object) -> Note:
    return Note(kind=NoteKind.OBSERVATION, content=content, first_seq=0, last_seq=0, **fields)  # type: ignore[arg-type]


@with_storage
async def test_a_note_is_about_what_was_not_noted_before(storage: Storage) -> None:
    notes = storage.notes
    await talk(storage.store, turns=2)
    first = await notes.add(ADA, observation("one", taint=WEB), now=5.0)
    await talk(storage.store, turns=1)
    second = await notes.add(ADA, observation("two"), now=6.0)
    assert [(note.first_seq, note.last_seq) for note in (first, second)] == [(1, 4), (5, 6)]
    assert await notes.list_all(ADA, NoteKind.OBSERVATION, limit=5) == [first, second]
    assert await notes.list_all(ADA, NoteKind.OBSERVATION, limit=1) == [second]
    assert first.taint == WEB


@with_storage
async def test_observations_are_open_until_a_reflection(storage: Storage) -> None:
    notes = storage.notes
    await talk(storage.store)
    one = await notes.add(ADA, observation("one"), now=1.0)
    state = await notes.state(ADA)
    assert (state.open, state.last_seq, state.noted_seq) == ((one,), 2, 2)
    await notes.add(ADA, Note(kind=NoteKind.REFLECTION, content="r", first_seq=1, last_seq=2), now=2.0)
    assert (await notes.state(ADA)).open == ()
    late = await notes.add(ADA, observation("late"), now=3.0)
    assert (await notes.state(ADA)).open == (late,)


@with_storage
async def test_notes_of_another_conversation_are_not_there(storage: Storage) -> None:
    notes = storage.notes
    await talk(storage.store)
    await talk(storage.store, ADA_WITH_EVE)
    await notes.add(ADA, observation("ours"), now=1.0)
    assert await notes.list_all(ADA_WITH_EVE, NoteKind.OBSERVATION, limit=5) == []
    assert (await notes.state(ADA_WITH_EVE)).open == ()
    assert await notes.list_all(BOB, NoteKind.OBSERVATION, limit=5) == []
    assert (await notes.state(BOB)).last_seq == 0


@with_storage
async def test_the_oldest_notes_go_and_all_of_them_with_their_conversation(storage: Storage) -> None:
    notes = storage.notes
    await talk(storage.store)
    for number in range(MOST_KEPT + 3):
        await notes.add(ADA, observation(f"{number}"), now=float(number))
    kept = await notes.list_all(ADA, NoteKind.OBSERVATION, limit=MOST_KEPT * 2)
    assert (len(kept), kept[0].content) == (MOST_KEPT, "3")
    await storage.store.delete(ADA, now=1000.0)
    assert await notes.list_all(ADA, NoteKind.OBSERVATION, limit=5) == []


def task(number: int, **fields: object) -> Task:
    return Task(id=f"task-{number}", title=f"t{number}", created_at=float(number), **fields)  # type: ignore[arg-type]


@with_storage
async def test_tasks_are_listed_as_created_and_filtered(storage: Storage) -> None:
    tasks = storage.tasks
    for made in (task(2), task(1), task(3, parent_id="task-1", status=TaskStatus.DONE)):
        await tasks.create(ADA, made)
    assert [each.id for each in await tasks.list_all(ADA)] == ["task-1", "task-2", "task-3"]
    assert [each.id for each in await tasks.list_all(ADA, status=TaskStatus.DONE)] == ["task-3"]
    assert [each.id for each in await tasks.list_all(ADA, parent_id="task-1")] == ["task-3"]


@with_storage
async def test_an_update_changes_what_it_names_and_keeps_the_strangers(storage: Storage) -> None:
    tasks = storage.tasks
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


@with_storage
async def test_a_task_of_another_owner_does_not_exist(storage: Storage) -> None:
    tasks = storage.tasks
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


@with_storage
async def test_the_tasks_of_all_owners_are_listed_as_created(storage: Storage) -> None:
    for at, owner in enumerate((BOB, ADA, ADA_WITH_EVE)):
        await storage.tasks.create(owner, Task(id=f"task-{at}", title="x", created_at=float(at), updated_at=float(at)))
    found = await storage.tasks.list_everywhere()
    assert [(owner, task.id) for owner, task in found] == [(BOB, "task-0"), (ADA, "task-1"), (ADA_WITH_EVE, "task-2")]
    assert [task.id for _, task in await storage.tasks.list_everywhere(agent=BOB.agent)] == ["task-0"]
    assert [task.id for _, task in await storage.tasks.list_everywhere(sender=ADA_WITH_EVE.sender)] == ["task-2"]


@with_storage
async def test_an_owner_has_a_bounded_number_of_tasks(storage: Storage) -> None:
    tasks = storage.tasks
    made = (Task(id=f"x{number}", title="t") for number in range(MOST_TASKS))
    await asyncio.gather(*(tasks.create(ADA, each) for each in made))
    with pytest.raises(BadRequest, match=str(MOST_TASKS)):
        await tasks.create(ADA, task(1))
    await tasks.create(BOB, task(1))


def output(ref: str, *, at: float = 0.0, content: str = "long") -> Output:
    return Output(ref=ref, tool="exec", content=content, taint=WEB, created_at=at)


@with_storage
async def test_an_output_is_read_where_it_was_kept_and_nowhere_else(storage: Storage) -> None:
    outputs = storage.outputs
    await talk(storage.store)
    await talk(storage.store, ADA_WITH_EVE)
    await outputs.keep(ADA, output("out-1"), most=9)
    assert await outputs.get(ADA, "out-1", since=0.0) == output("out-1")
    assert await outputs.get(ADA_WITH_EVE, "out-1", since=-10.0) is None
    assert await outputs.get(BOB, "out-1", since=-10.0) is None
    assert await outputs.get(ADA, "out-1", since=0.5) is None


@with_storage
async def test_outputs_expire_and_the_oldest_make_room(storage: Storage) -> None:
    outputs = storage.outputs
    await talk(storage.store)
    for number in range(3):
        await outputs.keep(ADA, output(f"out-{number}", at=float(number)), most=2)
    assert await outputs.get(ADA, "out-0", since=-7.0) is None
    assert await outputs.get(ADA, "out-2", since=-7.0) is not None
    assert await outputs.expire(before=1.5) == 1
    assert [await outputs.get(ADA, f"out-{number}", since=-7.0) for number in range(3)] == [
        None,
        None,
        output("out-2", at=2.0),
    ]


@with_storage
async def test_a_note_on_a_conversation_that_was_deleted_is_not_put_into_the_next(storage: Storage) -> None:
    notes = storage.notes
    await talk(storage.store, turns=3)
    await storage.store.delete(ADA, now=1000.0)
    await talk(storage.store)
    late = Note(kind=NoteKind.OBSERVATION, content="late", first_seq=1, last_seq=6)
    with pytest.raises(NotFound):
        await notes.add(ADA, late, now=1.0)
    assert await notes.list_all(ADA, NoteKind.OBSERVATION, limit=5) == []


@with_storage
async def test_mcp_decisions_are_those_of_one_server_and_the_last_about_each_text(storage: Storage) -> None:
    def decision(tool: str, digest: str, at: float, *, is_approved: bool = True) -> TextDecision:
        return TextDecision(tool=tool, digest=digest, text=f"{tool} text", is_approved=is_approved, decided_at=at)

    stored = storage.mcp_decisions
    await stored.decide("files", [decision("read", "d1", 1.0), decision("write", "d2", 1.0)])
    await stored.decide("files", [decision("read", "d3", 2.0)])
    await stored.decide("files", [decision("write", "d2", 3.0, is_approved=False)])
    await stored.decide("web", [decision("read", "d4", 4.0)])
    found = [(each.tool, each.digest, each.is_approved) for each in await stored.decisions("files")]
    assert found == [("read", "d1", True), ("read", "d3", True), ("write", "d2", False)]
    assert await stored.decisions("none") == []


@with_storage
async def test_event_numbers_are_never_reserved_twice(storage: Storage) -> None:
    assert [await storage.reserve_event_numbers(count) for count in (10, 5, 1)] == [10, 15, 16]


@with_storage
async def test_commits_and_their_transactions_are_counted(storage: Storage) -> None:
    before = storage.count_commits().transactions
    for _ in range(3):
        await storage.reserve_event_numbers(1)
    counts = storage.count_commits()
    assert counts.transactions - before == 3
    assert 0 < counts.commits <= counts.transactions


def use(name: str, action: str, at: float) -> SecretUse:
    return SecretUse(name=name, action=action, holder=Holder(agent="ada", sender="user", run="r", tool="exec"), at=at)


@with_storage
async def test_a_secret_is_kept_sealed_and_each_use_of_it_is_in_the_audit(storage: Storage) -> None:
    secrets = storage.secrets
    assert not await secrets.put(SealedSecret(name="b", sealed=b"1"), use("b", "store", 1.0))
    assert not await secrets.put(SealedSecret(name="a", sealed=b"2"), use("a", "store", 2.0))
    assert await secrets.put(SealedSecret(name="b", sealed=b"3"), use("b", "store", 3.0))
    await secrets.record_uses([use("b", "resolve", 4.0), use("b", "delete", 5.0), use("gone", "resolve", 6.0)])
    assert await secrets.load_sealed() == [SealedSecret(name="a", sealed=b"2"), SealedSecret(name="b", sealed=b"3")]
    assert await secrets.list_all() == [
        SecretInfo(name="a", created_at=2.0, updated_at=2.0),
        SecretInfo(name="b", created_at=1.0, updated_at=3.0, uses=1, used_at=4.0),
    ]
    assert [each.at for each in await secrets.audit()] == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    assert await secrets.audit(name="b", limit=1) == [use("b", "delete", 5.0)]
    with pytest.raises(NotFound):
        await secrets.remove(use("none", "delete", 7.0))
    await secrets.remove(use("a", "delete", 8.0))
    assert [each.name for each in await secrets.load_sealed()] == ["b"]
    assert [each.at for each in await secrets.audit(name="a")] == [8.0, 2.0]


@with_storage
async def test_a_secret_of_one_sender_and_its_scope_are_not_those_of_another(storage: Storage) -> None:
    secrets, theirs = storage.secrets, replace(use("a", "store", 2.0), owner="tg:1")
    await secrets.put(SealedSecret(name="a", sealed=b"1"), use("a", "store", 1.0))
    assert not await secrets.put(SealedSecret(name="a", owner="tg:1", sealed=b"2"), theirs)
    scope = SecretScope(agents=("ada",), senders=("tg:*",), tools=("exec",), hosts=("*.example.org",))
    await secrets.set_scope(scope, replace(theirs, action="scope", at=3.0))
    await secrets.record_uses([replace(theirs, action="resolve", at=4.0)])
    other, mine = await secrets.list_all()
    assert [(each.owner, each.scope, each.uses) for each in (other, mine)] == [
        ("tg:1", scope, 1),
        ("user", SecretScope(), 0),
    ]
    # A new value keeps the scope.
    assert await secrets.put(SealedSecret(name="a", owner="tg:1", sealed=b"3"), theirs)
    assert (await secrets.list_all())[0].scope == scope
    closed = SecretScope(configuration_only=True)
    assert await secrets.put(SealedSecret(name="a", owner="tg:1", sealed=b"3"), theirs, scope=closed)
    assert (await secrets.list_all())[0].scope == closed
    with pytest.raises(NotFound):
        await secrets.set_scope(scope, replace(theirs, name="none"))
    await secrets.remove(replace(theirs, action="delete"))
    assert [each.owner for each in await secrets.load_sealed()] == ["user"]
    assert {each.owner for each in await secrets.audit(name="a")} == {"user", "tg:1"}


@with_storage
async def test_a_key_has_one_id_and_is_touched_when_it_is_used(storage: Storage) -> None:
    keys = storage.keys
    key = SealedKey(info=KeyInfo(id="k1", name="main", type="encryption", created_at=1.0), sealed=b"x")
    await keys.add(key)
    with pytest.raises(Conflict):
        await keys.add(replace(key, sealed=b"y"))
    assert await keys.find("k1") == key
    assert await keys.find("k2") is None
    await keys.touch("k1", now=5.0)
    assert await keys.list_all() == [replace(key.info, used_at=5.0)]


@with_storage
async def test_a_token_is_not_made_with_the_sender_of_somebody_else_unless_the_owner_names_it(storage: Storage) -> None:
    store = storage.store

    async def keep_secret_of(owner: str) -> None:
        await storage.secrets.put(SealedSecret(name="api", owner=owner, sealed=b"1"), use("api", "store", 1.0))

    await store.set_cwd(ConversationKey("ada", "phone"), "/x", now=1.0)
    await keep_secret_of("desk")
    for number, name in enumerate(("phone", "desk")):
        with pytest.raises(Conflict, match=f"sender named '{name}'"):
            await store.add_token(Token(name=name, senders=("tg:*",), created_at=1.0), f"d{number}")
        token = await store.add_token(Token(name=name, senders=(name,), created_at=1.0), f"d{number}")
        assert token.sender == name
    await keep_secret_of("tv-2")
    await store.add_token(Token(name="tv", senders=(), created_at=1.0), "d2")
    await store.revoke_token("tv", now=2.0)
    assert (await store.add_token(Token(name="tv", senders=(), created_at=3.0), "d3")).sender == "tv-3"
