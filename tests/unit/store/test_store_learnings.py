"""Learnings and knowledge on disk: what is in the rows and in the indexes."""

from moot.domain.conversation import ConversationKey
from moot.domain.knowledge import Knowledge, KnowledgeCategory
from moot.domain.learning import CallLearning, CallRecord, FixedFailure, generalise_failure
from moot.store.knowledge import SqliteKnowledge
from moot.store.learnings import SqliteLearnings
from moot.store.sqlite import SqliteStore
from tests.unit.shelves import ADA, stored, talk

WEB = frozenset({"web"})


def record(*, ok: bool = True, at: float = 1.0) -> CallRecord:
    return CallRecord(
        agent="ada", sender="user", run_id="r", call_id="c", tool="fs_read", ok=ok, seconds=0.5, at=at
    )  # fmt: skip


@stored
async def test_failures_alike_are_one_learning_that_grows_surer_when_overcome(store: SqliteStore) -> None:
    learnings = SqliteLearnings(store)
    await talk(store)
    first = generalise_failure("fs_read", "file not found: /home/ann/a.txt")
    again = generalise_failure("fs_read", "file not found: /srv/b.txt", WEB)
    await learnings.learn([CallLearning(record=record(ok=False), root=ADA, failure=first)])
    await learnings.learn([CallLearning(record=record(ok=False, at=2.0), root=ADA, failure=again)])
    fixed = (FixedFailure(pattern=first.pattern, fix="f"), FixedFailure(pattern="never seen"))
    await learnings.learn([CallLearning(record=record(at=3.0), root=ADA, fixed=fixed)])
    rows = await store.read(
        lambda db: db.execute(
            "SELECT owner, trigger, error_pattern, occurrences, round(confidence, 3), taint, category, updated_at, fix"
            " FROM learnings"
        ).fetchall()
    )
    assert rows == [("user", "tool:fs_read", "file not found: <path>", 2, 0.55, "web", "tool_error", 3.0, "f")]
    audit = await store.read(lambda db: db.execute("SELECT ok, seconds, at, owner FROM tool_audit").fetchall())
    assert audit == [(0, 0.5, 1.0, "user"), (0, 0.5, 2.0, "user"), (1, 0.5, 3.0, "user")]


@stored
async def test_only_what_search_may_find_is_indexed(store: SqliteStore) -> None:
    knowledge = SqliteKnowledge(store)
    await talk(store)

    async def save(content: str, **fields: object) -> None:
        item = Knowledge(
            owner="user", key="k", category=KnowledgeCategory.FACT, content=content, tags=("a",), **fields  # type: ignore[arg-type]
        )  # fmt: skip
        await (knowledge.keep_results([item], versions=2) if item.agent else knowledge.save(item))

    async def indexed() -> object:
        rows = "SELECT version, content FROM knowledge JOIN knowledge_index_docsize ON id = number ORDER BY number"
        return await store.read(lambda db: db.execute(rows).fetchall())

    for content in ("a", "a", "b"):
        await save(content)
    await save("b", taint=WEB)
    assert await indexed() == [(3, "b")]
    await knowledge.forget("user", "k")
    assert await indexed() == []
    for content in ("x", "y", "z"):
        await save(content, agent="ada", origin=ConversationKey("ada", "user"))
    assert await indexed() == [(2, "y"), (3, "z")]
