"""Mailboxes: which conversations have unread mail, and the message that shows it to a run.

The store has the mail; this object only remembers where to look, so that a step without mail costs nothing. The loop
shows mail before each step; multiagent/peers/ reports new mail and starts runs for idle conversations.
"""

from moot.domain.conversation import ConversationKey
from moot.domain.mail import Mail
from moot.domain.ports.mail import MailStore


class Mailboxes:
    def __init__(self, store: MailStore) -> None:
        self._store = store
        # Conversations that may have unread mail.
        self._waiting: set[ConversationKey] = set()

    async def start(self) -> list[ConversationKey]:
        """Find the conversations that have unread mail and return them."""
        waiting = await self._store.list_waiting()
        self._waiting.update(waiting)
        return waiting

    def add(self, key: ConversationKey) -> None:
        """Note that a conversation may have unread mail."""
        self._waiting.add(key)

    def may_have_mail(self, key: ConversationKey) -> bool:
        return key in self._waiting

    async def collect(self, key: ConversationKey) -> list[Mail]:
        """Return the unread mail of a conversation, oldest first. The caller shows it, or adds the key again."""
        # First, so that mail that arrives during the read is found by the next call.
        self._waiting.discard(key)
        return await self._store.list_unread(key)
