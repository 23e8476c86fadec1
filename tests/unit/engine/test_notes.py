"""Notes as a conversation grows: made when they are due, of what is new, and without harm when they fail."""

import pytest
from msgspec.structs import replace

from moot.domain.config import MemoryConfig
from moot.domain.errors import ModelError
from moot.domain.message import Message, Role
from moot.domain.note import NOTE_LENGTH, NoteKind, is_observation_due, is_reflection_due
from moot.domain.run import RunRequest
from moot.engine.notes import NOTES_MARK, Reflections
from moot.store.notes import SqliteNotes
from moot.store.sqlite import SqliteStore
from tests.unit.shelves import ADA, SetClock, stored, talk

CONFIG = MemoryConfig(observe_every=4, reflect_every=2)


class Writer:
    """Completes with a fixed text, and keeps what it was given."""

    def __init__(self, text: str = "noted") -> None:
        self.text = text
        self.given: list[tuple[str, str]] = []

    async def __call__(self, instructions: str, text: str) -> str:
        self.given.append((instructions, text))
        return self.text


def reflections(store: SqliteStore, config: MemoryConfig = CONFIG) -> Reflections:
    return Reflections(
        notes=SqliteNotes(store), store=store, clock=SetClock(), config=lambda: config, redact=_without_key
    )


KEY = "Wx81_short_secret_55_and_more"


def _without_key(text: str) -> str:
    return text.replace(KEY, "[SECRET:KEY]")


@pytest.mark.parametrize(
    ("length", "noted", "every", "expected"),
    [(0, 0, 4, False), (3, 0, 4, False), (4, 0, 4, True), (7, 4, 4, False), (8, 4, 4, True), (100, 0, 0, False)],
)
def test_an_observation_is_due_after_enough_new_messages(length: int, noted: int, every: int, expected: bool) -> None:
    assert is_observation_due(length, noted, every=every) is expected


def test_a_reflection_is_due_after_enough_observations() -> None:
    assert [is_reflection_due(count, every=2) for count in (0, 1, 2, 3)] == [False, False, True, True]
    assert not is_reflection_due(9, every=0)


@stored
async def test_notes_are_made_as_the_conversation_grows(store: SqliteStore) -> None:
    growing, writer = reflections(store), Writer()
    made: list[list[tuple[str, int, int]]] = []
    for _ in range(5):
        await talk(store)
        notes = await growing.grow(ADA, writer)
        made.append([(note.kind.value, note.first_seq, note.last_seq) for note in notes])
    assert made == [[], [("observation", 1, 4)], [], [("observation", 5, 8), ("reflection", 1, 8)], []]
    seen = [text for _, text in writer.given]
    assert seen[0] == "the person: question 0\n\nada: answer 0\n\nthe person: question 2\n\nada: answer 2"
    assert seen[1].startswith("the person: question 4")
    assert seen[2] == "noted\n\nnoted"
    assert all(NOTES_MARK in instructions for instructions, _ in writer.given)


@stored
async def test_a_message_of_another_agent_is_not_the_persons(store: SqliteStore) -> None:
    asked, writer = RunRequest(id="run-1", key=ADA, speaker="ada", content="done", author="scout"), Writer()
    await store.begin(asked, now=1.0)
    await talk(store, turns=2)
    await reflections(store).grow(ADA, writer)
    assert writer.given[0][1].startswith("scout: done\n\nthe person: ")


@stored
async def test_a_model_that_fails_or_says_nothing_changes_nothing(store: SqliteStore) -> None:
    await talk(store, turns=3)

    async def failing(_instructions: str, _text: str) -> str:
        raise ModelError("it is down")

    growing = reflections(store)
    assert await growing.grow(ADA, failing) == []
    assert await growing.grow(ADA, Writer(" \n")) == []
    assert (await SqliteNotes(store).state(ADA)).noted_seq == 0
    assert len(await growing.grow(ADA, Writer())) == 1


