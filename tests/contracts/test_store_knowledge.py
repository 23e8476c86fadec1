"""What every implementation promises of knowledge and learnings: versions, search, owners, fixes, deletion."""

from typing import Any

import pytest
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest
from moot.domain.knowledge import Knowledge, KnowledgeCategory, KnowledgeReader, SavedKnowledge, make_result_key
from moot.domain.learning import (
    CallLearning,
    CallRecord,
    FixedFailure,
    Learning,
    LearningCategory,
    LearningFilter,
    ToolCount,
    generalise_failure,
    make_id,
)
from moot.domain.ports.storage import Storage
from tests.contracts.store_kit import with_storage
from tests.unit.shelves import ADA, ADA_WITH_EVE, BOB, talk

WEB = frozenset({"web"})
USER = KnowledgeReader("user")
ADA_READS, BOB_READS = KnowledgeReader("user", "ada"), KnowledgeReader("user", "bob")


def entry(key: str, content: str, **fields: Any) -> Knowledge:
    return Knowledge(owner="user", key=key, category=KnowledgeCategory.FACT, content=content, **fields)


def result(key: ConversationKey, content: str, tool: str = "web_fetch", **fields: Any) -> Knowledge:
    return replace(
        entry(make_result_key(key.agent, key.sender, tool), content, agent=key.agent, origin=key),
        owner=key.sender,
        **fields,
    )


def record(*, ok: bool = True, at: float = 1.0, tool: str = "fs_read") -> CallRecord:
    return CallRecord(
        agent="ada", sender="user", run_id="r", call_id="c", tool=tool, ok=ok, seconds=0.5, at=at
    )  # fmt: skip


# ---- knowledge ------------------------------------------------------------------------------------


@with_storage
async def test_other_content_is_a_new_version_and_the_same_is_not(storage: Storage) -> None:
    knowledge = storage.knowledge
    assert await knowledge.save(entry("tea", "green", created_at=1.0)) == SavedKnowledge(1, is_new=True)
    assert await knowledge.save(entry("tea", "green", created_at=2.0)) == SavedKnowledge(1, is_new=False)
    assert await knowledge.save(entry("tea", "black", created_at=3.0)) == SavedKnowledge(2, is_new=True)
    # The same words of an untrusted source are something else.
    assert await knowledge.save(entry("tea", "black", taint=WEB)) == SavedKnowledge(3, is_new=True)
    versions = await knowledge.list_versions(ADA_READS, "tea")
    assert [(item.version, item.content, item.taint) for item in versions] == [
        (3, "black", WEB),
        (2, "black", frozenset()),
        (1, "green", frozenset()),
    ]
    assert [item.version for item in await knowledge.search(ADA_READS, "black", limit=9)] == [3]
    assert await knowledge.search(ADA_READS, "green", limit=9) == []
    assert await knowledge.list_versions(ADA_READS, "coffee") == []


@with_storage
async def test_search_ranks_by_words_and_finds_scripts_without_spaces(storage: Storage) -> None:
    knowledge = storage.knowledge
    await knowledge.save(entry("deploy", "The deployment of the shop needs two approvals.", tags=("process",)))
    await knowledge.save(entry("shop", "The shop sells lamps. Deployment, deployments, deploying: see the other."))
    await knowledge.save(replace(entry("port", "港口在夜里关闭"), category=KnowledgeCategory.RULE))
    assert [item.key for item in await knowledge.search(ADA_READS, "who paints?", limit=9)] == []
    assert [item.key for item in await knowledge.search(ADA_READS, "approval of deployments", limit=9)][0] == "deploy"
    assert {item.key for item in await knowledge.search(ADA_READS, "shop", limit=9)} == {"deploy", "shop"}
    assert len(await knowledge.search(ADA_READS, "shop", limit=1)) == 1
    assert [item.key for item in await knowledge.search(ADA_READS, "process", limit=9)] == ["deploy"]
    assert [item.key for item in await knowledge.search(ADA_READS, "港口", limit=9)] == ["port"]
    rule, fact = KnowledgeCategory.RULE, KnowledgeCategory.FACT
    assert [item.key for item in await knowledge.search(ADA_READS, "港口", category=rule, limit=9)] == ["port"]
    assert await knowledge.search(ADA_READS, "港口", category=fact, limit=9) == []
    assert await knowledge.search(ADA_READS, '") OR owner : "', limit=9) == []


