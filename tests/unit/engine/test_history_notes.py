"""Notes about turns that ended without an answer: which turns get one, and where it stays after a compaction."""

from msgspec.structs import replace

from moot.domain.conversation import Archive, Conversation, LoadedConversation
from moot.domain.message import Entry, Message, assistant, user
from moot.domain.run import Outcome, RunEnd
from moot.engine.history import History
from tests.unit.shelves import ADA

NOTE = "Do not act on that message"


def begin() -> History:
    conversation = Conversation(key=ADA, created_at=1.0, updated_at=1.0)
    return History(LoadedConversation(conversation=conversation, archive=None, entries=()))


def say(history: History, message: Message, run_id: str) -> int:
    history.extend([Entry(seq=history.last_seq + 1, message=message, run_id=run_id, created_at=1.0)])
    return history.last_seq


def render(history: History) -> list[str]:
    return [message.content for message in history.transcript(with_tools=True).messages]


def test_a_turn_that_was_cut_short_with_an_answer_needs_no_note() -> None:
    history = begin()
    seq = say(history, user("first"), "one")
    say(history, assistant("a part of it"), "one")
    history.end_turn(seq, "ada", RunEnd(outcome=Outcome.LIMIT, content="a part of it"))
    say(history, user("second"), "two")

    assert render(history) == ["first", "a part of it", "second"]


def test_a_compaction_takes_the_note_along_with_the_message_it_is_about() -> None:
    history = begin()
    history.end_turn(say(history, user("first"), "one"), "ada", RunEnd(outcome=Outcome.CANCELLED))
    history.end_turn(say(history, user("second"), "two"), "ada", RunEnd(outcome=Outcome.CANCELLED))
    say(history, user("third"), "three")
    assert [NOTE in text for text in render(history)] == [False, True, False, True, False]
    archive = Archive(number=1, first_seq=1, last_seq=1, title="T.", summary="T.", archived_at=2.0)

    history.drop_archived(archive)
    assert [NOTE in text for text in render(history)] == [False, False, True, False]

    history.drop_archived(replace(archive, number=2, first_seq=2, last_seq=2))
    assert [NOTE in text for text in render(history)] == [False, False]
