"""Identifiers. Pure, except for the random source passed in."""

from random import Random

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def make_id(prefix: str, *, now: float, rng: Random) -> str:
    """Make an id that sorts by creation time: ten characters of time, ten random ones."""
    stamp = int(now * 1000)
    return f"{prefix}-{_base32(stamp, 10)}{_base32(rng.getrandbits(50), 10)}"


def _base32(value: int, width: int) -> str:
    digits: list[str] = []
    for _ in range(width):
        value, index = divmod(value, 32)
        digits.append(_ALPHABET[index])
    return "".join(reversed(digits))
