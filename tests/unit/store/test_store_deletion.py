"""A deleted conversation leaves nothing behind: looked for in every column of every table, indexes included."""

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
from msgspec.structs import replace

from moot.domain.approval import Decision
from moot.domain.ask import Ask, AskKind, AskReply, Question
from moot.domain.conversation import Archive, ConversationKey
from moot.domain.deletion import DeletionCounts
from moot.domain.knowledge import Knowledge, KnowledgeCategory, make_result_key
from moot.domain.learning import CallLearning, CallRecord, FixedFailure, generalise_failure
from moot.domain.memory import Memory
from moot.domain.message import Message, Role, Thinking, ToolCall, tool_result
from moot.domain.note import Note, NoteKind
from moot.domain.output import Output
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.domain.task import Task
from moot.domain.trace import TraceKind, TraceNote
from moot.store.asks import SqliteAsks
from moot.store.knowledge import SqliteKnowledge
from moot.store.learnings import SqliteLearnings
from moot.store.memories import SqliteMemories
from moot.store.notes import SqliteNotes
from moot.store.outputs import SqliteOutputs
from moot.store.rules import SqliteRules
from moot.store.sqlite import SqliteStore
from moot.store.tasks import SqliteTasks
from moot.store.traces import SqliteTraces
from tests.unit.shelves import stored, teammate_run

# A word that no stemmer shortens, and that no pattern takes for an id.
CANARY = "zanzibarian"
DOOMED = ConversationKey("ada", f"sender-{CANARY}")
BESIDE = ConversationKey("ada", "sender")


