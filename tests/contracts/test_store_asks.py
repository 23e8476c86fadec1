"""What every implementation promises of asks and rules: one pending state, one answer, one use."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from moot.domain.approval import Decision
from moot.domain.ask import Ask, AskKind, AskReply, AskState, Binding, Question
from moot.domain.errors import Conflict, NotFound
from moot.domain.message import ToolCall, assistant
from moot.domain.ports.storage import Storage
from moot.domain.run import Outcome, RunEnd
from tests.contracts.store_kit import KEY, OTHER, request, with_storage
from tests.unit.shelves import teammate_run

LATE = 1_000.0
DONE = RunEnd(outcome=Outcome.COMPLETED)


def approval(number: int = 1, **changes: Any) -> Ask:
    made = Ask(
        id=f"ask-{number}",
        kind=AskKind.APPROVAL,
        key=KEY,
        run_id="run-1",
        call_id=f"c{number}",
        speaker="ada",
        tool="exec",
        arguments='{"command": "ls"}',
        subject="ls in /",
        line="exec ls",
        preview="ls",
        reason="it is dangerous",
        digest="d",
        exact="the command",
        binding=Binding(what="the sandbox"),
        sealed=b"sealed",
        opened_at=float(number),
        expires_at=LATE,
    )
    return replace(made, **changes)


def question(number: int = 1, **changes: Any) -> Ask:
    asked = (Question(question="which one?"),)
    made = Ask(
        id=f"question-{number}",
        kind=AskKind.QUESTION,
        key=KEY,
        run_id="run-1",
        call_id=f"q{number}",
        speaker="ada",
        tool="ask_user",
        questions=asked,
        opened_at=float(number),
        expires_at=LATE,
    )
    return replace(made, **changes)


async def begin(storage: Storage) -> None:
    await storage.store.begin(request(), now=1.0)


@with_storage
async def test_an_ask_needs_its_conversation_and_comes_back_as_it_was(storage: Storage) -> None:
    with pytest.raises(NotFound):
        await storage.asks.open(approval())
    await begin(storage)
    assert await storage.asks.open(approval()) == approval()
    assert await storage.asks.open(question()) == question()
    assert await storage.asks.find("ask-1") == approval()
    assert await storage.asks.find("ask-9") is None
    assert await storage.asks.list_open() == [approval(), question()]
    assert await storage.asks.list_unused_calls() == [("run-1", "c1")]


@with_storage
async def test_what_is_asked_again_counts_its_attempts_since_the_last_decision(storage: Storage) -> None:
    await begin(storage)
    await storage.asks.open(approval())
    again = await storage.asks.open(approval(call_id="c2", digest="e", opened_at=2.0))
    assert (again.attempt, again.decided_attempts, again.call_id, again.digest) == (2, 0, "c2", "e")
    await storage.asks.decide("ask-1", attempt=2, decision=Decision.DENY, by="owner", now=3.0)
    third = await storage.asks.open(approval(opened_at=4.0))
    assert (third.state, third.attempt, third.decided_attempts) == (AskState.PENDING, 3, 2)
    await storage.asks.close("ask-1", AskState.EXPIRED, now=5.0)
    fourth = await storage.asks.open(approval(opened_at=6.0))
    assert (fourth.attempt, fourth.decided_attempts) == (4, 2)


@with_storage
async def test_an_attempt_that_was_used_counts_as_decided(storage: Storage) -> None:
    await begin(storage)
    await storage.asks.open(approval())
    granted = await storage.asks.decide("ask-1", attempt=1, decision=Decision.ONCE, by="owner", now=2.0)
    await storage.asks.use(granted, now=3.0)
    again = await storage.asks.open(approval(opened_at=4.0))
    assert (again.state, again.attempt, again.decided_attempts) == (AskState.PENDING, 2, 1)


@with_storage
async def test_the_oldest_question_is_answered_once(storage: Storage) -> None:
    await begin(storage)
    for ask in (question(2), question(1), question(3, expires_at=5.0)):
        await storage.asks.open(ask)
    first = await storage.asks.answer(KEY, AskReply(content="this", by="owner", reply_id="r1:a"), now=6.0)
    assert (first.id, first.state, first.answer) == ("question-1", AskState.ANSWERED, "this")
    assert await storage.asks.answer(KEY, AskReply(content="this", by="owner", reply_id="r1:a"), now=7.0) == first
    with pytest.raises(Conflict):
        await storage.asks.answer(KEY, AskReply(content="that", by="owner", reply_id="r1:a"), now=7.0)
    second = await storage.asks.answer(KEY, AskReply(content="that", by="owner", reply_id="r1:b"), now=8.0)
    assert second.id == "question-2"
    # The third has expired, and another conversation has none.
    for key in (KEY, OTHER):
        with pytest.raises(NotFound):
            await storage.asks.answer(key, AskReply(content="more", by="owner"), now=9.0)
    assert await storage.asks.find_reply(KEY, "r1:") == second
    assert await storage.asks.find_reply(KEY, "r2:") is None
    assert await storage.asks.find_reply(OTHER, "r1:") is None


@with_storage
async def test_only_the_very_thing_that_was_looked_at_can_be_decided_and_only_once(storage: Storage) -> None:
    await begin(storage)
    await storage.asks.open(approval())
    await storage.asks.open(question())
    for ask_id, attempt, now in (("ask-1", 2, 2.0), ("ask-1", 1, LATE)):
        with pytest.raises(Conflict):
            await storage.asks.decide(ask_id, attempt=attempt, decision=Decision.ONCE, by="owner", now=now)
    for ask_id in ("ask-9", "question-1"):
        with pytest.raises(NotFound):
            await storage.asks.decide(ask_id, attempt=1, decision=Decision.ONCE, by="owner", now=2.0)
    decisions = [
        storage.asks.decide("ask-1", attempt=1, decision=decision, by="owner", now=2.0)
        for decision in (Decision.ONCE, Decision.DENY)
    ]
    granted, refused = await asyncio.gather(*decisions, return_exceptions=True)
    assert isinstance(granted, Ask)
    assert granted == approval(state=AskState.GRANTED)
    assert isinstance(refused, Conflict)
    assert await storage.asks.find("ask-1") == granted
    assert await storage.asks.list_open() == [granted, question()]


@with_storage
async def test_a_grant_is_used_once_for_what_was_shown(storage: Storage) -> None:
    await begin(storage)
    await storage.asks.open(approval())
    with pytest.raises(Conflict):
        await storage.asks.use(approval(), now=2.0)
    granted = await storage.asks.decide("ask-1", attempt=1, decision=Decision.ONCE, by="owner", now=2.0)
    for changed in (replace(granted, digest="x"), replace(granted, attempt=2), approval(2)):
        with pytest.raises(Conflict):
            await storage.asks.use(changed, now=3.0)
    await storage.asks.use(granted, now=3.0)
    with pytest.raises(Conflict):
        await storage.asks.use(granted, now=4.0)
    # What was sealed is needed no more.
    assert await storage.asks.find("ask-1") == approval(state=AskState.USED, sealed=b"")
    assert await storage.asks.list_unused_calls() == []


@with_storage
async def test_closing_leaves_what_was_decided_and_only_a_cancellation_takes_back_a_grant(storage: Storage) -> None:
    await begin(storage)
    for number in (1, 2):
        await storage.asks.open(approval(number))
    await storage.asks.decide("ask-1", attempt=1, decision=Decision.ONCE, by="owner", now=2.0)
    kept = await storage.asks.close("ask-1", AskState.EXPIRED, now=3.0)
    assert kept is not None
    assert kept.state is AskState.GRANTED
    expired = await storage.asks.close("ask-2", AskState.EXPIRED, now=3.0)
    assert expired == approval(2, state=AskState.EXPIRED, sealed=b"")
    cancelled = await storage.asks.close("ask-1", AskState.CANCELLED, now=4.0)
    assert cancelled is not None
    assert cancelled.state is AskState.CANCELLED
    assert await storage.asks.close("ask-9", AskState.CANCELLED, now=4.0) is None
    assert await storage.asks.list_open() == []


@with_storage
async def test_a_run_that_ends_leaves_nothing_open(storage: Storage) -> None:
    await begin(storage)
    for ask in (approval(1), approval(2), question()):
        await storage.asks.open(ask)
    await storage.asks.decide("ask-1", attempt=1, decision=Decision.ONCE, by="owner", now=2.0)
    await storage.store.end(KEY, "run-1", DONE, [], now=3.0)
    assert await storage.asks.list_open() == []
    assert await storage.asks.list_unused_calls() == []
    for ask_id in ("ask-1", "ask-2", "question-1"):
        found = await storage.asks.find(ask_id)
        assert found is not None
        assert found.state is AskState.CANCELLED
    for late in (approval(1), approval(9)):
        with pytest.raises(Conflict, match="has ended"):
            await storage.asks.open(late)
    assert await storage.asks.list_open() == []


@with_storage
async def test_a_call_that_was_not_approved_is_told_as_not_executed(storage: Storage) -> None:
    await begin(storage)
    calls = tuple(ToolCall(id=f"c{number}", name="exec", arguments="{}") for number in (1, 2))
    await storage.store.append(KEY, "run-1", [assistant("", tool_calls=calls)], now=2.0)
    await storage.asks.open(approval(1))
    await storage.store.end(KEY, "run-1", DONE, [], now=3.0)
    told = {entry.message.tool_call_id: entry.message.content for entry in (await storage.store.list_entries(KEY))[2:]}
    assert "not executed" in told["c1"]
    assert "interrupted" in told["c2"]


@with_storage
async def test_a_grant_gives_a_spawned_run_its_tool(storage: Storage) -> None:
    await begin(storage)
    run = teammate_run(root=KEY, allowed_tools=())
    await storage.store.spawn(run)
    grant = approval(1, kind=AskKind.GRANT, run_id=run.id)
    await storage.asks.open(grant)
    assert await storage.rules.load() == []
    await storage.asks.decide("ask-1", attempt=1, decision=Decision.RUN, by="owner", now=2.0)
    stored = await storage.store.get_run(run.id)
    assert stored is not None
    assert stored.granted_tools == ("exec",)


@with_storage
async def test_a_rule_is_written_with_its_decision_once_and_one_of_a_run_ends_with_it(storage: Storage) -> None:
    await begin(storage)
    for number in (1, 2, 3):
        await storage.asks.open(approval(number))
    for number, decision in ((1, Decision.ALWAYS), (2, Decision.ALWAYS), (3, Decision.RUN)):
        await storage.asks.decide(f"ask-{number}", attempt=1, decision=decision, by="owner", now=2.0)
    always, of_run = await storage.rules.load()
    assert (always.run, always.created_by, always.created_at) == ("", "owner", 2.0)
    assert of_run.run == "run-1"
    assert always.number < of_run.number
    assert (await storage.store.count_deletion(KEY)).rules == 2
    await storage.store.end(KEY, "run-1", DONE, [], now=3.0)
    assert await storage.rules.load() == [always]
    await storage.rules.delete(always.number)
    assert await storage.rules.load() == []
    with pytest.raises(NotFound):
        await storage.rules.delete(always.number)


@with_storage
async def test_the_same_rule_for_another_teammate_is_another_rule(storage: Storage) -> None:
    await begin(storage)
    asks = [approval(1), approval(2, chain=("ada",), speaker="bob"), approval(3, chain=("ada",), speaker="cleo")]
    for ask in asks:
        opened = await storage.asks.open(ask)
        assert (opened.chain, opened.speaker) == (ask.chain, ask.speaker)
        await storage.asks.decide(ask.id, attempt=1, decision=Decision.ALWAYS, by="owner", now=2.0)
    rules = await storage.rules.load()
    assert [rule.teammates for rule in rules] == [(), ("bob",), ("cleo",)]
    assert [[rule.allows(ask) for ask in asks] for rule in rules] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


@with_storage
async def test_a_reply_to_another_question_or_attempt_answers_nothing(storage: Storage) -> None:
    await begin(storage)
    await storage.asks.open(question(1))
    again = await storage.asks.open(question(1, questions=(Question(question="which other one?"),)))
    assert again.attempt == 2
    given = AskReply(content="this", by="owner", ask_id=again.id, attempt=2)
    for wrong in (replace(given, attempt=1), replace(given, attempt=0), replace(given, ask_id="question-9")):
        with pytest.raises(Conflict, match="another question"):
            await storage.asks.answer(KEY, wrong, now=6.0)
    assert (await storage.asks.answer(KEY, given, now=6.0)).answer == "this"


@with_storage
async def test_every_attempt_of_the_approvals_of_a_run_can_be_read_with_what_became_of_it(storage: Storage) -> None:
    await begin(storage)
    await storage.asks.open(question(1))
    # Asked again while it is pending; expired; denied; granted and used; granted and cancelled.
    await storage.asks.open(approval(1))
    await storage.asks.open(approval(1, call_id="c7", line="exec ls -l", reason="it is new", opened_at=2.0))
    await storage.asks.close("ask-1", AskState.EXPIRED, now=3.0)
    await storage.asks.open(approval(1, opened_at=4.0))
    await storage.asks.decide("ask-1", attempt=3, decision=Decision.DENY, by="owner", now=5.0)
    await storage.asks.open(approval(1, opened_at=6.0))
    used = await storage.asks.decide("ask-1", attempt=4, decision=Decision.ONCE, by="phone", now=7.0)
    await storage.asks.use(used, now=8.0)
    await storage.asks.open(approval(2, opened_at=9.0))
    await storage.asks.decide("ask-2", attempt=1, decision=Decision.ONCE, by="owner", now=10.0)
    await storage.asks.open(approval(3, opened_at=10.5))
    await storage.store.end(KEY, "run-1", DONE, [], now=11.0)

    found = (await storage.traces.find("run-1")).attempts

    assert [
        (each.ask_id, each.attempt, each.state.value, each.opened_at, each.decided_at, each.decided_by, each.closed_at)
        for each in found
    ] == [
        ("ask-1", 1, "pending", 1.0, 0.0, "", 0.0),
        ("ask-1", 2, "expired", 2.0, 0.0, "", 3.0),
        ("ask-1", 3, "denied", 4.0, 5.0, "owner", 5.0),
        ("ask-1", 4, "used", 6.0, 7.0, "phone", 8.0),
        ("ask-2", 1, "cancelled", 9.0, 10.0, "owner", 11.0),
        ("ask-3", 1, "cancelled", 10.5, 0.0, "", 11.0),
    ]
    assert [each.decided_attempts for each in found] == [0, 0, 0, 3, 0, 0]
    assert [(each.call_id, each.line, each.reason) for each in found[:2]] == [
        ("c1", "exec ls", "it is dangerous"),
        ("c7", "exec ls -l", "it is new"),
    ]
    assert (found[0].kind, found[0].speaker, found[0].tool) == (AskKind.APPROVAL, "ada", "exec")
    assert (await storage.traces.list_recent(limit=9, failed=False))[0].attempts == ()
    await storage.store.delete(KEY, now=1000.0)
    assert await storage.asks.find("ask-1") is None
