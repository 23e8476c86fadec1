"""The DocumentIndex port: sources, documents that are replaced whole, words, vectors, and owners."""

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.ports.storage import Storage
from moot.domain.rag import Document, DocumentChange, NewPassage, Source, SourceKind, WordParts
from tests.contracts.store_kit import Disk, with_disk, with_storage

ME = ConversationKey("librarian", "user")
WORDS = "words"
# The same agent for somebody else, and another agent for the same person.
OTHERS = (ConversationKey("librarian", "tg:1"), ConversationKey("moot", "user"))


async def add(
    storage: Storage, owner: ConversationKey = ME, place: str = "/srv/docs", taint: frozenset[str] = frozenset()
) -> Source:
    return await storage.documents.add_source(owner, SourceKind.FOLDER, place, folder="/srv", taint=taint, now=1.0)


def change(name: str, *texts: str, **more: object) -> DocumentChange:
    passages = tuple(
        NewPassage(
            content=text, terms=text.lower(), first_line=place, last_line=place + 1, heading="h", vector=bytes([place])
        )
        for place, text in enumerate(texts, start=1)
    )
    document = Document(name=name, digest=name, indexed_at=2.0, **({"embedder": WORDS} | more))  # type: ignore[arg-type]
    return DocumentChange(document=document, passages=passages)


@with_storage
async def test_vectors_of_one_embedder_are_listed_without_those_of_others(storage: Storage) -> None:
    index = storage.documents
    source = (await add(storage)).number
    await index.put_documents(ME, source, [change("a.md", "one", "two"), change("b.md", "three", embedder="other")])
    own = await index.list_vectors(ME, embedder=WORDS, after=0)
    other = await index.list_vectors(ME, embedder="other", after=0)
    assert (own.count, len(own.numbers), other.count, len(other.numbers)) == (2, 2, 1, 1)
    assert (await index.list_vectors(ME, embedder=WORDS, after=own.numbers[0])).numbers == own.numbers[1:]
    assert (await index.list_vectors(ME, embedder="third", after=0)).count == 0
    assert [each.content for each in await index.list_passages(ME, source, "a.md")] == ["one", "two"]
    assert await index.list_passages(OTHERS[0], source, "a.md") == []
    assert await index.list_passages(ME, source, "unknown.md") == []


async def found(storage: Storage, *terms: str, owner: ConversationKey = ME, limit: int = 10) -> list[str]:
    numbers = await storage.documents.find_words(owner, terms, limit=limit)
    return [passage.content for passage in await storage.documents.get_passages(owner, numbers)]


@with_storage
async def test_passages_of_one_source_are_ranked_among_themselves(storage: Storage) -> None:
    index = storage.documents
    large, small = (await add(storage)).number, (await add(storage, place="/srv/other")).number
    await index.put_documents(ME, large, [change("a.md", *["apple pie"] * 30, "cherry")])
    await index.put_documents(ME, small, [change("b.md", "one apple among many other words", "wild cherry cake")])
    numbers = await index.find_words(ME, ["apple"], source=small, limit=5)
    assert [each.content for each in await index.get_passages(ME, numbers)] == ["one apple among many other words"]
    # A word that another source has is one that this source does not have.
    parts = [WordParts(("pie",), ("cake",))]
    numbers = await index.find_words(ME, ["pie"], parts=parts, source=small, limit=5)
    assert [each.content for each in await index.get_passages(ME, numbers)] == ["wild cherry cake"]
    assert [len(await index.list_numbers(ME, each)) for each in (small, large)] == [2, 31]
    # The sources of others do not exist for anybody else.
    for other in OTHERS:
        assert await index.list_numbers(other, small) == []
        assert await index.find_words(other, ["apple"], source=small, limit=5) == []


