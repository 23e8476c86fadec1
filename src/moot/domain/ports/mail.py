"""The MailStore port: mail between agents and the goals that receive it. Implemented in store/mail.py."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from moot.domain.conversation import ConversationKey
from moot.domain.goal import Goal, MailTarget
from moot.domain.lost_mail import LostMail
from moot.domain.mail import DeadMail, Mail
from moot.domain.token import Token


class MailStore(Protocol):
    """Stores mail. A change is on disk when the method returns. Mail is read once a delivery of it is stored."""

    def send(self, mails: Sequence[Mail], *, now: float) -> Awaitable[list[Mail]]:
        """Store mail for goals of this store and return what it evicted.

        Mail that was stored before is ignored. A goal that does not exist (any more) raises NotFound.
        """
        ...

    async def list_unread(self, key: ConversationKey) -> list[Mail]:
        """Return the unread mail of a conversation, oldest first."""
        ...

    async def list_untold(self, key: ConversationKey) -> list[LostMail]:
        """Return the lost mail that a conversation was not told of, among the newest: missed ones, then sent ones."""
        ...

    async def list_shown_by(self, run_id: str) -> list[Mail]:
        """Return the mail that a run has been shown."""
        ...

    async def list_correlated(self, correlation_id: str) -> list[Mail]:
        """Return all mail with a correlation id, oldest first, read or not; then bridge messages to other stores."""
        ...

    async def count_unread(self) -> dict[ConversationKey, int]:
        """Return the conversations that have unread mail, with its number."""
        ...

    async def list_wakes(self, thread: str) -> frozenset[str]:
        """Return the ids of the runs that were started by mail of a thread."""
        ...

    def find_targets(self, goal_ids: Sequence[str]) -> Awaitable[tuple[dict[str, MailTarget], list[Token]]]:
        """Return those of the goals that exist, by the given ids, and the tokens that decide whose they are."""
        ...

    async def find_goal_of(self, key: ConversationKey) -> Goal | None: ...
    async def list_goals(self, *, agent: str = "", since: float, limit: int) -> list[Goal]:
        """Return live goals, last used first: those with a run, and interactive ones used after `since`."""
        ...

    async def evict(self, key: ConversationKey, *, now: float) -> list[Mail]:
        """Evict all unread mail of a conversation whose runs have ended; return it.

        Nothing is evicted while a run has not ended, also one that another daemon has taken over.
        """
        ...

    async def set_muted(self, agent: str, *, muted: bool, now: float) -> None:
        """Set whether mail starts no runs of an agent."""
        ...

    async def list_muted(self) -> list[str]: ...

    async def list_dead(self, *, limit: int, skip: int = 0) -> list[DeadMail]:
        """Return evicted mail, newest first, without the first `skip`."""
        ...

    async def find_dead(self, mail_id: str) -> Mail | None: ...

    async def find_dead_among(self, mail_ids: Sequence[str]) -> frozenset[str]:
        """Return those of these ids that are of evicted mail."""
        ...

    async def expire_dead(self, *, before: float, batch: int) -> int:
        """Delete some of the mail that was evicted or given back before a time, oldest first; return how many."""
        ...

    async def resend(self, mail_id: str, *, now: float) -> tuple[Mail, list[Mail]]:
        """Make evicted mail unread again; return it, and what it evicted in turn."""
        ...
