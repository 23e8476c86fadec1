"""The ports Outbox and KnownDaemons for mail between daemons. Implemented in store/outbox.py and known_daemons.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from moot.domain.goal import MailTarget
from moot.domain.mail import DeadMail, Mail
from moot.domain.outbox import KnownDaemon, OutboxItem, Position, Receipt, ReceiptResult, ReturnedMail
from moot.domain.token import Token

# Returns what is received if there are these goals, by their ids, and these tokens.
JudgeMail = Callable[[Mapping[str, MailTarget], Sequence[Token]], Receipt]
# Raises what prevents a transaction while there are these tokens.
CheckTokens = Callable[[Sequence[Token]], None]
# Is told that a transaction is written, and that only the disk is waited for.
NoteWritten = Callable[[], None]


class Outbox(Protocol):
    """Stores mail until the daemon it is for has it, and what arrives from others. A change is on disk on return."""

    async def load_store_number(self) -> int:
        """Return the number that is in the ids of the goals of this store."""
        ...

    async def add(
        self,
        mails: Sequence[Mail],
        *,
        most: int,
        check: CheckTokens | None = None,
        note_written: NoteWritten | None = None,
    ) -> list[OutboxItem]:
        """Add mail for goals of other stores, and return what was added. Mail that is there already is ignored.

        Raise Busy, and add nothing, if more than `most` would wait. `check` is called in the transaction with all
        tokens; if it raises, nothing is added. `note_written` is called at its end, perhaps more than once, and the
        transaction may fail nevertheless. Both run in another thread.
        """
        ...

    async def list_unpublished(self, stream: str, *, after: int, limit: int) -> list[OutboxItem]:
        """Return items with a number above `after` that the broker has not stored in this stream, in their order."""
        ...

    async def set_positions(self, positions: Mapping[str, Position]) -> None:
        """Note where the broker has stored items, by their id."""
        ...

    async def settle(self, store: int, position: Position, numbers: Sequence[int] = ()) -> int:
        """Remove what a store has received up to this position; return how many items that were.

        `numbers` are those of items whose position is not stored.
        """
        ...

    async def receive(self, receipt: Receipt, *, now: float) -> ReceiptResult:
        """Store what arrived, the notices about what is given back or evicted, and the position, in one transaction.

        What was stored before is ignored. Mail for a goal that does not exist is given back.
        """
        ...

    async def receive_checked(
        self, goal_ids: Sequence[str], judge: JudgeMail, *, now: float
    ) -> tuple[ReceiptResult, Mapping[str, MailTarget], Sequence[Token]]:
        """As `receive`, but what is received is decided in the transaction, by the goals and tokens there are then.

        Also return these. `judge` runs in another thread, and again if the transaction has to be repeated.
        """
        ...

    async def load_position(self) -> Position | None: ...

    async def list_waiting(self, *, limit: int) -> list[OutboxItem]:
        """Return what was not received by its daemon yet, oldest first."""
        ...

    async def count_waiting(self) -> int: ...

    async def list_failed(self, *, limit: int) -> list[DeadMail]:
        """Return mail that was given back, newest first."""
        ...

    async def expire(self, *, before: float, reason: str, now: float, batch: int) -> list[ReturnedMail]:
        """Give back the oldest of the mail that was sent before this time, at most `batch`, and return it.

        Notices about mail from before this time are deleted.
        """
        ...

    async def resend(self, mail_id: str, *, now: float) -> Mail:
        """Send a mail that was given back once more, as a new one; return that.

        Raise NotFound if there is none, and Conflict if the conversation of this store that it was for was deleted.
        """
        ...


class KnownDaemons(Protocol):
    async def list_all(self) -> list[KnownDaemon]: ...

    async def save(self, daemon: KnownDaemon) -> KnownDaemon:
        """Store a daemon, or when it was last seen; return what is stored. The key of a known one is not replaced."""
        ...

    async def forget(self, name: str) -> bool: ...