@with_storage
async def test_passages_are_found_by_their_terms_best_first(storage: Storage) -> None:
    source = await add(storage)
    assert await storage.documents.put_documents(
        ME,
        source.number,
        [
            change("a.md", "red apple pie with apple", "green pear", title="Pies"),
            change("b.md", "one apple among many other words of this long passage", "blue sky"),
        ],
    )
    assert await found(storage, "apple") == [
        "red apple pie with apple",
        "one apple among many other words of this long passage",
    ]
    assert await found(storage, "apple", limit=1) == ["red apple pie with apple"]
    assert await found(storage, "sky", "pear") == ["blue sky", "green pear"] or await found(storage, "sky", "pear") == [
        "green pear",
        "blue sky",
    ]
    assert await found(storage, "nothing") == await found(storage) == await found(storage, '" OR *') == []
    # The parts of a word count only if no passage has the word.
    parts = [WordParts(("pineapple",), ("apple", "neapple")), WordParts(("pear",), ("sky",))]
    for terms, first in ((["pineapple"], "red apple pie with apple"), (["pear"], "green pear")):
        own = [each for each in parts if each.terms[0] in terms]
        numbers = await storage.documents.find_words(ME, terms, parts=own, limit=5)
        told = [each.content for each in await storage.documents.get_passages(ME, numbers)]
        assert told[0] == first
        assert "blue sky" not in told
    (number,) = await storage.documents.find_words(ME, ["pear"], limit=5)
    (passage,) = await storage.documents.get_passages(ME, [number])
    assert (passage.document, passage.title, passage.heading, passage.location) == ("a.md", "Pies", "h", "a.md:2-3")
    assert passage.source == source.number


@with_storage
async def test_a_document_is_replaced_whole_and_touched_or_removed(storage: Storage) -> None:
    index = storage.documents
    source = (await add(storage)).number
    await index.put_documents(ME, source, [change("a.md", "old words", "more old words"), change("b.md", "kept")])
    before = await index.list_vectors(ME, embedder=WORDS, after=0)
    assert (before.count, before.vectors) == (3, (b"\x01", b"\x02", b"\x01"))
    await index.put_documents(ME, source, [change("a.md", "new words", size=7, note="ragged")])
    assert await found(storage, "old") == []
    assert await found(storage, "words") == ["new words"]
    after = await index.list_vectors(ME, embedder=WORDS, after=before.numbers[-1])
    assert (after.count, len(after.numbers)) == (2, 1)
    assert after.version != before.version
    unchanged = await index.list_vectors(ME, embedder=WORDS, after=0, unless=after.version)
    assert (unchanged.version, unchanged.numbers) == (after.version, ())
    # The numbers of what is gone find nothing, in whatever order they are asked for.
    kept = [passage.content for passage in await index.get_passages(ME, [*after.numbers, *before.numbers])]
    assert kept == ["new words", "kept"]
    document, other = await index.list_documents(ME, source)
    assert (document.name, document.size, document.note, other.name) == ("a.md", 7, "ragged", "b.md")
    await index.touch_documents(ME, source, [replace(document, size=8, modified=99, digest="not stored")])
    (touched, _) = await index.list_documents(ME, source)
    assert touched == replace(document, size=8, modified=99)
    await index.remove_documents(ME, source, ["b.md", "unknown.md"])
    assert [each.name for each in await index.list_documents(ME, source)] == ["a.md"]
    assert await found(storage, "kept") == []
    assert (await index.list_vectors(ME, embedder=WORDS, after=0)).count == 1


