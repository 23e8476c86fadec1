"""Lists of what there is much of: in order, cut, whose they are, and found by an index however much there is."""

from collections.abc import Callable
from functools import partial
from typing import Any

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.message import assistant
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.senders import SenderSet
from moot.store import conversations, found_runs, mail
from moot.store.sqlite import SqliteStore
from tests.unit.shelves import ADA, stored, teammate_run

SENDER = "SEARCH conversations USING INTEGER PRIMARY KEY (rowid=?)"


async def turn(store: SqliteStore, run_id: str, key: ConversationKey = ADA, *, at: float, text: str = "go") -> None:
    await store.begin(RunRequest(id=run_id, key=key, speaker=key.agent, content=text), now=at)
    await store.end(key, run_id, RunEnd(outcome=Outcome.COMPLETED, content=text), [assistant(text)], now=at + 1)


def plans(
    function: Callable[[apsw.Connection], Any], *, each_row: bool = False
) -> Callable[[apsw.Connection], list[str]]:
    """How the store would answer what a function asks of it; what is looked up for each row only if wanted."""

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
        return [detail for _, parent, _, detail in told if each_row or parent == 0]

    return look


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
        (lambda db: found_runs.find_duplicate(db, teammate_run()), "runs_by_call"),
        (found_runs.not_ended, "runs_not_ended"),
    ):
        told = await store.read(plans(look))
        assert any(index in line for line in told), (index, told)


@stored
async def test_a_goal_is_found_without_a_look_at_all_turns_of_its_conversation(store: SqliteStore) -> None:
    await turn(store, "run-1", at=1.0)
    goal = await mail.SqliteMail(store).find_goal_of(ADA)
    assert goal is not None
    told = await store.read(plans(partial(mail.find_targets, goal_ids=[goal.id]), each_row=True))
    assert [line for line in told if line.startswith(("SEARCH runs", "SEARCH live", "SCAN"))] == [
        "SCAN store_identity",
        "SCAN json_each VIRTUAL TABLE INDEX 1:",
        "SEARCH live USING COVERING INDEX runs_not_ended (status=? AND conversation=?)",
        "SEARCH runs USING INDEX runs_spawned_of_conversation (conversation=?)",
        "SEARCH runs USING INDEX runs_spawned_of_conversation (conversation=?)",
    ]


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
