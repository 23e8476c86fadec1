"""Answers to a question of several parts are kept together, and never mixed with those to another."""

from moot.cli.chat.partial_answer import PartialAnswer
from moot.wire import moot_pb2 as pb


def asked(ask_id: str, *parts: str) -> pb.AskUserEvent:
    return pb.AskUserEvent(ask_id=ask_id, questions=[pb.AskQuestion(question=part) for part in parts])


def test_parts_are_answered_in_their_order_and_told_together() -> None:
    answer, which = PartialAnswer(), asked("a", "Which?", "Why?")
    assert answer.part(which).question == "Which?"
    assert answer.take(which, "red") == []
    assert answer.is_begun("a")
    # Told anew by the run that asks, which was joined meanwhile: the same question, of which one part is answered.
    assert answer.part(asked("a", "Which?", "Why?")).question == "Why?"
    assert answer.take(asked("a", "Which?", "Why?"), "warm") == ["red", "warm"]
    assert not answer.is_begun("a")


def test_another_question_begins_at_its_first_part() -> None:
    answer = PartialAnswer()
    assert answer.take(asked("a", "Which?", "Why?"), "red") == []
    other = asked("b", "Where?", "When?")
    assert answer.part(other).question == "Where?"
    assert answer.take(other, "here") == []
    assert answer.take(other, "now") == ["here", "now"]
