"""What a person can configure of an agent's memory, as values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """[memory]: how much an agent keeps of one sender, and how often a conversation notes what it was about."""

    # Beyond this many memories of one agent with one sender, the least useful are let go.
    max_entries: int = 1_000
    # An observation is made after this many new messages, a reflection over this many observations. It takes a model
    # call that nobody asked for, so it is off until somebody does.
    observe_every: int = 0
    reflect_every: int = 5
