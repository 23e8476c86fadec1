"""Learnings and knowledge on disk: what is counted, how sure it is, and which versions stay."""

from moot.domain.learning import CallRecord, Knowledge, Lesson, failure
from moot.store.learnings import SqliteLearnings
from moot.store.sqlite import SqliteStore
from tests.unit.shelves import stored, talk

WEB = frozenset({"web"})


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
