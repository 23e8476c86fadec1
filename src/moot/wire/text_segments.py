"""The events at which text starts and ends, encoded once for each agent. Used by `events`. No I/O."""

from functools import lru_cache

from moot.domain.events import TextEnded, TextStarted
from moot.wire import moot_pb2 as pb


@lru_cache(maxsize=256)
def encode_segment(kind: type[TextStarted | TextEnded], agent: str) -> bytes:
    """Return the ServerMessage: two of five events of an answer are these, and they are always the same."""
    message = pb.ServerMessage()
    if kind is TextStarted:
        message.stream.text_start.agent = agent
    else:
        message.stream.text_end.agent = agent
    return message.SerializeToString()