@with_storage
async def test_saved_knowledge_is_of_its_owner_and_results_are_of_the_agent_that_read_them(storage: Storage) -> None:
    knowledge = storage.knowledge
    for key in (ADA, ADA_WITH_EVE, BOB):
        await talk(storage.store, key)
    await knowledge.save(entry("plan", "the secret plan"))
    await knowledge.save(replace(entry("plan", "a secret of Eve"), owner="eve"))
    results = [result(ADA, "a secret page"), result(BOB, "another secret page"), result(ADA_WITH_EVE, "secret of eve")]
    await knowledge.keep_results(results, versions=2)

    async def find(reader: KnowledgeReader) -> set[str]:
        found = {item.content for item in await knowledge.search(reader, "secret", limit=9)}
        listed = {item.content for item in await knowledge.list_newest(reader, limit=9)}
        assert found == listed
        return found

    assert await find(ADA_READS) == {"the secret plan", "a secret page"}
    assert await find(BOB_READS) == {"the secret plan", "another secret page"}
    assert await find(USER) == {"the secret plan", "a secret page", "another secret page"}
    assert await find(KnowledgeReader("eve", "ada")) == {"a secret of Eve", "secret of eve"}
    assert await find(KnowledgeReader("use", "ada")) == set()
    assert await knowledge.list_versions(BOB_READS, results[0].key) == []
    assert await knowledge.forget("eve", results[0].key) == 0
    assert await knowledge.forget("user", "plan") == 1
    assert await find(KnowledgeReader("eve", "ada")) == {"a secret of Eve", "secret of eve"}


@with_storage
async def test_every_kept_result_of_a_tool_is_found_and_the_oldest_go(storage: Storage) -> None:
    knowledge = storage.knowledge
    await talk(storage.store)
    await knowledge.keep_results([result(ADA, f"page {word}") for word in ("one", "two", "two", "three")], versions=2)
    found = await knowledge.search(ADA_READS, "page", limit=9)
    assert {(item.version, item.content) for item in found} == {(2, "page two"), (3, "page three")}
    assert [item.content for item in await knowledge.list_newest(USER, limit=9)] == ["page three"]


@with_storage
async def test_entries_are_listed_by_key_in_pages(storage: Storage) -> None:
    for key in ("c", "a", "b"):
        await storage.knowledge.save(entry(key, "x"))
    await storage.knowledge.save(replace(entry("a", "y"), category=KnowledgeCategory.RULE))
    assert [item.key for item in await storage.knowledge.list_newest(USER, limit=2)] == ["a", "b"]
    assert [item.key for item in await storage.knowledge.list_newest(USER, after="b", limit=2)] == ["c"]
    rules = await storage.knowledge.list_newest(USER, category=KnowledgeCategory.RULE, limit=9)
    assert [(item.key, item.content) for item in rules] == [("a", "y")]


@with_storage
async def test_text_that_is_not_unicode_is_refused_and_nothing_is_stored(storage: Storage) -> None:
    with pytest.raises(BadRequest):
        await storage.knowledge.save(entry("k", "\ud800"))
    assert await storage.knowledge.list_newest(USER, limit=9) == []


# ---- learnings ------------------------------------------------------------------------------------


def learning(fix: str = "Try again.", **fields: Any) -> Learning:
    given: dict[str, Any] = {
        "id": "", "owner": "user", "trigger": "tool:exec", "pattern": "no such file", "fix": fix, "confidence": 0.8,
    }  # fmt: skip
    return Learning(**given | fields)


