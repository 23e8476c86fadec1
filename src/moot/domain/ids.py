"""Identifiers. Pure, except for the random source passed in."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
# The digits that `int` reads.
_DIGITS = bytes.maketrans(_ALPHABET.encode(), b"0123456789abcdefghijklmnopqrstuv")


def make_id(prefix: str, *, now: float, rng: "Random") -> str:
    """Make an id that sorts by creation time: ten characters of time, ten random ones."""
    return f"{prefix}-{_base32(int(now * 1000))}{_base32(rng.getrandbits(50))}"


def read_milliseconds(text: str) -> int | None:
    """Return the time in an id that `make_id` has made, in milliseconds; None, or any number, for another text."""
    try:
        return int(text[-20:-10].encode().translate(_DIGITS), 32)
    except ValueError:
        return None


def _base32(value: int) -> str:
    """Return the lowest fifty bits as ten characters."""
    pairs = _PAIRS
    return (
        pairs[value >> 40 & 1023]
        + pairs[value >> 30 & 1023]
        + pairs[value >> 20 & 1023]
        + pairs[value >> 10 & 1023]
        + pairs[value & 1023]
    )


def shorten_ask_id(ask_id: str) -> str:
    """Return a short id of an ask that can be typed: its kind and six characters that follow from the whole id."""
    # Imported where it is needed: every command imports this module, and few show an ask.
    from hashlib import sha256  # noqa: PLC0415

    mark = _base32(int.from_bytes(sha256(ask_id.encode()).digest()[:4], "big"))[-6:]
    return f"{'grant' if ask_id.startswith('grant-') else 'ask'}-{mark}"
