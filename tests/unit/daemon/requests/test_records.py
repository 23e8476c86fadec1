"""Answers about what is remembered: nothing stored or asked makes them fail, or slow."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from moot.daemon.principal import OWNER
from moot.daemon.requests.conversations import ConversationRequests
from moot.daemon.requests.history_info import list_history_messages
from moot.daemon.requests.pages import PAGE_BYTES, take_page
from moot.daemon.requests.records import RecordDependencies, RecordRequests
from moot.domain.conversation import Archive, Conversation, ConversationKey, LoadedConversation, StoppedTurn
from moot.domain.errors import BadRequest
from moot.domain.message import Entry, Message, ToolCall, assistant, user
from moot.domain.owner import OwnedRun
from moot.domain.run import Outcome, Run, RunEnd, RunRequest, RunStatus
from moot.wire import moot_pb2 as pb

KEY = ConversationKey("ada", "user")


class Kept:
    """A store with some conversations, in which nothing is found."""

    def __init__(self, *updated: float) -> None:
        self._conversations = [Conversation(key=KEY, updated_at=each) for each in updated]

    async def list_conversations(self, **_wanted: Any) -> list[Conversation]:
        return self._conversations

    async def recall(self, key: ConversationKey, query: str, *, limit: int, now: float) -> list[object]:
        return []


class Idle:
    """Runs of which none goes on, and a clock that stands."""

    async def group_by_conversation(self) -> dict[ConversationKey, list[OwnedRun]]:
        return {}

    def active(self, _key: ConversationKey) -> str:
        return ""

    def now(self) -> float:
        return 0.0


class Sent:
    def __init__(self) -> None:
        self.messages: list[pb.ServerMessage] = []

    def send(self, message: pb.ServerMessage) -> None:
        self.messages.append(message)


def records(store: Kept) -> Any:
    idle = cast(Any, Idle())
    return RecordRequests(
        RecordDependencies(
            store=cast(Any, store),
            runs=idle,
            requests=idle,
            clock=idle,
            jobs=idle,
            changes=idle,
            asks=idle,
            workspaces=idle,
            redact=idle,
            gate=idle,
            peers=idle,
        )
    )


async def test_a_time_no_calendar_has_does_not_hide_the_other_conversations() -> None:
    sent = Sent()

    idle = cast(Any, Idle())
    kept = cast(Any, Kept(1e18, float("nan"), 0.0))
    lists = ConversationRequests(store=kept, runs=idle, lookup=idle, asks=idle, modes=idle, clock=idle)
    await lists.list_conversations(pb.ClientMessage(), OWNER, cast(Any, sent))

    assert [each.date for each in sent.messages[0].conversation_list.conversations] == ["", "", "1970-01-01"]


async def test_a_query_of_more_than_4096_characters_is_refused() -> None:
    sent = Sent()

    await records(Kept(0.0)).recall(pb.ClientMessage(recall=pb.RecallMsg(agent="ada", query="é" * 4096)), OWNER, sent)
    assert len(sent.messages) == 1
    with pytest.raises(BadRequest, match="4096"):
        await records(Kept(0.0)).recall(
            pb.ClientMessage(recall=pb.RecallMsg(agent="ada", query="é" * 4097)), OWNER, sent
        )


class Moving:
    """A store in which a run ends after the messages were read and before the runs are."""

    def __init__(self) -> None:
        self._entries = [Entry(seq=1, message=user("hello"), run_id="r", created_at=0.0)]

    async def load(self, key: ConversationKey) -> LoadedConversation:
        return LoadedConversation(
            conversation=Conversation(key=key, last_seq=1), archive=None, entries=tuple(self._entries)
        )

    async def list_runs(self, key: ConversationKey, *, first_seq: int = 1) -> list[Run]:
        self._entries.append(Entry(seq=2, message=assistant("good day"), run_id="r", created_at=0.0))
        end = RunEnd(outcome=Outcome.COMPLETED, content="good day")
        request = RunRequest(id="r", key=key, speaker="ada", content="hello")
        return [Run(request=request, status=RunStatus.ENDED, created_at=0.0, user_seq=1, end=end)]

    async def list_archives(self, key: ConversationKey) -> list[Archive]:
        return []

    async def list_stopped_turns(self, key: ConversationKey, *, first: int = 1) -> list[StoppedTurn]:
        return []

    async def list_entries(self, key: ConversationKey, *, first: int = 1, last: int = 0) -> list[Entry]:
        return [entry for entry in self._entries if entry.seq >= first]


@pytest.mark.parametrize("asked", [{}, {"newest": 1}, {"all": True}, {"first_seq": 1}])
async def test_a_turn_that_is_told_as_over_is_told_with_its_reply(asked: dict[str, Any]) -> None:
    sent = Sent()

    await records(cast(Any, Moving())).get_history(
        pb.ClientMessage(get_history=pb.GetHistoryMsg(agent="ada", **asked)), OWNER, sent
    )

    told = [(message.content, message.outcome) for message in sent.messages[0].history.messages]
    assert told == [("hello", "completed"), ("good day", "")]


class Counted(list[Archive]):
    """A list that knows how often it was gone through."""

    times = 0

    def __iter__(self) -> Iterator[Archive]:
        self.times += 1
        return super().__iter__()


def test_each_message_has_the_number_of_its_archive_without_a_look_at_them_all() -> None:
    archives = Counted(
        Archive(number=number, first_seq=first, last_seq=last, title="T", summary="S", archived_at=0.0)
        for number, first, last in ((1, 1, 2), (2, 3, 3), (3, 5, 6))
    )
    entries = [Entry(seq=seq, message=user("hi"), run_id="", created_at=0.0) for seq in range(1, 9)]

    assert [each.archive for each in list_history_messages(entries, (), (), archives)] == [1, 1, 2, 0, 3, 3, 0, 0]
    assert archives.times <= 1


@pytest.mark.parametrize(
    "message",
    [
        user("\x01" * (PAGE_BYTES // 10)),
        assistant("", tool_calls=(ToolCall(id="i" * (PAGE_BYTES * 3 // 5), name="read", arguments="{}"),)),
    ],
)
def test_a_page_counts_what_its_messages_take_once_written(message: Message) -> None:
    entries = [Entry(seq=seq, message=message, run_id="", created_at=0.0) for seq in (1, 2)]

    assert take_page(entries, 0) == (entries[:1], 2)
