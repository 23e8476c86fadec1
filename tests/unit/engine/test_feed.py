"""A late follower hears the same story as an early one, shorter."""

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError, NotFound
from moot.domain.events import (
    EventBody,
    RunEnded,
    RunStarted,
    TextChunk,
    TextDiscarded,
    TextEnded,
    TextStarted,
    ThinkingChunk,
)
from moot.domain.run import Outcome, RunEnd
from moot.engine.feed import Feed

KEY = ConversationKey("crab", "user")
END = RunEnded("crab", RunEnd(outcome=Outcome.COMPLETED))


def heard(feed: Feed) -> list[EventBody | MootError]:
    story: list[EventBody | MootError] = []
    feed.follow(story.append)
    return story


def test_a_late_follower_gets_the_text_so_far_in_one_piece() -> None:
    feed = Feed(KEY, speaker="crab")
    for event in (RunStarted("crab", 1), TextStarted("crab"), TextChunk("Hel"), TextChunk("lo")):
        feed.emit(event)

    story = heard(feed)
    feed.emit(TextChunk("!"))

    assert story == [RunStarted("crab", 1), TextStarted("crab"), TextChunk("Hello"), TextChunk("!")]
    assert heard(feed)[-1] == TextChunk("Hello!")


def test_a_late_follower_is_not_told_what_was_taken_back() -> None:
    feed = Feed(KEY, speaker="crab")
    kept = [RunStarted("crab", 1), ThinkingChunk("hm")]
    for event in (*kept, TextStarted("crab"), TextChunk("no"), TextEnded("crab"), TextDiscarded(), END):
        feed.emit(event)

    assert heard(feed) == [*kept, END]
    assert feed.closed


def test_who_leaves_hears_no_more() -> None:
    feed = Feed(KEY, speaker="crab")
    story: list[EventBody | MootError] = []
    leave = feed.follow(story.append)

    leave()
    leave()
    feed.emit(END)

    assert story == []


def test_a_failure_reaches_early_and_late_followers() -> None:
    feed = Feed(KEY, speaker="crab")
    early = heard(feed)
    error = NotFound("gone")

    feed.fail(error)

    assert early == [error]
    assert heard(feed) == [error]