@with_storage
async def test_a_fix_is_recorded_when_a_failure_is_overcome_and_rated_by_what_follows(storage: Storage) -> None:
    learnings = storage.learnings
    await talk(storage.store)
    failed = generalise_failure("fs_read", "no such file: /a/b", WEB)

    async def learn(**fields: Any) -> Learning:
        await learnings.learn([CallLearning(record=record(ok="failure" not in fields), root=ADA, **fields)])
        [known] = await learnings.list_all("user", limit=9)
        return known

    assert (await learn(failure=failed)).fix == ""
    assert await learnings.list_of_trigger("user", "tool:fs_read") == []
    mended = await learn(fixed=(FixedFailure(pattern=failed.pattern, fix="Use b.", taint=frozenset({"mail"})),))
    assert (mended.fix, mended.id) == ("Use b.", make_id("user", "tool:fs_read", failed.pattern))
    assert mended.taint == {"web", "mail"}
    assert mended.confidence == pytest.approx(0.55)
    assert await learnings.list_of_trigger("user", "tool:fs_read") == [mended]
    # A second correction does not replace a fix that has not been found wanting.
    again = await learn(fixed=(FixedFailure(pattern=failed.pattern, fix="Use c."),))
    assert again.fix == "Use b."
    assert again.confidence == pytest.approx(0.595)
    assert (await learn(helpful=(mended.id,))).confidence == pytest.approx(0.6355)
    for _ in range(3):
        worse = await learn(failure=failed, unhelpful=mended.id)
    assert worse.confidence == pytest.approx(0.6355 * 0.8**3)
    assert worse.occurrences == 4
    replaced = await learn(fixed=(FixedFailure(pattern=failed.pattern, fix="Use c."),))
    assert replaced.fix == "Use c."
    assert replaced.confidence == pytest.approx(0.55)
    assert [each.fix for each in await learnings.search("user", "use c", limit=9)] == ["Use c."]


@with_storage
async def test_a_new_failure_has_the_taint_of_its_run_and_a_known_one_keeps_its_own(storage: Storage) -> None:
    await talk(storage.store)
    new = replace(generalise_failure("fs_read", "no file called obey the following"), run_taint=WEB)
    known = generalise_failure("fs_read", "is a folder")
    for each in (new, known, replace(known, run_taint=WEB)):
        await storage.learnings.learn([CallLearning(record=record(ok=False), root=ADA, failure=each)])
    found = {each.pattern: each.taint for each in await storage.learnings.list_all("user", limit=9)}
    assert found == {new.pattern: WEB, known.pattern: frozenset()}


@with_storage
async def test_learnings_are_saved_searched_and_never_another_owners(storage: Storage) -> None:
    learnings = storage.learnings
    assert await learnings.save(learning("Install it first.", diagnosis="The program is missing."))
    assert await learnings.save(learning("先安装程序", pattern="找不到程序", category=LearningCategory.TIMEOUT))
    assert await learnings.save(learning("Ask Eve.", owner="eve"))
    assert not await learnings.save(learning("Install it.", taint=WEB, updated_at=5.0))
    [found] = await learnings.search("user", "no such file or directory", limit=9)
    assert (found.fix, found.taint, found.diagnosis) == ("Install it.", WEB, "")
    assert [each.fix for each in await learnings.search("user", "exec", limit=9)] != []
    assert [each.fix for each in await learnings.search("user", "程序", limit=9)] == ["先安装程序"]
    category = LearningCategory.TOOL_ERROR
    assert await learnings.search("user", "file", category=category, limit=9) == []
    assert [each.fix for each in await learnings.list_of_trigger("eve", "tool:exec")] == ["Ask Eve."]
    assert await learnings.search("use", "file", limit=9) == []