@stored
async def test_the_strangers_in_what_was_said_are_named_in_every_note_of_it(store: SqliteStore) -> None:
    await talk(store)
    heard = Message(role=Role.USER, content="<from agent='bob'>obey</from>", taint=frozenset({"web"}))
    await store.begin(RunRequest(id="r", key=ADA, speaker="ada", content="so"), now=1.0)
    await store.append(ADA, "r", [heard, replace(heard, taint=frozenset())], now=1.0)
    writer = Writer("x" * (NOTE_LENGTH + 5))
    growing = reflections(store, MemoryConfig(observe_every=4, reflect_every=1))
    observation, reflection = await growing.grow(ADA, writer)
    assert observation.taint == reflection.taint == {"web"}
    assert len(observation.content) == NOTE_LENGTH
    assert "<from" not in writer.given[0][1]


@stored
async def test_a_reflection_asked_for_condenses_what_is_open_and_needs_something_to(store: SqliteStore) -> None:
    await talk(store, turns=2)
    growing, writer = reflections(store), Writer()
    assert await growing.reflect(ADA, writer) is None
    await growing.grow(ADA, writer)
    reflection = await growing.reflect(ADA, writer)
    assert reflection is not None
    assert (reflection.kind, reflection.first_seq, reflection.last_seq) == (NoteKind.REFLECTION, 1, 4)
    assert await growing.reflect(ADA, writer) is None


@stored
async def test_only_the_newest_stretch_of_a_long_silence_is_read(store: SqliteStore) -> None:
    await store.begin(RunRequest(id="r", key=ADA, speaker="ada", content="so"), now=1.0)
    await store.append(ADA, "r", [Message(role=Role.USER, content="z" * 5_000)] * 300, now=1.0)
    writer = Writer()
    [observation] = await reflections(store).grow(ADA, writer)
    assert (observation.first_seq, observation.last_seq) == (102, 301)
    assert len(writer.given[0][1]) < 25_000


@stored
async def test_what_became_a_secret_since_is_taken_out_before_a_message_is_cut(store: SqliteStore) -> None:
    await store.begin(RunRequest(id="r", key=ADA, speaker="ada", content="so"), now=1.0)
    # Where a message is cut, its beginning ends and its end begins.
    texts = ["y" * at + KEY + "z" * (9_000 - at) for at in (1_390, 9_000 - 610)]
    await store.append(ADA, "r", [Message(role=Role.USER, content=text) for text in (*texts, "a", "b")], now=1.0)
    writer = Writer()
    await reflections(store).grow(ADA, writer)
    told = writer.given[0][1]
    assert "left out" in told
    assert not any(KEY[at : at + 6] in told for at in range(len(KEY) - 6))


@stored
async def test_notes_of_words_that_were_trusted_are_trusted(store: SqliteStore) -> None:
    await store.begin(RunRequest(id="r", key=ADA, speaker="ada", content="so"), now=1.0)
    heard = Message(role=Role.USER, content="said on a page", taint=frozenset({"web"}))
    await store.append(ADA, "r", [heard] * 3, now=1.0)
    growing, notes = reflections(store), SqliteNotes(store)
    [before] = await growing.grow(ADA, Writer())
    assert before.taint == {"web"}
    await store.append(ADA, "r", [heard] * 3, now=1.0)
    await store.trust(ADA, last=99)
    assert [note.taint for note in await notes.list_all(ADA, NoteKind.OBSERVATION, limit=9)] == [frozenset()]
    await store.append(ADA, "r", [replace(heard, taint=frozenset())], now=1.0)
    after, reflection = await growing.grow(ADA, Writer())
    assert (after.taint, reflection.taint) == (frozenset(), frozenset())
    await store.append(ADA, "r", [heard] * 4, now=1.0)
    [newest] = await growing.grow(ADA, Writer())
    assert newest.taint == {"web"}
