"""QueuedMessage: a message that waits in the daemon for its turn. Used by `other_turns` and `live_rows`."""

from itertools import zip_longest

from msgspec import Struct

from moot.wire import moot_pb2 as pb


class QueuedMessage(Struct, frozen=True):
    """`position` is 0 if it is not known; with `steers` the active run is shown the message at its next step."""

    content: str
    position: int = 0
    steers: bool = False


def list_queued(history: pb.History) -> list[QueuedMessage]:
    # A daemon of an older version does not say which of them steer.
    waiting = zip_longest(history.queued, history.queued_steers, fillvalue=False)
    return [QueuedMessage(str(content), steers=bool(steers)) for content, steers in waiting]
