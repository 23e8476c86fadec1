"""Classification of a shell command before it runs: harmless, destructive, doubtful, or dangerous. Pure."""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """`destructive` is not ordinary in mode work, `ask` needs a person's approval, `dangerous` is refused."""

    OK = "ok"
    DESTRUCTIVE = "destructive"
    ASK = "ask"
    DANGEROUS = "dangerous"


class Verdict(Struct, frozen=True):
    level: Level
    reason: str = ""
    # The files that it deletes or overwrites if they exist; a name that ends in / stands for all files in a folder.
    lost_files: tuple[str, ...] = ()


Classify = Callable[[str], Verdict]
