"""Recall finds what was archived here, says it with who said it, and nothing of anybody else's."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.domain.conversation import Archive, ConversationKey, Recollection
from moot.domain.message import Message, Role, user
from moot.domain.ports.store import Store
from moot.domain.run import RunRequest
from moot.store import ranking
from tests.contracts.store_kit import stored

KEY = ConversationKey("ada", "user")
OTHER = ConversationKey("ada", "eve")
DAY = 86_400.0


async def put_away(
    store: Store, *texts: str | Message, key: ConversationKey = KEY, summary: str = "", at: float = 0.0
) -> None:
    """Say the texts and archive them."""
    messages = [user(text) if isinstance(text, str) else text for text in texts]
    loaded = await store.load(key)
    last = loaded.conversation.last_seq if loaded else 0
    await store.begin(RunRequest(id=f"{key.sender}-{last}", key=key, speaker="ada", content="so:"), now=at)
    entries = await store.append(key, f"{key.sender}-{last}", messages, now=at)
    archive = Archive(number=0, first_seq=0, last_seq=entries[-1].seq, title="", summary=summary, archived_at=at)
    await store.archive(key, archive)


def found(recollections: list[Recollection]) -> list[tuple[int, list[str]]]:
    return [(each.archive.number, [entry.message.content for entry in each.entries]) for each in recollections]


@stored
async def test_the_archive_that_fits_best_comes_first_with_what_fits_in_it(store: Store) -> None:
    await put_away(store, "we talked of bread", "and of butter")
    await put_away(store, "the harbour was full", "sailing boats, boats everywhere", "then lunch")
    await put_away(store, "one boat, many cars, and a very long way home through all of the town")

    recollections = await store.recall(KEY, "What about the boats?", limit=5, now=0.0)

    assert found(recollections) == [
        (2, ["sailing boats, boats everywhere"]),
        (3, ["one boat, many cars, and a very long way home through all of the town"]),
    ]
    assert recollections[0].score > recollections[1].score
    assert len(await store.recall(KEY, "boats", limit=1, now=0.0)) == 1
    assert await store.recall(KEY, "boats", limit=0, now=0.0) == []


@stored
async def test_who_said_it_is_kept(store: Store) -> None:
    said = Message(role=Role.ASSISTANT, content="use walnut oil", agent="chef")
    await put_away(store, said)

    (recollection,) = await store.recall(KEY, "walnut", limit=5, now=0.0)

    assert [entry.message for entry in recollection.entries] == [said]


@stored
async def test_summaries_are_searched_too(store: Store) -> None:
    await put_away(store, "hm", summary="They agreed on a price of forty crowns.")
    await put_away(store, "well", summary="Nothing was agreed.")

    assert found(await store.recall(KEY, "crowns", limit=5, now=0.0)) == [(1, [])]


@stored
async def test_nothing_of_another_sender_and_nothing_still_active_is_found(store: Store) -> None:
    await put_away(store, "the password is swordfish", key=OTHER, summary="swordfish")
    await put_away(store, "nothing here")
    await store.append(KEY, "user-0", [user("swordfish, not yet archived")], now=0.0)

    for query in ("swordfish", "wordfis", "鱼"):
        assert await store.recall(KEY, query, limit=5, now=0.0) == []
    assert len(await store.recall(OTHER, "swordfish", limit=5, now=0.0)) == 1


@stored
async def test_ranking_does_not_depend_on_what_others_said(store: Store) -> None:
    await put_away(store, "tea with lemon", "tea", "a lemon")
    await put_away(store, "lemon tart", "coffee")
    before = await store.recall(KEY, "lemon tea", limit=5, now=0.0)

    for _ in range(20):
        await put_away(store, "lemon lemon lemon", key=OTHER)

    assert await store.recall(KEY, "lemon tea", limit=5, now=0.0) == before


@stored
async def test_of_equals_the_recent_comes_first_but_age_hides_nothing(store: Store) -> None:
    await put_away(store, "the plan is to paint the kitchen", at=0.0)
    await put_away(store, "the plan is to paint the kitchen", at=300 * DAY)
    await put_away(store, "a plan", "of kites", "for kids", at=400 * DAY)

    now = 400 * DAY
    assert [number for number, _ in found(await store.recall(KEY, "paint kitchen", limit=5, now=now))] == [2, 1]
    best, *_ = await store.recall(KEY, "plan paint kitchen", limit=5, now=now)
    assert best.archive.number == 2
    clock_went_back = await store.recall(KEY, "paint kitchen", limit=5, now=-1.0)
    assert [number for number, _ in found(clock_went_back)] == [2, 1]


@stored
async def test_at_most_five_entries_of_an_archive_in_their_order(store: Store) -> None:
    await put_away(store, *[f"apple {'pear ' * number}" for number in range(9)])

    (recollection,) = await store.recall(KEY, "apple", limit=5, now=0.0)

    seqs = [entry.seq for entry in recollection.entries]
    assert seqs == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们讨论了数据库迁移的计划", "数据库"),
        ("我们讨论了数据库迁移的计划", "迁移数据库的方法是什么"),
        ("明日は東京タワーに行きます", "東京"),
        ("เราไปกินข้าวที่ร้านใหม่", "กินข้าว"),
        ("set max_connections to 40", "max_connections"),
        ("we use PostgreSQL", "postgres"),
        ("Das Straßenfest in München", "munchen"),
        ("they deployed it", "deployment deploy"),
        ("50% off \\o/", "50%"),
        ("it's a nul\0nul thing", "thing"),
    ],
)
def test_words_are_found_in_many_scripts_and_forms(tmp_path: Path, storage_kind: str, text: str, query: str) -> None:
    @stored
    async def test(store: Store) -> None:
        await put_away(store, "something else", summary="an unrelated summary")
        await put_away(store, text)

        assert found(await store.recall(KEY, query, limit=1, now=0.0)) == [(2, [text])]

    test(tmp_path, storage_kind)


@pytest.mark.parametrize(
    "query",
    ['"', '""', "AND", "a OR b NOT c", "NEAR(a b)", "col: x", "*", "^a", "(", "-", "", "   ", "\0", "%", "_", "'; --",
     "x" * 100_000, "a " * 50_000, "{a b}:c", "content:boat + -x"],
)  # fmt: skip
def test_no_query_is_taken_for_anything_but_words(tmp_path: Path, storage_kind: str, query: str) -> None:
    @stored
    async def test(store: Store) -> None:
        await put_away(store, "zebra")
        assert await store.recall(KEY, query, limit=5, now=0.0) == []

    test(tmp_path, storage_kind)


@given(st.text(max_size=80))
def test_terms_are_few_short_and_each_once(query: str) -> None:
    for found_ in (ranking.terms(query), ranking.fragments(query)):
        assert len(found_) == len(set(found_)) <= 24
        assert all(0 < len(term) <= 80 for term in found_)
