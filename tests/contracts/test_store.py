"""What every store promises of conversations, text and runs, through the Store port."""

from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moot.domain.conversation import Archive, Conversation, ConversationKey
from moot.domain.deletion import DeletionCounts
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.message import Entry, Message, Role, Thinking, ToolCall, assistant, user
from moot.domain.ports.store import Store
from moot.domain.run import Limits, Outcome, Run, RunEnd, RunStatus
from moot.domain.scope import NO_TOOLS
from moot.domain.usage import RunUsage, Usage
from tests.contracts.store_kit import (
    DONE,
    KEY,
    OTHER,
    Disk,
    archived,
    contents,
    next_daemon,
    request,
    stored,
    turn,
    with_disk,
)
from tests.queued_runs import list_queued_runs
from tests.recovering import end_interrupted

# ---- conversations ------------------------------------------------------------------------------


@stored
async def test_nothing_is_there_before_the_first_reference(store: Store) -> None:
    assert await store.load(KEY) is None
    assert await store.list_conversations() == []
    assert await store.list_entries(KEY) == []
    assert await store.list_runs(KEY) == []
    assert await store.list_archives(KEY) == []
    assert await store.find_run(KEY, "m1") is None
    assert await store.recall(KEY, "anything", limit=5, now=1.0) == []


@stored
async def test_the_first_message_makes_the_conversation(store: Store) -> None:
    begun = await store.begin(request(content="hi"), now=7.0)

    assert begun.created
    assert begun.entry == Entry(seq=1, message=user("hi"), run_id="run-1", created_at=7.0)
    loaded = await store.load(KEY)
    assert loaded is not None
    assert loaded.conversation == Conversation(
        key=KEY, created_at=7.0, updated_at=7.0, last_seq=1, message_count=1, archive_count=0
    )
    assert (loaded.archive, loaded.entries) == (None, (begun.entry,))


@stored
async def test_senders_are_exact_strings_that_never_meet(store: Store) -> None:
    names = ["tg:1", "tg-1", "TG:1", "tg:1 ", "tg:1\0", "t\u011d:1", "tg\u0302:1"]
    for number, name in enumerate(names):
        await store.begin(request(f"r{number}", name, ConversationKey("ada", name)), now=1.0)

    for name in names:
        assert await contents(store, ConversationKey("ada", name)) == [(1, name)]
    assert len(await store.list_conversations(agent="ada")) == len(names)


@stored
async def test_conversations_are_listed_last_used_first_and_filtered(store: Store) -> None:
    await turn(store, 1, "a", now=1.0)
    await turn(store, 1, "b", key=OTHER, now=3.0)
    await turn(store, 1, "c", key=ConversationKey("bob", "x"), now=2.0)

    listed = await store.list_conversations()

    assert [tuple(each.key) for each in listed] == [("ada", "tg:1"), ("bob", "x"), ("ada", "user")]
    assert [each.key for each in await store.list_conversations(agent="ada")] == [OTHER, KEY]
    assert [each.key for each in await store.list_conversations(agent="ada", sender="user")] == [KEY]
    assert await store.list_conversations(sender="nobody") == []


@stored
async def test_a_title_is_kept_and_needs_a_conversation(store: Store) -> None:
    await store.begin(request(), now=1.0)

    await store.set_title(KEY, "Boats")

    (conversation,) = await store.list_conversations()
    assert conversation.title == "Boats"
    with pytest.raises(NotFound):
        await store.set_title(OTHER, "x")


@stored
async def test_entries_can_be_asked_for_by_number_archived_ones_too(store: Store) -> None:
    for number in range(1, 4):
        await turn(store, number, f"answer {number}")
    await store.archive(KEY, archived(4))

    assert [entry.seq for entry in await store.list_entries(KEY)] == [1, 2, 3, 4, 5, 6]
    assert [entry.seq for entry in await store.list_entries(KEY, first=2, last=4)] == [2, 3, 4]
    assert [entry.seq for entry in await store.list_entries(KEY, first=5)] == [5, 6]
    assert await store.list_entries(KEY, first=7) == []


