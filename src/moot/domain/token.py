"""Tokens: principals other than the owner."""

from msgspec import Struct


class Token(Struct, frozen=True, kw_only=True):
    """A principal that is not the owner: its default sender is its name, `senders` are the patterns it owns."""

    name: str
    senders: tuple[str, ...]
    created_at: float
    last_used_at: float = 0.0
    revoked_at: float = 0.0
