"""Limits on what an MCP server sends: values in one message, its share of the event loop. Used by the transports."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from moot.domain.ports.clock import Clock

# A message of a few megabytes can contain millions of values, which take seconds to decode.
MOST_VALUES = 100_000
_MARKS: Sequence[bytes] = (b",", b"[", b"{")
_LONGEST_PAUSE = 1.0


def has_too_many_values(message: bytes) -> bool:
    """Whether a JSON text has more values than are decoded. What is inside of strings does not count."""
    if _count_marks(message) <= MOST_VALUES:
        return False
    plain = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 4 * MOST_VALUES:
        return True
    return _count_marks(b"".join(plain.split(b'"')[::2])) > MOST_VALUES


def _count_marks(text: bytes) -> int:
    return sum(map(text.count, _MARKS))


@asynccontextmanager
async def half_of_the_time(clock: Clock) -> AsyncIterator[None]:
    """Pause for as long as the block took, so that whoever sends without end leaves the event loop to others."""
    started = clock.monotonic()
    yield
    await clock.sleep(min(clock.monotonic() - started, _LONGEST_PAUSE))
