"""Makes events for unit tests: a body in an envelope of a run in the conversation (crab, user)."""

from moot.domain.conversation import ConversationKey
from moot.domain.events import Event, EventBody, EventSource

KEY = ConversationKey("crab", "user")
SOURCE = EventSource(key=KEY, root=KEY, speaker="scout", run_id="run-1", root_id="run-1")


def event(body: EventBody, *, source: EventSource = SOURCE, seq: int = 1, at: float = 0.25) -> Event:
    return Event(seq, at, source, body)
