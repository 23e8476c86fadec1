"""Vocabularies of agents: one for each name, replaced by a newer one, and apart from all conversations."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from moot.domain.errors import BadRequest
from moot.domain.ports.storage import Storage
from moot.domain.vocabulary import Phrases, Vocabulary
from tests.contracts.store_kit import KEY, Disk, SqliteDisk, turn, with_disk, with_storage

PETS = Vocabulary(
    agent="pets",
    digest="d1",
    model="small",
    written_at=1.5,
    phrases=(
        Phrases(language="en", words=("limping dog", "vet"), requests=("My cat won't eat.",)),
        Phrases(language="zh", words=("跛行的狗",)),
        Phrases(language="fr"),
    ),
)
BOATS = replace(PETS, agent="boats", digest="d2", phrases=())


@with_storage
async def test_a_newer_vocabulary_replaces_that_of_its_agent_alone(storage: Storage) -> None:
    vocabularies = storage.vocabularies
    assert await vocabularies.list_all() == []
    await vocabularies.save(PETS)
    await vocabularies.save(BOATS)
    assert await vocabularies.list_all() == [BOATS, PETS]
    newer = Vocabulary(
        agent="pets", digest="d3", model="large", written_at=2.5, phrases=(Phrases(language="de", words=("Hund",)),)
    )
    await vocabularies.save(newer)
    assert await vocabularies.list_all() == [BOATS, newer]


@with_storage
async def test_agents_are_in_the_order_of_their_characters(storage: Storage) -> None:
    names = ["zoo", "Zoo", "\U0001f415", "éclair", "a-b", "\uff5e"]
    for name in names:
        await storage.vocabularies.save(replace(PETS, agent=name))
    assert [each.agent for each in await storage.vocabularies.list_all()] == sorted(names)


@with_storage
async def test_a_vocabulary_is_removed_once_and_can_be_written_again(storage: Storage) -> None:
    vocabularies = storage.vocabularies
    await vocabularies.save(PETS)
    await vocabularies.save(BOATS)
    assert [await vocabularies.remove("pets"), await vocabularies.remove("pets")] == [True, False]
    assert await vocabularies.list_all() == [BOATS]
    await vocabularies.save(PETS)
    assert await vocabularies.list_all() == [BOATS, PETS]


@with_storage
async def test_a_lone_surrogate_is_refused_and_what_was_stored_stays(storage: Storage) -> None:
    await storage.vocabularies.save(PETS)
    broken = "\ud800"
    for spoilt in (
        replace(PETS, agent=broken),
        replace(PETS, model=broken),
        replace(PETS, phrases=(Phrases(language="en", words=(broken,)),)),
        replace(PETS, phrases=(Phrases(language="en", requests=(broken,)),)),
    ):
        with pytest.raises(BadRequest, match="lone surrogate"):
            await storage.vocabularies.save(spoilt)
    assert await storage.vocabularies.list_all() == [PETS]


@with_storage
async def test_a_vocabulary_stays_when_a_conversation_with_its_agent_is_deleted(storage: Storage) -> None:
    await turn(storage.store, 1, "hello")
    own = replace(PETS, agent=KEY.agent)
    await storage.vocabularies.save(own)
    await storage.store.delete(KEY, now=1000.0)
    assert await storage.vocabularies.list_all() == [own]


@with_disk
async def test_a_vocabulary_survives_a_restart(disk: Disk) -> None:
    first = await disk.open()
    await first.vocabularies.save(PETS)
    await first.store.close()
    second = await disk.open()
    assert await second.vocabularies.list_all() == [PETS]
    await second.store.close()


@pytest.mark.parametrize(
    "spoilt",
    [
        b"",
        b"[{",
        b'{"en": []}',
        b'[{"words": ["vet"]}]',
        b'[{"language": "en", "words": [1]}]',
        b'[{"language": "\xff"}]',
    ],
)
def test_one_that_cannot_be_decoded_hides_no_other_and_can_be_replaced(tmp_path: Path, spoilt: bytes) -> None:
    """A damaged row exists only where rows are encoded."""

    async def scenario(disk: SqliteDisk) -> None:
        storage = await disk.open()
        pond = replace(PETS, agent="pond")
        for each in (BOATS, PETS, pond):
            await storage.vocabularies.save(each)
        disk.change("UPDATE vocabularies SET phrases = ? WHERE agent = 'pets'", spoilt)
        assert await storage.vocabularies.list_all() == [BOATS, pond]
        await storage.vocabularies.save(PETS)
        assert await storage.vocabularies.list_all() == [BOATS, PETS, pond]
        disk.change("UPDATE vocabularies SET phrases = ? WHERE agent = 'pets'", spoilt)
        assert await storage.vocabularies.remove("pets")
        await storage.store.close()

    asyncio.run(scenario(SqliteDisk(tmp_path)))