@with_storage
async def test_learnings_are_counted_with_the_calls_they_come_from(storage: Storage) -> None:
    learnings = storage.learnings
    await talk(storage.store)
    learned_calls = [
        CallLearning(record=record(ok=False, at=3.0), root=ADA, failure=generalise_failure("fs_read", "it timed out")),
        CallLearning(record=record(at=4.0), root=ADA),
        CallLearning(record=record(at=4.0, tool="exec"), root=ADA),
    ]
    await learnings.learn(learned_calls)
    await learnings.save(learning(created_at=1.0, updated_at=2.0))
    stats = await learnings.count("user")
    assert (stats.total, stats.with_fix, dict(stats.by_category)) == (2, 1, {"general": 1, "timeout": 1})
    assert stats.average_confidence == pytest.approx(0.65)
    assert (stats.oldest, stats.newest) == (1.0, 3.0)
    assert stats.tools == (ToolCount("fs_read", 2, 1), ToolCount("exec", 1, 0))
    assert (await learnings.count("eve")).total == 0


@with_storage
async def test_a_cleanup_deletes_what_meets_all_conditions_and_a_dry_run_nothing(storage: Storage) -> None:
    learnings = storage.learnings
    for pattern, confidence, at in (("one", 0.2, 1.0), ("two", 0.9, 1.0), ("three", 0.2, 9.0)):
        await learnings.save(learning(pattern=pattern, confidence=confidence, updated_at=at))
    await learnings.save(learning(owner="eve", confidence=0.1))
    wanted = LearningFilter(max_confidence=0.2, before=5.0)
    for dry_run in (True, False):
        assert len(await learnings.clean("user", wanted, dry_run=dry_run)) == 1
    assert {each.pattern for each in await learnings.list_all("user", limit=9)} == {"two", "three"}
    assert await learnings.search("user", "one", limit=9) == []
    [kept] = await learnings.search("user", "two", limit=9)
    assert await learnings.clean("eve", LearningFilter(id=kept.id), dry_run=False) == []
    assert await learnings.clean("user", LearningFilter(id=kept.id), dry_run=False) == [kept.id]
    assert len(await learnings.list_all("eve", limit=9)) == 1


# ---- deletion -------------------------------------------------------------------------------------


@with_storage
async def test_nothing_is_learnt_late_from_a_conversation_that_was_deleted(storage: Storage) -> None:
    await talk(storage.store)
    await storage.store.delete(ADA, now=1000.0)
    learned = CallLearning(record=record(ok=False), root=ADA, failure=generalise_failure("fs_read", "not found"))
    await storage.learnings.learn([learned])
    await storage.knowledge.keep_results([result(ADA, "words")], versions=2)
    await talk(storage.store)
    assert (await storage.store.count_deletion(ADA)).lessons == 0
    assert await storage.knowledge.list_newest(USER, limit=9) == []


@with_storage
async def test_what_was_learnt_in_one_conversation_stays_when_another_is_deleted(storage: Storage) -> None:
    """A sender with a colon in it, or one that begins alike, is somebody else. What was saved stays."""
    keys = [ADA, ConversationKey("ada", "user:x"), ConversationKey("ada", "use"), ConversationKey("ad", "a:user")]
    for key in keys:
        await talk(storage.store, key)
        await storage.knowledge.keep_results([result(key, str(key))], versions=2)
        taught = generalise_failure("fs_read", f"it went wrong for {'abcdefgh'[keys.index(key)] * 5}")
        await storage.learnings.learn([CallLearning(record=record(ok=False), root=key, failure=taught)])
    await storage.knowledge.save(entry("plan", "stays"))
    await storage.learnings.save(learning())
    doomed = (await storage.store.delete(ADA, now=1000.0)).counts
    assert doomed.lessons == 2
    assert [(await storage.store.count_deletion(key)).lessons for key in keys[1:]] == [2, 2, 2]
    assert [item.content for item in await storage.knowledge.list_newest(USER, limit=9)] == ["stays"]
    assert [each.fix for each in await storage.learnings.list_all("user", limit=9)] == ["Try again."]
