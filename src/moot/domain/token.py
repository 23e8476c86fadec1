"""Tokens: who may come in beside the owner."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A principal that is not the owner: its default sender is its name, `senders` are the patterns it owns."""

    name: str
    senders: tuple[str, ...]
    created_at: float
    last_used_at: float = 0.0
    revoked_at: float = 0.0