def traces(db: apsw.Connection, word: str) -> Iterator[str]:
    """Where the word is. An index leaves out the letters a word shares with the one before it: its end is enough."""
    ends = (word.encode(), word[3:].encode())
    for (table,) in list(db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")):
        for row in db.execute(f'SELECT * FROM "{table}"'):
            for value in row:
                held = value if isinstance(value, bytes) else str(value).encode()
                if any(end in held.lower() for end in ends):
                    yield table


async def fill(store: SqliteStore, key: ConversationKey, word: str) -> None:
    """One of everything that a conversation can have, with the word in it."""
    run = f"run-{key.sender}"
    call = ToolCall(id="call_1", name="fs_read", arguments=json.dumps({"path": word}))
    said = Message(
        role=Role.ASSISTANT, content=word, tool_calls=(call,), thinking=(Thinking(text=word, signature=word),)
    )
    request = RunRequest(id=run, key=key, speaker="ada", content=f"ask {word}", client_message_id=word)
    await store.begin(request, now=1.0)
    asks = SqliteAsks(store)
    ask = Ask(
        id=f"ask-{run}", kind=AskKind.APPROVAL, key=key, run_id=run, call_id="call_1", speaker="ada", tool="fs_read",
        arguments=word, subject=word, line=word, preview=word, reason=word, exact=word, opened_at=1.0, expires_at=1e12,
    )  # fmt: skip
    await asks.open(ask)
    await asks.open(ask)
    await asks.decide(ask.id, attempt=2, decision=Decision.ALWAYS, by=word, now=2.0)
    assert await asks.find(ask.id) is not None
    question = replace(ask, id=f"question-{run}", kind=AskKind.QUESTION, questions=(Question(question=word),))
    await asks.open(question)
    await asks.answer(key, AskReply(content=word, by=word), now=2.0)
    await store.append(key, run, [said, tool_result("call_1", word, taint=frozenset({word}))], now=2.0)
    await store.end(key, run, RunEnd(outcome=Outcome.COMPLETED, content=word, error=word), [], now=3.0)
    await store.set_title(key, word)
    await store.archive(key, Archive(number=0, first_seq=1, last_seq=2, title=word, summary=word, archived_at=4.0))
    await store.enqueue(RunRequest(id=f"{run}-2", key=key, speaker="ada", content=word, cwd=f"/{word}"), now=5.0)
    await SqliteMemories(store).save(key, Memory(key=word, content=word, tags=(word,)), max_entries=10, now=1.0)
    await SqliteTasks(store).create(key, Task(id=f"t-{run}", title=word, description=word, parent_id="", agent_id=word))
    await SqliteNotes(store).add(key, Note(kind=NoteKind.REFLECTION, content=word, first_seq=1, last_seq=2), now=1.0)
    output = Output(ref=f"out-{run}", tool="fs_read", content=word, created_at=1.0)
    await SqliteOutputs(store).keep(key, output, most=9)
    record = CallRecord(
        agent=key.agent, sender=key.sender, run_id=run, call_id="call_1", tool="fs_read", ok=False, seconds=0.1, at=1.0
    )
    learnings = SqliteLearnings(store)
    failed = generalise_failure("fs_read", f"cannot do {word}")
    fixed = FixedFailure(pattern=failed.pattern, fix=word)
    await learnings.learn(
        [
            CallLearning(record=record, root=key, failure=failed),
            CallLearning(record=replace(record, ok=True), root=key, fixed=(fixed,)),
        ]
    )
    named = make_result_key(key.agent, key.sender, "fs_read")
    item = Knowledge(
        owner=key.sender, agent=key.agent, key=named, category=KnowledgeCategory.FACT, content=word, origin=key
    )
    await SqliteKnowledge(store).keep_results([item], versions=2)
    await delegate(store, key, word)


async def delegate(store: SqliteStore, root: ConversationKey, word: str, *, ended: bool = True) -> str:
    """A teammate that worked for the conversation, with the word in all it left."""
    run_id, end = f"arun-{root.sender}-{ended}", RunEnd(outcome=Outcome.COMPLETED, content=word)
    run = teammate_run(run_id, parent=f"run-{root.sender}", instruction=word, root=root, reason=word)
    await store.spawn(run)
    await store.begin(replace(run.request, is_first=True), now=1.0)
    note = TraceNote(run_id=run_id, at=1.0, kind=TraceKind.ROUTING, agent="operator", payload=json.dumps({"why": word}))
    SqliteTraces(store).add(note)
    if ended:
        await store.end(run.key, run_id, end, [Message(role=Role.ASSISTANT, content=word)], now=2.0)
    return run_id


TABLES = {
    "conversations", "messages", "runs", "archives", "asks", "rules", "outputs", "memories", "notes", "tasks",
    "tool_audit", "learnings", "knowledge", "trace_notes", "past_attempts",
    "message_index_data", "summary_index_data", "memory_index_data", "knowledge_index_data", "learning_index_data",
}  # fmt: skip


@stored
async def test_nothing_of_a_deleted_conversation_is_left_in_any_table(store: SqliteStore) -> None:
    await fill(store, BESIDE, "honolulan")
    await fill(store, DOOMED, CANARY)
    before = await store.read(lambda db: set(traces(db, CANARY)))
    kept = await store.read(lambda db: set(traces(db, "honolulan")))
    # What is looked for is found: this test can fail.
    assert before == TABLES

    expected = DeletionCounts(
        messages=5, archives=1, runs=3, memories=1, tasks=1, notes=1, outputs=1, lessons=2, rules=1
    )  # fmt: skip
    assert await store.count_deletion(DOOMED) == expected
    assert (await store.delete(DOOMED, now=1000.0)).counts == expected

    assert await store.read(lambda db: list(traces(db, CANARY))) == []
    assert await store.read(lambda db: set(traces(db, "honolulan"))) == kept
    assert (await store.count_deletion(BESIDE)).lessons == 2
    (found,) = await SqliteMemories(store).recall(BESIDE, "honolulan", limit=5, now=1.0)
    assert found.content == "honolulan"
    assert len(await store.recall(BESIDE, "honolulan", limit=5, now=9.0)) == 1


@stored
async def test_a_teammate_still_at_work_is_left_alone_when_its_conversation_goes(store: SqliteStore) -> None:
    await fill(store, DOOMED, CANARY)
    live = await delegate(store, DOOMED, CANARY, ended=False)
    await store.delete(DOOMED, now=1000.0)
    assert [owned.run.id for owned in await store.list_live_runs()] == [live]
    assert await store.get_run(live) is not None


@stored
async def test_the_bytes_of_a_deleted_conversation_are_overwritten_in_the_file(store: SqliteStore) -> None:
    await fill(store, BESIDE, "honolulan")
    await fill(store, DOOMED, CANARY)
    # Many pages of it, so that some are let go of whole.
    entries = [tool_result(f"call_{number}", f"{CANARY} " * 2_000) for number in range(40)]
    await store.append(DOOMED, "", entries, now=6.0)
    await store.delete(DOOMED, now=1000.0)
    await store.backup(f"{store.path}.copy")
    data = Path(f"{store.path}.copy").read_bytes()  # noqa: ASYNC240
    assert b"honolulan" in data
    assert CANARY.encode() not in data


@stored
async def test_no_file_of_the_store_holds_a_word_that_was_deleted_or_moved_before(store: SqliteStore) -> None:
    """Rows move between pages as others come; what they leave behind there is no row that a deletion could find."""
    await fill(store, BESIDE, "honolulan")
    await fill(store, DOOMED, CANARY)
    for number in range(60):
        await store.set_title(DOOMED, f"{CANARY} {number} " * 9)
        await store.append(DOOMED, "", [tool_result(f"call_{number}", f"{CANARY} " * (number * 7))], now=6.0)
        await store.append(BESIDE, "", [tool_result(f"call_{number}", "honolulan " * (number * 5))], now=6.0)
    await store.delete(DOOMED, now=1000.0)
    for part in ("", "-wal"):
        data = Path(f"{store.path}{part}").read_bytes()  # noqa: ASYNC240
        assert CANARY.encode() not in data, part
    assert await store.write(lambda db: db.execute("PRAGMA secure_delete").get) == 1


@stored
async def test_a_log_that_a_reader_needs_is_emptied_when_it_is_done(store: SqliteStore) -> None:
    await fill(store, DOOMED, CANARY)
    await fill(store, BESIDE, "honolulan")
    reader = apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM messages").get > 0
    await store.delete(DOOMED, now=1000.0)
    log = Path(f"{store.path}-wal")
    assert CANARY.encode() in log.read_bytes()  # noqa: ASYNC240
    reader.close()
    await store.set_title(BESIDE, "more")
    await store.set_title(BESIDE, "and more")
    assert CANARY.encode() not in log.read_bytes()  # noqa: ASYNC240


@stored
async def test_a_rule_of_a_deleted_conversation_allows_nothing_in_the_next_one(store: SqliteStore) -> None:
    await fill(store, DOOMED, CANARY)
    await fill(store, BESIDE, "honolulan")
    await store.delete(DOOMED, now=1000.0)
    assert {rule.sender for rule in await SqliteRules(store).load()} == {BESIDE.sender}
