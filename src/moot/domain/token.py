"""Tokens: principals other than the owner."""

from collections.abc import Iterable, Iterator
from itertools import count

from msgspec import Struct

from moot.domain.errors import Conflict
from moot.domain.senders import OWNER_SENDER, SenderSet


class Token(Struct, frozen=True, kw_only=True):
    """A principal that is not the owner. `senders` are the patterns it owns besides its own `sender`.

    A name can be used again after a revocation; the sender cannot, because conversations belong to senders.
    """

    name: str
    senders: tuple[str, ...]
    created_at: float
    # Whether it may decide approvals that are shown in conversations of its senders.
    may_approve: bool = False
    # Chosen by the store when the token is added.
    sender: str = ""
    last_used_at: float = 0.0
    revoked_at: float = 0.0

    @property
    def continues_name(self) -> bool:
        """Whether the owner gave the token the sender of earlier tokens with this name."""
        return self.name in self.senders

    @property
    def owned(self) -> SenderSet:
        """Return the senders that it may use."""
        return SenderSet(names=(self.sender,), patterns=self.senders)


def is_cut_off(sender: str, tokens: Iterable[Token]) -> bool:
    """Whether a sender had tokens, and all of them are revoked. The owner needs none."""
    had = [token for token in tokens if token.owned.includes(sender)] if sender != OWNER_SENDER else []
    return bool(had) and all(token.revoked_at for token in had)


def cut_off_error(sender: str) -> Conflict:
    return Conflict(
        f"the token of {sender} was revoked, so its schedules are paused",
        fix=f"The owner can make another token with `--sender {sender}`, or add the job without it.",
    )


def sender_in_use_error(name: str) -> Conflict:
    return Conflict(
        f"there are conversations or other data of a sender named {name!r}, which a token of this name would get",
        fix=f"Choose another name, or add `--sender {name}` if the token is meant to have them.",
    )


def list_sender_candidates(name: str) -> Iterator[str]:
    """Return possible senders of a token, preferred first. The store takes the first that nobody has used."""
    yield name
    for number in count(2):
        yield f"{name}-{number}"