@with_storage
async def test_a_source_is_added_once_completed_and_forgotten(storage: Storage) -> None:
    index = storage.documents
    first = await add(storage)
    assert not first.is_complete
    await index.put_documents(
        ME, first.number, [change("a.md", "apple", "pear"), change("b.bin", problem="not text"), change("c.md", "plum")]
    )
    await index.complete_source(ME, first.number, 5.0)
    other = await add(storage, place="/srv/notes.md")
    assert await index.list_unfinished() == [(ME, other)]
    report, empty = await index.list_sources(ME)
    assert await index.find_sources(ME) == [report.source, empty.source]
    assert await index.find_sources(OTHERS[0]) == []
    assert (report.documents, report.passages, report.refused) == (2, 3, 1)
    assert report.source == replace(first, completed_at=5.0)
    assert (empty.source, empty.documents, empty.passages) == (other, 0, 0)
    # Asked for again it is the same one, and not complete; what was untrusted stays so.
    again = await add(storage, taint=frozenset({"web"}))
    assert again == replace(first, taint=frozenset({"web"}))
    assert (await add(storage)).taint == {"web"}
    (number,) = await index.find_words(ME, ["plum"], limit=5)
    assert [passage.taint for passage in await index.get_passages(ME, [number])] == [frozenset({"web"})]
    assert await index.forget_source(ME, first.number) == 3
    assert await index.forget_source(ME, first.number) == 0
    assert [each.source.number for each in await index.list_sources(ME)] == [other.number]
    assert await found(storage, "apple", "pear", "plum") == []
    # Whoever was still indexing it is told.
    assert not await index.put_documents(ME, first.number, [change("late.md", "late apple")])
    assert await found(storage, "apple") == []


@with_storage
async def test_owners_neither_find_nor_change_what_is_not_theirs(storage: Storage) -> None:
    index = storage.documents
    mine = (await add(storage)).number
    await index.put_documents(ME, mine, [change("a.md", "my apple")])
    numbers = await index.find_words(ME, ["apple"], limit=5)
    for other in OTHERS:
        theirs = (await add(storage, other)).number
        assert theirs != mine
        await index.put_documents(other, theirs, [change("a.md", f"the apple of {other.agent} and {other.sender}")])
    for other in OTHERS:
        assert await found(storage, "apple", owner=other) == [f"the apple of {other.agent} and {other.sender}"]
        assert await index.get_passages(other, numbers) == []
        assert (await index.list_vectors(other, embedder=WORDS, after=0)).count == 1
        assert await index.list_documents(other, mine) == []
        assert await index.forget_source(other, mine) == 0
        assert not await index.put_documents(other, mine, [change("a.md", "overwritten")])
        await index.remove_documents(other, mine, ["a.md"])
        await index.touch_documents(other, mine, [Document(name="a.md", size=1)])
        await index.complete_source(other, mine, 9.0)
        assert len(await index.list_sources(other)) == 1
    assert await found(storage, "apple") == ["my apple"]
    (report,) = await index.list_sources(ME)
    assert not report.source.is_complete
    nobody = ConversationKey("librarian", "nobody")
    assert await index.list_sources(nobody) == []
    assert await found(storage, "apple", owner=nobody) == []
    assert (await index.list_vectors(nobody, embedder=WORDS, after=0)).count == 0


def test_what_was_indexed_is_there_after_a_restart(tmp_path: object, storage_kind: str) -> None:
    async def scenario(disk: Disk) -> None:
        first = await disk.open()
        source = await add(first)
        await first.documents.put_documents(ME, source.number, [change("a.md", "lasting apple")])
        await first.store.close()
        second = await disk.open()
        assert await found(second, "apple") == ["lasting apple"]
        assert [each.source for each in await second.documents.list_sources(ME)] == [source]
        await second.store.close()

    with_disk(scenario)(tmp_path, storage_kind)  # type: ignore[arg-type]


@with_storage
async def test_sources_are_numbered_for_each_owner(storage: Storage) -> None:
    labels = [(await add(storage, owner, place)).label for owner in (ME, OTHERS[0], ME) for place in ("/a", "/b")]
    assert labels == [1, 2, 1, 2, 1, 2]
    sources = {report.source.label: report.source for report in await storage.documents.list_sources(ME)}
    assert [source.place for source in sources.values()] == ["/a", "/b"]
    await storage.documents.put_documents(ME, sources[2].number, [change("/b/a.md", "apple")])
    (number,) = await storage.documents.find_words(ME, ["apple"], limit=5)
    (passage,) = await storage.documents.get_passages(ME, [number])
    assert passage.source_label == 2
    # A number is not given to another source.
    await storage.documents.forget_source(ME, sources[2].number)
    assert (await add(storage, ME, "/c")).label == 3
