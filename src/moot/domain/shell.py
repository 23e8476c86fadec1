"""What is thought of a shell command before it runs: harmless as far as can be seen, doubtful, or dangerous. Pure."""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """`ask` must be put before a person, `dangerous` is refused."""

    OK = "ok"
    ASK = "ask"
    DANGEROUS = "dangerous"


class Verdict(Struct, frozen=True):
    level: Level
    reason: str = ""


Classify = Callable[[str], Verdict]
