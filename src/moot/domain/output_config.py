"""What a person can configure of results that are too long for a model, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConfig:
    """[outputs]: a result over `budget_characters` is kept for `keep_seconds` and shown by its beginning and end."""

    budget_characters: int = 16_000
    keep_seconds: float = 86_400.0
    # Of one conversation; beyond it the oldest go first.
    max_kept: int = 200
    max_characters: int = 16_000_000
