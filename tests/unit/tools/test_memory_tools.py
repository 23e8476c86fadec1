"""The tools on memory, notes and tasks, as a model meets them."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from moot.domain.config import MemoryConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, MootError, NotFound
from moot.domain.memory import CONTENT_LENGTH, KEY_LENGTH
from moot.domain.note import Note, NoteKind
from moot.domain.ports.tool import Renders, RunContext, Tool
from moot.domain.prompt import Safety
from moot.domain.usage import Charge
from moot.store.memories import SqliteMemories
from moot.store.notes import SqliteNotes
from moot.store.sqlite import SqliteStore
from moot.store.tasks import SqliteTasks
from moot.tools import memory, notes, tasks
from tests.unit.shelves import ADA, ADA_WITH_EVE, BOB, SetClock, answered, by_name, context, stored, talk, told

WEB = frozenset({"web"})


async def no_reflection(_key: ConversationKey, _charge: Charge) -> Note | None:
    return None


def memory_tools(store: SqliteStore, most: int = 1_000, *, lasting: bool = False) -> dict[str, Tool]:
    config = MemoryConfig(max_entries=most)
    return by_name(
        memory.tools(memories=SqliteMemories(store), config=lambda: config, lasting=lambda: lasting, clock=SetClock())
    )


def note_tools(store: SqliteStore, reflect: notes.Reflect = no_reflection) -> dict[str, Tool]:
    return by_name(notes.tools(notes=SqliteNotes(store), reflect=reflect, clock=SetClock()))


def task_tools(store: SqliteStore, **fields: Any) -> dict[str, Tool]:
    return by_name(tasks.tools(tasks=SqliteTasks(store), clock=SetClock(), rng=Random(1), **fields))


@stored
async def test_what_is_saved_is_recalled_until_it_is_forgotten(store: SqliteStore) -> None:
    tools = memory_tools(store)
    saved = await told(tools["memory_agent_save"], {"key": " tea ", "content": "Green tea.", "tags": ["drink", ""]})
    assert (saved["status"], saved["key"], saved["agent"]) == ("saved", "tea", "ada")
    found = await told(tools["memory_agent_recall"], {"query": "tea"})
    assert (found["count"], found["agent"]) == (1, "ada")
    assert found["results"][0] == {
        "key": "tea",
        "kind": "fact",
        "content": "Green tea.",
        "tags": ["drink"],
        "confidence": 0.5,
        "use_count": 0,
        "created_at": "1970-01-12T13:46:40+00:00",
        "updated_at": "1970-01-12T13:46:40+00:00",
    }
    gone = await told(tools["memory_agent_forget"], {"key": "tea"})
    assert (gone["status"], gone["message"]) == ("forgotten", "tea is forgotten.")
    assert (await told(tools["memory_agent_forget"], {"key": "tea"}))["status"] == "forgotten"
    assert (await told(tools["memory_agent_recall"], {"query": "tea"}))["results"] == []


@stored
async def test_a_memory_from_a_tainted_run_taints_who_recalls_it(store: SqliteStore) -> None:
    tools = memory_tools(store)
    await told(tools["memory_agent_save"], {"key": "a", "content": "boat of mine"})
    await told(tools["memory_agent_save"], {"key": "b", "content": "ship of theirs"}, context(taint=WEB))
    assert (await answered(tools["memory_agent_recall"], {"query": "boat"})).taint == frozenset()
    assert (await answered(tools["memory_agent_recall"], {"query": "boat ship"})).taint == WEB


@stored
async def test_memory_is_of_one_agent_with_one_sender(store: SqliteStore) -> None:
    tools = memory_tools(store)
    await told(tools["memory_agent_save"], {"key": "a", "content": "boat"})
    for key in (ADA_WITH_EVE, BOB):
        assert (await told(tools["memory_agent_recall"], {"query": "boat"}, context(key)))["count"] == 0
        await told(tools["memory_agent_forget"], {"key": "a"}, context(key))
    assert (await told(tools["memory_agent_recall"], {"query": "boat"}))["count"] == 1


def teammate(agent: str, run_id: str, root: ConversationKey) -> RunContext:
    """A run that an agent was started with, for the one in the root conversation."""
    return replace(context(ConversationKey(agent, f"run:{run_id}")), root=root)


@stored
async def test_a_teammates_memory_lasts_with_the_person_where_that_is_wanted(store: SqliteStore) -> None:
    tools = memory_tools(store, lasting=True)
    await told(tools["memory_agent_save"], {"key": "a", "content": "boat"}, teammate("operator", "1", ADA))

    async def found(of: RunContext) -> int:
        return int((await told(tools["memory_agent_recall"], {"query": "boat"}, of))["count"])

    assert await found(teammate("operator", "2", ADA)) == 1
    # Deeper down, in the background, and where the person talks with it: the same agent with the same person.
    assert await found(context(ConversationKey("operator", "bg:arun-7:user"))) == 1
    assert await found(teammate("operator", "3", ConversationKey("moot", "bg:arun-7:user"))) == 1
    assert await found(context(ConversationKey("operator", "user"))) == 1
    assert await found(teammate("librarian", "4", ADA)) == 0
    assert await found(teammate("operator", "5", ADA_WITH_EVE)) == 0


@stored
async def test_a_teammates_memory_is_its_runs_alone_where_it_is_not(store: SqliteStore) -> None:
    tools = memory_tools(store)
    here = teammate("operator", "1", ADA)
    await told(tools["memory_agent_save"], {"key": "a", "content": "boat"}, here)
    for elsewhere in (teammate("operator", "2", ADA), context(ConversationKey("operator", "user"))):
        assert (await told(tools["memory_agent_recall"], {"query": "boat"}, elsewhere))["count"] == 0
    assert (await told(tools["memory_agent_recall"], {"query": "boat"}, here))["count"] == 1


@pytest.mark.parametrize(("given", "kept"), [(7, 1.0), (-1, 0.0), (0, 0.0), (0.25, 0.25), (None, 0.5)])
def test_confidence_is_kept_between_nothing_and_one(tmp_path: Any, given: float | None, kept: float) -> None:
    @stored
    async def scenario(store: SqliteStore) -> None:
        tools = memory_tools(store)
        arguments = {"key": "a", "content": "boat", "confidence": given}
        await told(tools["memory_agent_save"], arguments)
        assert (await told(tools["memory_agent_recall"], {"query": "boat"}))["results"][0]["confidence"] == kept

    scenario(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "rumour"},
        {"key": "k" * (KEY_LENGTH + 1)},
        {"content": "c" * (CONTENT_LENGTH + 1)},
        {"tags": ["t"] * 3 + [f"t{number}" for number in range(20)]},
        {"key": " \n "},
    ],
)
def test_a_memory_that_is_not_as_it_should_be_is_refused(tmp_path: Any, wrong: dict[str, Any]) -> None:
    @stored
    async def scenario(store: SqliteStore) -> None:
        tools = memory_tools(store)
        with pytest.raises(BadRequest) as caught:
            await told(tools["memory_agent_save"], {"key": "k", "content": "c", **wrong})
        assert caught.value.fix
        assert await store.read(lambda db: db.execute("SELECT count(*) FROM memories").get) == 0

    scenario(tmp_path)


@stored
async def test_a_full_memory_makes_room(store: SqliteStore) -> None:
    tools = memory_tools(store, most=2)
    for key in "abc":
        await told(tools["memory_agent_save"], {"key": key, "content": f"boat {key}"})
    assert (await told(tools["memory_agent_recall"], {"query": "boat"}))["count"] == 2


@stored
async def test_observations_and_reflections_are_made_and_read(store: SqliteStore) -> None:
    await talk(store, turns=2)
    tools = note_tools(store)
    noted = await told(tools["observe_add"], {"content": "They plan a trip."}, context(taint=WEB))
    assert (noted["status"], noted["first_seq"], noted["last_seq"]) == ("noted", 1, 4)
    listed = await answered(tools["observe_list"], {})
    assert listed.taint == WEB
    assert (await told(tools["observe_list"], {}))["observations"][0]["content"] == "They plan a trip."
    reflected = await answered(tools["reflect_now"], {"content": "A trip is planned."})
    assert reflected.taint == WEB
    reflections = await told(tools["reflect_list"], {})
    assert reflections["count"] == 1
    assert (reflections["reflections"][0]["first_seq"], reflections["reflections"][0]["last_seq"]) == (1, 4)
    assert (await answered(tools["reflect_list"], {})).taint == WEB
    assert (await told(tools["observe_list"], {}, context(BOB)))["count"] == 0
    with pytest.raises(Conflict):
        await told(tools["reflect_now"], {"content": "Once more."})


@stored
async def test_a_reflection_that_is_not_given_is_written_by_the_engine(store: SqliteStore) -> None:
    await talk(store)
    asked: list[ConversationKey] = []

    async def reflect(key: ConversationKey, _charge: Charge) -> Note | None:
        asked.append(key)
        return Note(kind=NoteKind.REFLECTION, content="written", first_seq=1, last_seq=2, taint=WEB, number=7)

    result = await answered(note_tools(store, reflect)["reflect_now"], {})
    assert asked == [ADA]
    assert '"content":"written"' in result.content
    assert result.taint == WEB
    with pytest.raises(Conflict):
        await answered(note_tools(store)["reflect_now"], {})


@pytest.mark.parametrize("content", ["  ", "x" * 9_000])
def test_a_note_is_neither_empty_nor_endless(tmp_path: Any, content: str) -> None:
    @stored
    async def scenario(store: SqliteStore) -> None:
        await talk(store)
        with pytest.raises(BadRequest):
            await told(note_tools(store)["observe_add"], {"content": content})

    scenario(tmp_path)


@stored
async def test_a_task_goes_from_created_to_done(store: SqliteStore) -> None:
    tools = task_tools(store)
    created = await told(tools["task_create"], {"title": " Buy  bread ", "description": "two loaves"})
    assert created["status"] == "todo"
    part = await told(tools["task_create"], {"title": "find a shop", "parent_id": created["task_id"]})
    got = await told(tools["task_get"], {"task_id": created["task_id"]})
    assert got == {
        "id": created["task_id"],
        "title": "Buy bread",
        "status": "todo",
        "agent_id": "",
        "parent_id": "",
        "description": "two loaves",
        "created_at": "1970-01-12T13:46:40+00:00",
        "updated_at": "1970-01-12T13:46:40+00:00",
    }
    taken = await told(tools["task_update"], {"task_id": created["task_id"], "status": "in_progress"})
    assert (taken["status"], taken["agent_id"], taken["description"]) == ("in_progress", "ada", "two loaves")
    done = await told(tools["task_update"], {"task_id": created["task_id"], "status": "done", "description": "three"})
    assert (done["status"], done["agent_id"], done["description"]) == ("done", "ada", "three")
    assert (await told(tools["task_list"], {}))["count"] == 2
    assert [each["id"] for each in (await told(tools["task_list"], {"status": "done"}))["tasks"]] == [done["id"]]
    parts = await told(tools["task_list"], {"parent_id": created["task_id"]})
    assert [each["id"] for each in parts["tasks"]] == [part["task_id"]]


@stored
async def test_what_a_task_cannot_be_is_refused_and_changes_nothing(store: SqliteStore) -> None:
    tools = task_tools(store)
    made = await told(tools["task_create"], {"title": "x"})
    refused: list[tuple[str, dict[str, Any], type[MootError]]] = [
        ("task_create", {"title": "  "}, BadRequest),
        ("task_create", {"title": "t" * 301}, BadRequest),
        ("task_create", {"title": "t", "parent_id": "task-0"}, NotFound),
        ("task_update", {"task_id": made["task_id"], "status": "finished"}, BadRequest),
        ("task_update", {"task_id": "task-0", "status": "done"}, NotFound),
        ("task_update", {"task_id": made["task_id"], "description": "d" * 16_385}, BadRequest),
        ("task_list", {"status": "open"}, BadRequest),
        ("task_get", {"task_id": "task-0"}, NotFound),
    ]
    for name, arguments, error in refused:
        with pytest.raises(error) as caught:
            await told(tools[name], arguments)
        assert caught.value.fix
    listed = await told(tools["task_list"], {})
    assert [(each["id"], each["status"], each["description"]) for each in listed["tasks"]] == [
        (made["task_id"], "todo", "")
    ]


@stored
async def test_tasks_of_another_conversation_do_not_exist_unless_it_has_the_same_root(store: SqliteStore) -> None:
    tools = task_tools(store)
    made = await told(tools["task_create"], {"title": "x"}, context(taint=WEB))
    with pytest.raises(NotFound):
        await told(tools["task_get"], {"task_id": made["task_id"]}, context(ADA_WITH_EVE))
    child = ConversationKey("operator", "run:1")
    shared = task_tools(store, owner=lambda of: ADA if of.key == child else of.key)
    assert (await answered(shared["task_get"], {"task_id": made["task_id"]}, context(child))).taint == WEB
    assert (await answered(shared["task_list"], {}, context(child))).taint == WEB


@stored
async def test_a_status_that_a_tainted_run_has_set_taints_who_reads_it(store: SqliteStore) -> None:
    tools = task_tools(store)
    made = await told(tools["task_create"], {"title": "x"})
    assert (await answered(tools["task_list"], {})).taint == frozenset()
    await told(tools["task_update"], {"task_id": made["task_id"], "status": "done"}, context(taint=WEB))
    assert (await answered(tools["task_get"], {"task_id": made["task_id"]})).taint == WEB
    assert (await answered(tools["task_list"], {"status": "done"})).taint == WEB


@stored
async def test_every_tool_says_a_call_in_one_line_and_how_much_harm_it_can_do(store: SqliteStore) -> None:
    tools = memory_tools(store) | note_tools(store) | task_tools(store)
    assert sorted(tools) == [
        "memory_agent_forget", "memory_agent_recall", "memory_agent_save", "observe_add", "observe_list",
        "reflect_list", "reflect_now", "task_create", "task_get", "task_list", "task_update",
    ]  # fmt: skip
    moderate = {name for name, tool in tools.items() if tool.spec.safety is Safety.MODERATE}
    assert moderate == {"memory_agent_save", "memory_agent_forget"}
    assert not [tool for tool in tools.values() if tool.spec.safety is Safety.DANGEROUS]
    for tool in tools.values():
        assert isinstance(tool, Renders)
        full = dict.fromkeys(tool.spec.parameters["properties"], "x")
        for arguments in ({}, full):
            assert tool.line(arguments).strip()
            assert "\n" not in tool.line(arguments)
