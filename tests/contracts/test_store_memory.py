"""What every store promises of crashes, archives, imports, spending and tokens, through the Store port."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from moot.domain.conversation import Conversation, ConversationKey, StoppedTurn
from moot.domain.errors import BadRequest, Conflict, NotFound, StoreError
from moot.domain.message import Message, Role, ToolCall, assistant, tool_result, user
from moot.domain.ports.storage import Storage
from moot.domain.ports.store import Store
from moot.domain.run import Outcome, RunEnd, RunStatus
from moot.domain.token import Token
from moot.domain.usage import Usage, UsageRow
from tests.contracts.store_kit import (
    DONE,
    KEY,
    OTHER,
    archived,
    contents,
    next_daemon,
    request,
    stored,
    turn,
    with_storage,
)
from tests.queued_runs import list_queued_runs
from tests.recovering import end_interrupted

CALLS = tuple(ToolCall(id=f"c{number}", name="look", arguments="{}") for number in (1, 2, 3))

# ---- after a crash ------------------------------------------------------------------------------


@stored
async def test_what_was_running_is_interrupted_and_what_waits_goes_on_waiting(store: Store) -> None:
    await turn(store, 1, "done")
    await store.begin(request("r2", "and then?"), now=2.0)
    await store.enqueue(request("r3"), now=3.0)
    await store.begin(request("r4", "elsewhere", OTHER), now=4.0)

    async with next_daemon(store) as again:
        recovered = await end_interrupted(again, now=9.0)
        # What is left now goes on.
        assert await end_interrupted(again, now=10.0) == []

    assert [(run.request.id, run.request.content) for run in recovered] == [("r2", "and then?"), ("r4", "elsewhere")]
    for run in recovered:
        assert (run.status, run.ended_at) == (RunStatus.ENDED, 9.0)
        assert run.end is not None
        assert run.end.outcome is Outcome.INTERRUPTED
    assert [run.request.id for run in await list_queued_runs(store)] == ["r3"]
    assert [run.status for run in await store.list_runs(KEY)] == [RunStatus.ENDED, RunStatus.ENDED, RunStatus.QUEUED]
    assert await contents(store) == [(1, "question 1"), (2, "done"), (3, "and then?")]


@stored
async def test_calls_without_a_result_are_closed_in_call_order(store: Store) -> None:
    await store.begin(request("r1"), now=1.0)
    await store.append(KEY, "r1", [assistant("", tool_calls=CALLS), tool_result("c2", "seen")], now=2.0)

    async with next_daemon(store) as again:
        await end_interrupted(again, now=3.0)

    results = (await store.list_entries(KEY))[2:]
    assert [entry.message.tool_call_id for entry in results] == ["c2", "c1", "c3"]
    assert [entry.message.is_error for entry in results] == [False, True, True]
    assert all("interrupted" in entry.message.content for entry in results[1:])
    assert [(entry.seq, entry.run_id) for entry in results] == [(3, "r1"), (4, "r1"), (5, "r1")]


@stored
async def test_calls_that_all_have_results_are_left_alone(store: Store) -> None:
    await store.begin(request("r1"), now=1.0)
    results = [tool_result(call.id, "seen") for call in CALLS]
    await store.append(KEY, "r1", [assistant("", tool_calls=CALLS), *results], now=2.0)
    await store.begin(request("r2", "x", OTHER), now=2.0)
    await store.append(OTHER, "r2", [assistant("", tool_calls=CALLS), *results, assistant("seen all")], now=2.0)

    async with next_daemon(store) as again:
        await end_interrupted(again, now=3.0)

    assert len(await store.list_entries(KEY)) == 5
    assert len(await store.list_entries(OTHER)) == 6


# ---- archives -----------------------------------------------------------------------------------


@stored
async def test_an_archive_is_a_marker_and_the_messages_stay_as_they_are(store: Store) -> None:
    await store.begin(request("r1"), now=1.0)
    await store.end(KEY, "r1", DONE, [Message(role=Role.ASSISTANT, content="hello", agent="guest")], now=2.0)
    await turn(store, 2, "kept")
    before = await store.list_entries(KEY)
    usage = Usage(prompt=7, completion=3)

    first = await store.archive(KEY, archived(2, model="m", usage=usage, cost=0.5))

    expected = archived(2, number=1, first_seq=1, model="m", usage=usage, cost=0.5)
    assert first == expected
    assert await store.list_entries(KEY) == before
    loaded = await store.load(KEY)
    assert loaded is not None
    assert (loaded.archive, [entry.seq for entry in loaded.entries]) == (expected, [3, 4])
    assert (loaded.conversation.last_seq, loaded.conversation.archive_count) == (4, 1)

    second = await store.archive(KEY, archived(4, first_seq=3, number=2))
    assert (second.number, second.first_seq, second.last_seq) == (2, 3, 4)
    assert await store.list_archives(KEY) == [first, second]
    loaded = await store.load(KEY)
    assert loaded is not None
    assert (loaded.archive, loaded.entries) == (second, ())
    begun = await store.begin(request("r9", "next"), now=9.0)
    assert begun.entry.seq == 5


async def seqs_seen(store: Store) -> tuple[int, list[int]]:
    """What a speaker sees: the archive whose summary opens it, 0 for none, and the messages."""
    loaded = await store.load(KEY)
    assert loaded is not None
    return loaded.archive.number if loaded.archive else 0, [entry.seq for entry in loaded.entries]


@stored
async def test_what_follows_an_archive_is_not_changed_once_messages_do(store: Store) -> None:
    await turn(store, 1, "one")
    await store.open_stretch(KEY, closing=archived(2, summary=""))
    await turn(store, 2, "two")
    with pytest.raises(Conflict, match="messages were added"):
        await store.open_stretch(KEY, closing=None, resumed=1)
    loaded = await store.load(KEY)
    assert loaded is not None
    assert [entry.message.content for entry in loaded.entries] == ["question 2", "two"]


@stored
async def test_a_new_stretch_begins_empty_and_an_archive_can_be_resumed(store: Store) -> None:
    await turn(store, 1, "one")
    await store.archive(KEY, archived(2))
    await turn(store, 2, "two")
    await store.set_title(KEY, "The second")
    closed = await store.open_stretch(KEY, closing=archived(4, summary="", taint=frozenset({"web"})))

    assert (closed.number, closed.title, closed.is_closed, closed.resumed) == (2, "The second", True, 0)
    assert await seqs_seen(store) == (0, [])
    (listed,) = await store.list_conversations()
    assert (listed.title, listed.taint, listed.archived_seq) == ("", frozenset(), 4)

    await turn(store, 3, "three")
    assert (await store.open_stretch(KEY, closing=archived(6, summary=""), resumed=2)).resumed == 2
    # The resumed archive is seen as it was: behind the summary of the one before it.
    assert await seqs_seen(store) == (1, [3, 4])
    await turn(store, 4, "four")
    assert await seqs_seen(store) == (1, [3, 4, 7, 8])
    assert [each.title for each in await store.list_conversations()] == ["The second"]

    # Closed again and resumed again: both parts are there.
    await store.open_stretch(KEY, closing=archived(8, summary=""))
    await turn(store, 5, "five")
    await store.open_stretch(KEY, closing=archived(10, summary=""), resumed=4)
    assert await seqs_seen(store) == (1, [3, 4, 7, 8])
    # Nothing was said since: what follows is changed in place.
    assert (await store.open_stretch(KEY, closing=None, resumed=3)).number == 5
    assert await seqs_seen(store) == (0, [5, 6])
    await store.open_stretch(KEY, closing=None)
    assert await seqs_seen(store) == (0, [])
    assert len(await store.list_archives(KEY)) == 5
    assert await store.check() == []


@stored
async def test_a_stretch_is_refused_that_names_no_archive_or_leaves_messages_out(store: Store) -> None:
    await turn(store, 1, "one")
    with pytest.raises(NotFound, match="no archive 7"):
        await store.open_stretch(KEY, closing=archived(2), resumed=7)
    with pytest.raises(Conflict):
        await store.open_stretch(KEY, closing=None)
    assert await seqs_seen(store) == (0, [1, 2])
    assert await store.list_archives(KEY) == []


@stored
async def test_the_taint_of_a_resumed_archive_counts_until_it_is_trusted(store: Store) -> None:
    await store.begin(request("run-1", taint=frozenset({"web"})), now=1.0)
    await store.end(KEY, "run-1", DONE, [assistant("hello")], now=2.0)
    await store.open_stretch(KEY, closing=archived(2, summary=""))
    assert [each.taint for each in await store.list_conversations()] == [frozenset()]
    await store.open_stretch(KEY, closing=None, resumed=1)
    assert [each.taint for each in await store.list_conversations()] == [frozenset({"web"})]
    await store.trust(KEY, last=2)
    assert [each.taint for each in await store.list_conversations()] == [frozenset()]


@stored
async def test_a_conversation_keeps_the_model_that_was_chosen_for_it(store: Store) -> None:
    await store.set_model(KEY, "large", now=1.0)
    loaded = await store.load(KEY)
    assert loaded is not None
    assert loaded.conversation.model == "large"
    await store.set_model(KEY, "", now=2.0)
    assert [each.model for each in await store.list_conversations()] == [""]


@pytest.mark.parametrize(("first", "last"), [(1, 4), (0, 2), (2, 4), (4, 4), (3, 5), (3, 2), (0, 0)])
def test_an_archive_must_be_the_oldest_active_stretch(tmp_path: Path, storage_kind: str, first: int, last: int) -> None:
    @stored
    async def scenario(store: Store) -> None:
        await turn(store, 1, "a")
        await turn(store, 2, "b")
        await store.archive(KEY, archived(2))

        with pytest.raises(Conflict):
            await store.archive(KEY, archived(last, first_seq=first))

        assert len(await store.list_archives(KEY)) == 1
        with pytest.raises(NotFound):
            await store.archive(OTHER, archived(1))

    scenario(tmp_path, storage_kind)


# ---- export and import --------------------------------------------------------------------------


@stored
async def test_an_imported_conversation_is_whole_and_goes_on(store: Store) -> None:
    conversation = Conversation(key=KEY, title="Old", cwd="/old", created_at=1.0, updated_at=8.0, last_seq=99)
    messages = [(user("about boats"), 2.0), (assistant("green", agent="guest"), 3.0), (user("more"), 4.0)]
    archives = [archived(2, number=1, first_seq=1, archived_at=5.0)]

    await store.restore_conversation(conversation, messages, archives)

    loaded = await store.load(KEY)
    assert loaded is not None
    assert loaded.conversation == replace(conversation, last_seq=3, message_count=3, archive_count=1, archived_seq=2)
    assert loaded.archive == archives[0]
    entries = await store.list_entries(KEY)
    assert [(entry.message, entry.created_at) for entry in entries] == messages
    assert {entry.run_id for entry in entries} == {""}
    (found,) = await store.recall(KEY, "boats", limit=3, now=9.0)
    assert found.archive == archives[0]
    begun = await store.begin(request(content="on we go"), now=9.0)
    assert (begun.created, begun.entry.seq) == (False, 4)


@stored
async def test_how_imported_turns_ended_is_kept_and_is_no_run_of_this_store(store: Store) -> None:
    messages = [(user("old"), 1.0), (user("delete it"), 2.0), (user("Bob?"), 3.0), *long_past(600)]
    stops = [
        StoppedTurn(user_seq=1, speaker="ada", outcome="interrupted"),
        StoppedTurn(user_seq=2, speaker="ada", outcome="cancelled"),
        StoppedTurn(user_seq=3, speaker="bob", outcome="cancelled"),
        StoppedTurn(user_seq=len(messages), speaker="ada", outcome="limit"),
    ]
    await store.restore_conversation(Conversation(key=KEY), messages, [archived(1, number=1)], stops)

    assert await store.list_stopped_turns(KEY) == stops
    assert await store.list_stopped_turns(KEY, first=3) == stops[2:]
    assert await store.list_stopped_turns(OTHER) == []
    loaded = await store.load(KEY)
    assert loaded is not None
    assert list(loaded.stopped) == stops[1:]
    assert await store.list_runs(KEY) == []
    assert await store.list_spend() == []
    await store.begin(request("r1", "hi"), now=9.0)
    await store.end(KEY, "r1", RunEnd(outcome=Outcome.TIMEOUT), (), now=9.5)
    assert [turn.outcome for turn in await store.list_stopped_turns(KEY, first=4)] == ["limit", "timeout"]
    async with next_daemon(store) as again:
        assert (await again.list_stopped_turns(KEY))[:4] == stops
        await again.delete(KEY, now=1000.0)
        await again.restore_conversation(Conversation(key=KEY), messages, [])
        assert await again.list_stopped_turns(KEY) == []
        assert await again.check() == []


@stored
async def test_an_import_never_overwrites_and_a_bad_one_leaves_nothing(store: Store) -> None:
    await turn(store, 1, "mine")
    with pytest.raises(Conflict):
        await store.restore_conversation(Conversation(key=KEY), [(user("theirs"), 1.0)], [])
    assert await contents(store) == [(1, "question 1"), (2, "mine")]

    for archives in ([archived(2)], [archived(1, number=2)], [archived(1), archived(1)]):
        with pytest.raises((BadRequest, Conflict)):
            await store.restore_conversation(Conversation(key=OTHER), [(user("x"), 1.0)], archives)
        assert await store.load(OTHER) is None


def long_past(count: int = 3_000) -> list[tuple[Message, float]]:
    """More than is written in one go."""
    return [(user(f"message {number} of boats " + "x" * 600), float(number)) for number in range(count)]


@with_storage
async def test_an_import_is_seen_whole_or_not_at_all_and_others_write_meanwhile(storage: Storage) -> None:
    store, messages, archives = storage.store, long_past(), [archived(700, number=1), archived(1_200, number=2)]
    importing = asyncio.ensure_future(
        store.restore_conversation(Conversation(key=KEY, title="Old"), messages, archives)
    )
    seen, turns = set(), 0
    while not importing.done():
        turns += 1
        await store.begin(request(f"r{turns}", "hi", OTHER), now=1.0)
        seen.add(len(await store.list_entries(KEY)))
        assert {conversation.key for conversation in await store.list_conversations()} <= {KEY, OTHER}
    await importing
    # However many turns there was time for: they waited for one of these transactions at most, not for all messages.
    assert storage.count_commits().transactions - turns >= len(messages) / 200
    assert seen <= {0, len(messages)}
    assert [(entry.message, entry.created_at) for entry in await store.list_entries(KEY)] == messages
    assert [archive.last_seq for archive in await store.list_archives(KEY)] == [700, 1_200]
    assert len(await store.recall(KEY, "boats", limit=9, now=9.0)) == 2
    assert await store.check() == []


@stored
async def test_a_message_that_came_during_an_import_waits_behind_what_was_imported(store: Store) -> None:
    importing = asyncio.ensure_future(store.restore_conversation(Conversation(key=KEY), long_past(), []))
    await asyncio.sleep(0)
    await store.enqueue(request("late", "and me?"), now=5.0)
    assert not importing.done()
    await importing
    assert [run.request.id for run in await list_queued_runs(store)] == ["late"]
    assert (await store.begin(request("late", "and me?"), now=6.0)).entry.seq == 3_001
    assert len(await store.list_conversations()) == 1
    assert await store.check() == []


@stored
async def test_an_import_that_is_stopped_leaves_nothing(store: Store) -> None:
    importing = asyncio.ensure_future(store.restore_conversation(Conversation(key=KEY), long_past(), [archived(900)]))
    # Some of it is on disk by then.
    for turns in range(3):
        await store.begin(request(f"r{turns}", "hi", OTHER), now=1.0)
    importing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await importing
    assert [conversation.key for conversation in await store.list_conversations()] == [OTHER]
    assert await store.load(KEY) is None
    assert await store.check() == []
    await store.restore_conversation(Conversation(key=KEY), long_past(), [archived(900)])
    assert len(await store.recall(KEY, "boats", limit=9, now=9.0)) == 1


@stored
async def test_an_empty_import_is_an_empty_conversation(store: Store) -> None:
    await store.restore_conversation(Conversation(key=KEY, title="Nothing"), [], [])
    (found,) = await store.list_conversations()
    assert (found.key, found.title, found.last_seq) == (KEY, "Nothing", 0)


# ---- spending -----------------------------------------------------------------------------------


@stored
async def test_spending_is_added_up_by_conversation_and_model(store: Store) -> None:
    usage = Usage(prompt=10, completion=5, cache_hit=1, cache_miss=9, reasoning=2)
    for number, (key, model) in enumerate([(KEY, "big"), (KEY, "big"), (KEY, "small"), (OTHER, "big")]):
        await store.begin(request(f"r{number}", key=key), now=1.0)
        end = RunEnd(outcome=Outcome.COMPLETED, model=model, usage=usage, cost=0.25)
        await store.end(key, f"r{number}", end, (), now=2.0)
    await store.begin(request("running"), now=3.0)
    await store.archive(KEY, archived(1, model="small", usage=Usage(prompt=100), cost=1.0))

    rows = await store.list_spend(agent="ada")

    small = Usage(prompt=110, completion=5, cache_hit=1, cache_miss=9, reasoning=2)
    assert rows == [
        UsageRow(agent="ada", sender="tg:1", model="big", runs=1, usage=usage, cost=0.25),
        UsageRow(agent="ada", sender="user", model="big", runs=2, usage=usage + usage, cost=0.5),
        UsageRow(agent="ada", sender="user", model="small", runs=1, usage=small, cost=1.25),
    ]
    assert await store.list_spend(sender="tg:1") == rows[:1]
    assert await store.list_spend(agent="nobody") == []


@stored
async def test_calls_outside_runs_are_counted_for_an_agent_and_a_sender_until_these_are_deleted(store: Store) -> None:
    used = Usage(prompt=7, completion=2, cache_hit=1)
    await store.begin(request("r1"), now=1.0)
    await store.end(KEY, "r1", RunEnd(outcome=Outcome.COMPLETED, model="big", usage=used, cost=0.5), (), now=2.0)
    for key, model in ((KEY, "big"), (KEY, "words"), (KEY, "words"), (OTHER, "big")):
        await store.add_spend(key, model, used, 0.25)

    rows = await store.list_spend()

    assert [(each.sender, each.model, each.runs, each.usage.prompt, each.cost) for each in rows] == [
        ("tg:1", "big", 0, 7, 0.25),
        ("user", "big", 1, 14, 0.75),
        ("user", "words", 0, 14, 0.5),
    ]
    # A conversation of a teammate that is unknown counts for nobody.
    await store.add_spend(ConversationKey("ada", "run:none"), "big", used, 1.0)
    assert await store.list_spend() == rows
    assert await store.list_teammate_spend() == []
    await store.delete(KEY, now=1000.0)
    assert await store.list_spend() == rows[:1]


# ---- tokens -------------------------------------------------------------------------------------


@stored
async def test_a_token_is_found_by_its_digest_until_it_is_revoked(store: Store) -> None:
    token = Token(name="phone", senders=("phone", "tg:*"), created_at=1.0, may_approve=True)
    token = await store.add_token(token, "d1")

    assert token.sender == "phone"
    assert await store.find_token("d1") == token
    assert await store.find_token("d2") is None
    await store.touch_token("phone", now=100.0)
    await store.touch_token("phone", now=101.0)
    assert await store.list_tokens() == [replace(token, last_used_at=100.0)]

    await store.revoke_token("phone", now=200.0)
    await store.revoke_token("phone", now=300.0)

    assert await store.find_token("d1") is None
    assert await store.list_tokens() == [replace(token, last_used_at=100.0, revoked_at=200.0)]
    with pytest.raises(NotFound):
        await store.revoke_token("ghost", now=1.0)


@stored
async def test_a_token_name_is_free_again_only_after_it_was_revoked(store: Store) -> None:
    await store.add_token(Token(name="phone", senders=("phone",), created_at=1.0), "d1")
    with pytest.raises(Conflict):
        await store.add_token(Token(name="phone", senders=("x",), created_at=2.0), "d2")
    with pytest.raises(Conflict):
        await store.add_token(Token(name="other", senders=("x",), created_at=2.0), "d1")
    await store.revoke_token("phone", now=3.0)

    await store.add_token(Token(name="phone", senders=("x",), created_at=4.0), "d2")

    assert await store.find_token("d1") is None
    assert [(token.senders, token.revoked_at) for token in await store.list_tokens()] == [
        (("phone",), 3.0),
        (("x",), 0.0),
    ]
    with pytest.raises(Conflict):
        await store.add_token(Token(name="other", senders=("x",), created_at=5.0), "d1")


@stored
async def test_a_token_never_gets_the_sender_of_an_earlier_one_unless_the_owner_names_it(store: Store) -> None:
    async def reissue(number: int, *senders: str) -> Token:
        if number > 1:
            await store.revoke_token("phone", now=float(number))
        return await store.add_token(Token(name="phone", senders=senders, created_at=float(number)), f"d{number}")

    # The owner's own conversation under a sender that would be next.
    await store.set_cwd(ConversationKey("ada", "phone-2"), "/x", now=1.0)

    assert (await reissue(1)).sender == "phone"
    assert (await reissue(2)).sender == "phone-3"
    assert (await reissue(3, "tg:*")).sender == "phone-4"
    assert (await reissue(4, "phone")).sender == "phone"
    assert (await reissue(5)).sender == "phone-5"
    assert [token.sender for token in await store.list_tokens() if not token.revoked_at] == ["phone-5"]


# ---- the end ------------------------------------------------------------------------------------


@stored
async def test_a_closed_store_says_so_and_can_be_closed_again(store: Store) -> None:
    await store.close()
    await store.close()
    with pytest.raises(StoreError):
        await store.begin(request(), now=1.0)
    with pytest.raises(StoreError):
        await store.load(KEY)
