"""Lists of what there is much of: in order, cut, whose they are, and found by an index however much there is."""

from collections.abc import Callable
from functools import partial
from typing import Any

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.senders import SenderSet
from moot.store import conversations, found_runs
from moot.store.sqlite import SqliteStore
from tests.unit.shelves import ADA, ADA_WITH_EVE, stored, teammate_run

SENDER = "SEARCH conversations USING INTEGER PRIMARY KEY (rowid=?)"


async def turn(store: SqliteStore, run_id: str, key: ConversationKey = ADA, *, at: float, text: str = "go") -> None:
    await store.begin(RunRequest(id=run_id, key=key, speaker=key.agent, content=text), now=at)
    await store.end(key, run_id, RunEnd(outcome=Outcome.COMPLETED, content=text), [assistant(text)], now=at + 1)


def plans(function: Callable[[apsw.Connection], Any]) -> Callable[[apsw.Connection], list[str]]:
    """How the store would answer what a function asks of it, but for what is looked up for each row."""

    def look(db: apsw.Connection) -> list[str]:
        asked: list[tuple[str, Any]] = []

        def note(_cursor: object, sql: str, bindings: Any) -> bool:
            asked.append((sql, bindings))
            return True

        db.exec_trace = note
        try:
            function(db)
        finally:
            db.exec_trace = None
        told = [row for sql, bindings in asked for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
        return [detail for _, parent, _, detail in told if parent == 0]

    return look


async def ended_teammate(store: SqliteStore, run_id: str, *, at: float) -> None:
    run = teammate_run(run_id, at=at)
    await store.spawn(run)
    await store.begin(run.request, now=at)
    await store.end(run.key, run_id, RunEnd(outcome=Outcome.COMPLETED), [assistant("done")], now=at + 1)


@stored
async def test_the_turns_that_ended_last_come_first_and_their_texts_are_cut(store: SqliteStore) -> None:
    await turn(store, "run-1", at=1.0, text="x" * 10_000)
    await turn(store, "run-2", ADA_WITH_EVE, at=5.0)
    await turn(store, "run-3", at=3.0)
    await ended_teammate(store, "arun-1", at=9.0)
    await store.begin(RunRequest(id="run-4", key=ADA, speaker="ada", content="goes on"), now=9.0)
    found = await store.ended_runs(SenderSet(is_everyone=True), limit=10)
    assert [run.id for run in found] == ["arun-1", "run-2", "run-3", "run-1"]
    assert [run.id for run in await store.ended_runs(SenderSet(is_everyone=True), limit=2)] == ["arun-1", "run-2"]
    # A teammate's is found with the sender it works for.
    assert [run.id for run in await store.ended_runs(SenderSet(names=("user",)), limit=2)] == ["arun-1", "run-3"]
    assert await store.ended_runs(SenderSet(), limit=2) == []
    oldest = found[-1]
    assert oldest.end is not None
    assert 4_000 < len(oldest.request.content) < 5_000
    assert 4_000 < len(oldest.end.content) < 5_000


@stored
async def test_what_ended_last_is_found_by_an_index_and_nothing_is_sorted(store: SqliteStore) -> None:
    await turn(store, "run-1", at=1.0)
    told = await store.read(plans(lambda db: found_runs.list_ended(db, SenderSet(is_everyone=True), 1)))
    # A second line before the next question would be about sorting; only the few that were chosen are sorted.
    assert told[:2] == ["SCAN runs USING INDEX runs_by_end", SENDER]


@stored
async def test_the_runs_of_a_tree_and_of_a_parent_are_found_by_an_index(store: SqliteStore) -> None:
    for look, index in (
        (lambda db: found_runs.of_root(db, "run-1"), "runs_of_root"),
        (lambda db: found_runs.of_parent(db, "run-1"), "runs_of_parent"),
        (lambda db: found_runs.made_before(db, teammate_run()), "runs_by_call"),
        (found_runs.not_ended, "runs_not_ended"),
    ):
        told = await store.read(plans(look))
        assert any(index in line for line in told), (index, told)


@stored
async def test_a_page_of_conversations_goes_on_where_the_one_before_ended(store: SqliteStore) -> None:
    for number in range(5):
        await turn(store, f"run-{number}", ConversationKey("ada", str(number)), at=float(number // 2))
    whole = await store.conversations()
    first = await store.conversations(limit=2)
    rest = await store.conversations(after=first[-1].place)
    assert [each.key.sender for each in whole] == ["4", "3", "2", "1", "0"]
    assert [*first, *rest] == whole
    assert await store.conversations(after=whole[-1].place) == []


@stored
async def test_a_page_of_conversations_is_found_by_an_index_and_nothing_is_sorted(store: SqliteStore) -> None:
    for after, expected in (
        (None, "SCAN conversations USING INDEX conversations_by_use"),
        ((5.0, 3), "SEARCH conversations USING INDEX conversations_by_use (updated_at<?)"),
    ):
        wanted = conversations.ConversationFilter(after=after, limit=2)
        told = await store.read(plans(partial(conversations.list_all, wanted=wanted)))
        assert told[0] == expected
        assert "USE TEMP B-TREE FOR ORDER BY" not in told