@stored
async def test_deleting_takes_everything_of_one_conversation_and_says_so_before(store: Store) -> None:
    await turn(store, 1, "green boats")
    await store.archive(KEY, archived(2))
    await turn(store, 2, "red boats")
    await store.enqueue(request("waiting"), now=5.0)
    await turn(store, 1, "blue boats", key=OTHER)
    await store.archive(OTHER, archived(2))

    expected = DeletionCounts(messages=4, archives=1, runs=3)
    assert await store.count_deletion(KEY) == expected
    assert (await store.delete(KEY, now=1000.0)).counts == expected

    assert await store.load(KEY) is None
    assert await list_queued_runs(store) == []
    assert await store.recall(KEY, "boats", limit=5, now=60.0) == []
    assert len(await store.recall(OTHER, "boats", limit=5, now=60.0)) == 1
    with pytest.raises(NotFound):
        await store.count_deletion(KEY)
    with pytest.raises(NotFound):
        await store.delete(KEY, now=1000.0)


@stored
async def test_a_deleted_conversation_begins_again_from_one(store: Store) -> None:
    await turn(store, 1, "old words")
    await store.archive(KEY, archived(2))
    await store.delete(KEY, now=1000.0)

    begun = await store.begin(request("again", "new words"), now=9.0)

    assert begun.created
    assert begun.entry.seq == 1
    await store.archive(KEY, archived(1, summary="fresh"))
    (found,) = await store.recall(KEY, "words", limit=5, now=60.0)
    assert [entry.message.content for entry in found.entries] == ["new words"]


# ---- text ---------------------------------------------------------------------------------------

SURROGATES: tuple[Literal["Cs"]] = ("Cs",)
TEXT = st.text(st.characters(exclude_categories=SURROGATES), max_size=200)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(Role),
    content=TEXT,
    agent=TEXT,
    tool_calls=st.lists(st.builds(ToolCall, id=TEXT, name=TEXT, arguments=TEXT), max_size=3).map(tuple),
    tool_call_id=TEXT,
    is_error=st.booleans(),
    thinking=st.lists(st.builds(Thinking, text=TEXT, signature=TEXT), max_size=2).map(tuple),
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=20), cut=st.integers(1, 20))
def test_any_message_comes_back_as_it_was_also_from_an_archive(
    tmp_path_factory: pytest.TempPathFactory, storage_kind: str, messages: list[Message], cut: int
) -> None:
    async def scenario(disk: Disk) -> None:
        store = (await disk.open()).store
        await store.begin(request(), now=1.0)
        written = await store.append(KEY, "run-1", messages, now=2.0)
        await store.archive(KEY, archived(min(cut, len(messages))))
        await store.close()
        store = (await disk.open()).store
        assert [entry.message for entry in (await store.list_entries(KEY))[1:]] == messages
        assert (await store.list_entries(KEY))[1:] == written
        assert [entry.seq for entry in written] == list(range(2, len(messages) + 2))
        assert await store.check() == []
        await store.close()

    with_disk(scenario)(tmp_path_factory.mktemp("any"), storage_kind)


@stored
async def test_strange_text_comes_back_byte_for_byte(store: Store) -> None:
    strange = ["a\0b\0", "👩‍👩‍👧‍👦", "שלום \u202eabc", "x" * 1_000_000, "\u0301" * 10_000, "\r\n\t\x1b[31m", ""]
    await store.begin(request(), now=1.0)

    await store.append(KEY, "run-1", [user(text) for text in strange], now=1.0)

    assert [entry.message.content for entry in (await store.list_entries(KEY))[1:]] == strange


@stored
async def test_a_lone_surrogate_is_refused_and_nothing_is_written(store: Store) -> None:
    bad = "half \ud83d of a face"
    with pytest.raises(BadRequest):
        await store.begin(request(content=bad), now=1.0)
    with pytest.raises(BadRequest):
        await store.enqueue(request(content=bad), now=1.0)
    assert await store.list_conversations() == []

    await store.begin(request(), now=1.0)
    for message in (
        user(bad),
        Message(role=Role.ASSISTANT, content="", thinking=(Thinking(text=bad),)),
        assistant("", tool_calls=(ToolCall(id="c", name=bad, arguments="{}"),)),
    ):
        with pytest.raises(BadRequest):
            await store.append(KEY, "run-1", [user("fine"), message], now=1.0)
    with pytest.raises(BadRequest):
        await store.load(ConversationKey(bad, "x"))
    assert await contents(store) == [(1, "hi")]


