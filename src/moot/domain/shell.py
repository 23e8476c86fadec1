"""What is thought of a shell command before it runs: harmless as far as can be seen, doubtful, or dangerous. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """`ask` must be put before a person, `dangerous` is refused."""

    OK = "ok"
    ASK = "ask"
    DANGEROUS = "dangerous"


@dataclass(frozen=True, slots=True)
class Verdict:
    level: Level
    reason: str = ""


Classify = Callable[[str], Verdict]
