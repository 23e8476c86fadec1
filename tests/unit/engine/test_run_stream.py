"""A late reader of a run's stream gets the same as an early one, shorter."""

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError, NotFound
from moot.domain.events import (
    Event,
    EventBody,
    EventSource,
    RunEnded,
    RunStarted,
    TextChunk,
    TextDiscarded,
    TextEnded,
    TextStarted,
    ThinkingChunk,
)
from moot.domain.run import Outcome, RunEnd
from moot.engine.run_stream import RunStream

KEY = ConversationKey("crab", "user")
END = RunEnded("crab", RunEnd(outcome=Outcome.COMPLETED))


def new_stream() -> RunStream:
    return RunStream(EventSource(key=KEY, root=KEY, speaker="crab", run_id="run-1"))


def read(stream: RunStream) -> list[EventBody | MootError]:
    story: list[EventBody | MootError] = []
    stream.subscribe(lambda item: story.append(item.body if isinstance(item, Event) else item))
    return story


def test_a_late_reader_gets_the_text_so_far_in_one_piece() -> None:
    stream = new_stream()
    for event in (RunStarted("crab", 1), TextStarted("crab"), TextChunk("Hel"), TextChunk("lo")):
        stream.publish(event)

    story = read(stream)
    stream.publish(TextChunk("!"))

    assert story == [RunStarted("crab", 1), TextStarted("crab"), TextChunk("Hello"), TextChunk("!")]
    assert read(stream)[-1] == TextChunk("Hello!")


def test_a_late_reader_is_not_told_what_was_taken_back() -> None:
    stream = new_stream()
    kept: list[EventBody] = [RunStarted("crab", 1), ThinkingChunk("hm")]
    bodies: tuple[EventBody, ...] = (
        *kept,
        TextStarted("crab"),
        TextChunk("no"),
        TextEnded("crab"),
        TextDiscarded(),
        END,
    )
    for body in bodies:
        stream.publish(body)

    assert read(stream) == [*kept, END]
    assert stream.closed


def test_a_reader_that_leaves_gets_no_more() -> None:
    stream = new_stream()
    story: list[Event | MootError] = []
    leave = stream.subscribe(story.append)

    leave()
    leave()
    stream.publish(END)

    assert story == []


def test_a_failure_reaches_early_and_late_readers() -> None:
    stream = new_stream()
    early = read(stream)
    error = NotFound("gone")

    stream.fail(error)

    assert early == [error]
    assert read(stream) == [error]