# ---- runs ---------------------------------------------------------------------------------------


@stored
async def test_a_run_is_kept_whole(store: Store) -> None:
    asked = request(cwd="/x", client_message_id="m1", limits=Limits(steps=3, seconds=1.5, tokens=100, spend=0.25))
    end = RunEnd(
        outcome=Outcome.LIMIT,
        error="too many steps",
        limit="steps",
        content="so far",
        provider="openai",
        model="big",
        usage=Usage(prompt=10, completion=5, cache_hit=4, cache_miss=6, reasoning=2),
        cost=0.125,
        steps=3,
        seconds=2.5,
    )
    await store.begin(asked, now=1.0)
    running = await store.find_run(KEY, "m1")
    assert running == Run(request=asked, status=RunStatus.RUNNING, created_at=1.0, started_at=1.0, user_seq=1)

    await store.end(KEY, "run-1", end, [assistant("so far")], now=2.0)

    (run,) = await store.list_runs(KEY)
    spent = RunUsage(steps=end.steps, usage=end.usage, cost=end.cost, seconds=end.seconds)
    assert run == replace(running, status=RunStatus.ENDED, ended_at=2.0, end=end, spent=spent)
    assert await store.find_run(KEY, "m1") == run


@stored
async def test_a_reply_that_is_no_message_is_kept_with_the_run(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await store.append(KEY, "run-1", [assistant("hello")], now=1.0)

    await store.end(KEY, "run-1", DONE, (), now=2.0)

    (run,) = await store.list_runs(KEY)
    assert run.end == DONE


@stored
async def test_the_first_end_wins(store: Store) -> None:
    await store.begin(request(), now=1.0)
    await store.end(KEY, "run-1", DONE, [assistant("hello")], now=2.0)

    late = await store.end(KEY, "run-1", RunEnd(outcome=Outcome.CANCELLED), [assistant("late")], now=3.0)

    assert late == []
    assert await contents(store) == [(1, "hi"), (2, "hello")]
    (run,) = await store.list_runs(KEY)
    assert (run.end, run.ended_at) == (DONE, 2.0)


@stored
async def test_an_end_is_refused_behind_text_that_was_not_stored(store: Store) -> None:
    await store.begin(request(), now=1.0)

    with pytest.raises(Conflict, match="not stored"):
        await store.end(KEY, "run-1", DONE, [assistant("hello")], now=2.0, after=2)

    assert await contents(store) == [(1, "hi")]
    assert [run.status for run in await store.list_runs(KEY)] == [RunStatus.RUNNING]
    await store.end(KEY, "run-1", DONE, [assistant("hello")], now=3.0, after=1)
    assert await contents(store) == [(1, "hi"), (2, "hello")]


@stored
async def test_nothing_is_appended_by_a_run_that_has_ended_or_never_was(store: Store) -> None:
    await turn(store, 1, "done")
    with pytest.raises(Conflict):
        await store.append(KEY, "user-1", [assistant("late")], now=3.0)
    with pytest.raises(NotFound):
        await store.append(KEY, "ghost", [assistant("boo")], now=3.0)
    with pytest.raises(NotFound):
        await store.end(KEY, "ghost", DONE, (), now=3.0)
    with pytest.raises(NotFound):
        await store.append(OTHER, "user-1", [assistant("boo")], now=3.0)
    assert await contents(store) == [(1, "question 1"), (2, "done")]


@stored
async def test_a_run_id_is_used_once(store: Store) -> None:
    await store.begin(request(), now=1.0)
    with pytest.raises(Conflict):
        await store.begin(request(content="again"), now=2.0)
    with pytest.raises(Conflict):
        await store.begin(request(key=OTHER), now=2.0)
    with pytest.raises(Conflict):
        await store.enqueue(request(), now=2.0)
    assert await contents(store) == [(1, "hi")]
    assert await store.load(OTHER) is None


@stored
async def test_a_client_message_id_is_one_turn_of_one_conversation(store: Store) -> None:
    await store.begin(request("r1", client_message_id="m"), now=1.0)
    await store.begin(request("r2", key=OTHER, client_message_id="m"), now=1.0)

    with pytest.raises(Conflict):
        await store.begin(request("r3", client_message_id="m"), now=2.0)
    with pytest.raises(Conflict):
        await store.enqueue(request("r4", client_message_id="m"), now=2.0)

    found = await store.find_run(KEY, "m")
    assert found is not None
    assert found.request.id == "r1"
    assert await store.find_run(KEY, "") is None
    assert await contents(store) == [(1, "hi")]


@stored
async def test_waiting_messages_come_back_in_order_and_join_history_when_they_begin(store: Store) -> None:
    await store.begin(request("r1", "first"), now=10.0)
    second = request("r2", "second", speaker="guest", scope=NO_TOOLS, cwd="/y", limits=Limits(tokens=5))
    await store.enqueue(second, now=9.0)
    await store.enqueue(request("r3", "third"), now=8.0)
    await store.enqueue(request("r4", "elsewhere", OTHER), now=7.0)

    assert [run.request.id for run in await list_queued_runs(store)] == ["r2", "r3", "r4"]
    assert (await list_queued_runs(store))[0] == Run(request=second, status=RunStatus.QUEUED, created_at=9.0)
    assert await contents(store) == [(1, "first")]

    await store.end(KEY, "r1", DONE, [assistant("hello")], now=11.0)
    begun = await store.begin(second, now=12.0)

    assert (begun.created, begun.entry.seq, begun.entry.message) == (False, 3, user("second"))
    assert [run.request.id for run in await list_queued_runs(store)] == ["r3", "r4"]
    with pytest.raises(Conflict):
        await store.end(KEY, "r3", DONE, (), now=13.0)


@stored
async def test_a_run_that_never_began_is_ended_without_a_message(store: Store) -> None:
    await store.enqueue(request(client_message_id="m"), now=1.0)

    await store.unqueue("run-1", RunEnd(outcome=Outcome.CANCELLED), now=2.0)
    await store.unqueue("run-1", DONE, now=3.0)

    run = await store.find_run(KEY, "m")
    assert run is not None
    assert (run.status, run.ended_at, run.user_seq) == (RunStatus.ENDED, 2.0, 0)
    assert run.end == RunEnd(outcome=Outcome.CANCELLED)
    assert (await list_queued_runs(store), await contents(store)) == ([], [])
    with pytest.raises(NotFound):
        await store.unqueue("ghost", DONE, now=3.0)
    await store.begin(request("r2"), now=4.0)
    with pytest.raises(Conflict):
        await store.unqueue("r2", DONE, now=5.0)
    with pytest.raises(Conflict):
        await store.begin(request(client_message_id="m"), now=6.0)


@stored
async def test_an_interrupted_turn_runs_again_on_the_message_it_has(store: Store) -> None:
    await store.begin(request("r1", client_message_id="m"), now=1.0)
    with pytest.raises(Conflict):
        await store.rerun(request("r2", client_message_id="m", rerun_of="r1"), now=2.0)
    await store.end(KEY, "r1", RunEnd(outcome=Outcome.INTERRUPTED), (), now=2.0)

    entry = (await store.rerun(request("r2", client_message_id="m", rerun_of="r1"), now=3.0)).entry

    assert (entry.seq, entry.message) == (1, user("hi"))
    await store.end(KEY, "r2", DONE, [assistant("hello")], now=4.0)
    assert await contents(store) == [(1, "hi"), (2, "hello")]
    found = await store.find_run(KEY, "m")
    assert found is not None
    assert (found.request.id, found.request.content, found.user_seq) == ("r2", "hi", 1)
    assert [run.request.id for run in await store.list_runs(KEY)] == ["r1", "r2"]


@stored
async def test_an_interrupted_turn_goes_on_after_the_steps_it_completed(store: Store) -> None:
    call = ToolCall(id="c1", name="set_title", arguments="{}")
    await store.begin(request("r1", client_message_id="m"), now=1.0)
    await store.append(KEY, "r1", [assistant("", tool_calls=(call,))], now=1.0)
    async with next_daemon(store) as again:
        await end_interrupted(again, now=2.0)
        await again.rerun(request("r2", client_message_id="m", rerun_of="r1"), now=3.0)
        await again.end(KEY, "r2", DONE, [assistant("done")], now=4.0)

    assert [seq for seq, _ in await contents(store)] == [1, 2, 3, 4]


@stored
async def test_a_turn_that_is_to_run_again_waits_in_line_like_any_other(store: Store) -> None:
    for key in (KEY, OTHER):
        await store.begin(request(f"{key.sender}-1", key=key, client_message_id="m"), now=1.0)
        await store.end(key, f"{key.sender}-1", RunEnd(outcome=Outcome.INTERRUPTED), (), now=2.0)
        await store.enqueue(
            request(f"{key.sender}-2", key=key, client_message_id="m", rerun_of=f"{key.sender}-1"), now=3.0
        )
    async with next_daemon(store) as again:
        await again.recover()
        first, second = [run.request for run in await list_queued_runs(again)]
        assert [each.rerun_of for each in (first, second)] == [f"{KEY.sender}-1", f"{OTHER.sender}-1"]
        found = await again.find_run(KEY, "m")
        assert found is not None
        assert found.request == first
        # Nobody has spoken since: it goes on with the message that is there.
        assert (await again.rerun(first, now=4.0)).entry.seq == 1
        await again.end(KEY, first.id, DONE, [assistant("hello")], now=5.0)
        assert await contents(again) == [(1, "hi"), (2, "hello")]
        # Somebody has: it stands behind them.
        await again.begin(request("other", "and I", OTHER), now=4.0)
        await again.end(OTHER, "other", DONE, (), now=4.0)
        assert (await again.rerun(second, now=5.0)).entry.seq == 3
        with pytest.raises(Conflict):
            await again.rerun(second, now=6.0)
        assert await list_queued_runs(again) == []
        assert await again.check() == []


@stored
async def test_a_message_that_never_began_begins_when_it_is_sent_again(store: Store) -> None:
    await store.begin(request("r0"), now=1.0)
    await store.enqueue(request("r1", client_message_id="m"), now=1.0)
    await store.unqueue("r1", RunEnd(outcome=Outcome.INTERNAL_ERROR), now=2.0)
    await store.end(KEY, "r0", DONE, (), now=2.0)

    entry = (await store.rerun(request("r2", client_message_id="m", rerun_of="r1"), now=3.0)).entry

    assert (entry.seq, entry.message) == (2, user("hi"))
    found = await store.find_run(KEY, "m")
    assert found is not None
    assert (found.request.id, found.user_seq) == ("r2", 2)


@stored
async def test_a_rerun_that_never_began_is_sent_again_and_its_message_is_not_appended_twice(store: Store) -> None:
    await store.begin(request("r1", client_message_id="m"), now=1.0)
    await store.end(KEY, "r1", RunEnd(outcome=Outcome.INTERRUPTED), (), now=2.0)
    for rerun, earlier in (("r2", "r1"), ("r3", "r2")):
        # It waits behind other work than a message, such as a compaction.
        await store.enqueue(request(rerun, client_message_id="m", rerun_of=earlier), now=2.0)
        await store.unqueue(rerun, RunEnd(outcome=Outcome.INTERNAL_ERROR), now=2.0)

    entry = (await store.rerun(request("r4", client_message_id="m", rerun_of="r3"), now=3.0)).entry

    assert entry.seq == 1
    await store.end(KEY, "r4", DONE, [assistant("hello")], now=4.0)
    assert await contents(store) == [(1, "hi"), (2, "hello")]


@stored
async def test_a_turn_that_others_followed_runs_again_behind_them_with_its_message_once_more(store: Store) -> None:
    await store.begin(request("r1", client_message_id="m"), now=1.0)
    await store.end(KEY, "r1", RunEnd(outcome=Outcome.TIMEOUT), (), now=2.0)
    await store.enqueue(request("r2"), now=2.0)
    await store.unqueue("r2", RunEnd(outcome=Outcome.CANCELLED), now=2.0)
    await store.begin(request("later"), now=2.0)
    await store.end(KEY, "later", DONE, (), now=2.0)

    with pytest.raises(NotFound):
        await store.rerun(request("r3", rerun_of="ghost"), now=3.0)
    with pytest.raises(NotFound):
        await store.rerun(request("r3", key=OTHER, rerun_of="r1"), now=3.0)
    entry = (await store.rerun(request("r3", client_message_id="m", rerun_of="r1"), now=3.0)).entry

    assert (entry.seq, entry.message) == (3, user("hi"))
    found = await store.find_run(KEY, "m")
    assert found is not None
    assert (found.request.id, found.user_seq) == ("r3", 3)


# ---- what runs have used up ---------------------------------------------------------------------


@stored
async def test_what_a_run_has_used_up_is_kept_with_its_steps_and_never_unsaid(store: Store) -> None:
    so_far = RunUsage(steps=2, usage=Usage(prompt=100, completion=20), cost=0.5, seconds=3.0)
    await store.begin(request(), now=1.0)
    await store.append(KEY, "run-1", [assistant("a step")], now=2.0, spent=so_far)
    running = await store.get_run("run-1")
    assert running is not None
    assert running.spent == so_far

    # Who ends it after a crash knows nothing of what it used.
    await store.end(KEY, "run-1", RunEnd(outcome=Outcome.INTERRUPTED), [], now=3.0)

    ended = await store.get_run("run-1")
    assert ended is not None
    assert ended.spent == so_far


@stored
async def test_the_budget_of_a_tree_is_what_its_top_was_allowed_and_all_have_used(store: Store) -> None:
    top = request(limits=Limits(steps=9, tokens=500, spend=0.25))
    child = request("arun-1", key=OTHER, root_id="run-1")
    stranger = request("run-2", key=ConversationKey("bob", "user"))
    for number, each in enumerate((top, child, stranger), start=1):
        await store.begin(each, now=1.0)
        spent = RunUsage(steps=number, usage=Usage(prompt=10 * number, completion=1), cost=number / 8, seconds=number)
        await store.append(each.key, each.id, [assistant("x")], now=2.0, spent=spent)

    limits, used = await store.load_budget("run-1")
    assert limits == top.limits
    assert used == RunUsage(steps=3, usage=Usage(prompt=30, completion=2), cost=3 / 8, seconds=2.0)
    found = await store.get_run("arun-1")
    assert found is not None
    assert found.root_id == "run-1"
    assert await store.load_budget("run-none") == (Limits(), RunUsage())
    # Calls outside steps count too, if they were made for a run of the tree.
    for root_id, model in (("run-1", "big"), ("run-1", "words"), ("run-2", "big"), ("", "big")):
        await store.add_spend(KEY, model, Usage(prompt=100), 0.5, root_id=root_id)
    _, used = await store.load_budget("run-1")
    assert used == RunUsage(steps=3, usage=Usage(prompt=230, completion=2), cost=1 + 3 / 8, seconds=2.0)
    # So do summaries of histories.
    archive = Archive(
        number=1,
        first_seq=1,
        last_seq=1,
        title="T",
        summary="S",
        archived_at=3.0,
        model="big",
        usage=Usage(prompt=1_000),
        cost=2.0,
        root_id="run-1",
    )
    assert (await store.archive(OTHER, archive)).root_id == "run-1"
    _, used = await store.load_budget("run-1")
    assert used == RunUsage(steps=3, usage=Usage(prompt=1_230, completion=2), cost=3 + 3 / 8, seconds=2.0)


@stored
async def test_a_mode_is_kept_with_its_conversation_and_gone_with_it(store: Store) -> None:
    assert await store.find_mode(KEY) == ""
    await store.set_mode(KEY, "plan", now=1.0)
    assert await store.find_mode(KEY) == "plan"
    loaded = await store.load(KEY)
    assert loaded is not None
    assert loaded.conversation.mode == "plan"
    assert [each.mode for each in await store.list_conversations()] == ["plan"]
    await store.set_mode(KEY, "", now=2.0)
    assert await store.find_mode(KEY) == ""
    await store.set_mode(KEY, "free", now=3.0)
    assert await store.find_auto_approve(KEY) == ""
    await store.set_auto_approve(KEY, "edits", now=3.0)
    assert (await store.find_auto_approve(KEY), await store.find_mode(KEY)) == ("edits", "free")
    await store.delete(KEY, now=1000.0)
    assert (await store.find_mode(KEY), await store.find_auto_approve(KEY)) == ("", "")
