"""Whether skills can be imported, and how much of them is taken."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillConfig:
    """`ratio` bounds what an archive may unpack to, as a multiple of its own size beyond the first mebibyte."""

    allow_import: bool = True
    archive_bytes: int = 16_777_216
    unpacked_bytes: int = 33_554_432
    files: int = 1_000
    ratio: int = 100
