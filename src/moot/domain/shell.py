"""Classification of a shell command before it runs: harmless, doubtful, or dangerous. Pure."""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """`ask` needs a person's approval, `dangerous` is refused."""

    OK = "ok"
    ASK = "ask"
    DANGEROUS = "dangerous"


class Verdict(Struct, frozen=True):
    level: Level
    reason: str = ""


Classify = Callable[[str], Verdict]
