"""Identifiers. Pure, except for the random source passed in."""

from random import Random

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def make_id(prefix: str, *, now: float, rng: Random) -> str:
    """Make an id that sorts by creation time: ten characters of time, ten random ones."""
    stamp = int(now * 1000)
    return f"{prefix}-{_base32(stamp, 10)}{_base32(rng.getrandbits(50), 10)}"


def _base32(value: int, width: int) -> str:
    return "".join([_ALPHABET[value >> shift & 31] for shift in range(5 * (width - 1), -1, -5)])
