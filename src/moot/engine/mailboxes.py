"""Mailboxes: which conversations have unread mail, and who is about to show it.

The store has the mail; this object remembers where to look, so that a step without mail costs nothing, and what was
taken but is not stored as read yet, so that nothing is shown twice, and that nobody is told of its eviction before it
is certain that it is not shown. It does the same for what senders and receivers are told of lost mail. The loop shows
mail before each step (injection.py); multiagent/peers/ reports new mail, waits for it, and starts runs for idle
conversations.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile

from moot.domain.conversation import ConversationKey
from moot.domain.lost_mail import LostMail
from moot.domain.mail import MAX_BODY_BYTES, Mail
from moot.domain.ports.mail import MailStore
from moot.domain.senders import is_reserved

# How much mail one entry of a history shows; a long message fits with shorter ones.
_MOST_SHOWN = 2 * MAX_BODY_BYTES


class Mailboxes:
    def __init__(self, store: MailStore) -> None:
        self._store = store
        # Conversations that may have unread mail.
        self._waiting: set[ConversationKey] = set()
        # The ids of the mail that a run was given, by run.
        self._taken: dict[str, set[str]] = {}
        # For how many conversations of an agent unread mail is being read, which a run is given then.
        self._collecting: Counter[str] = Counter()
        # Who is told when mail is held no longer, and whether somebody waits for that.
        self._on_release: list[Callable[[], None]] = []
        self._is_awaited = False
        # Conversations that may have to be told of lost mail, and what a run is telling, by run.
        self._losing: set[ConversationKey] = set()
        self._telling: dict[str, set[str]] = {}

    async def start(self) -> list[ConversationKey]:
        """Find the conversations that have unread mail and return them."""
        waiting = [*await self._store.count_unread()]
        self._waiting.update(waiting)
        return waiting

    def add(self, key: ConversationKey) -> None:
        """Note that a conversation may have unread mail."""
        self._waiting.add(key)

    def forget(self, key: ConversationKey) -> None:
        """Forget a conversation whose mail nobody will read. Called before its mail is evicted: more may come."""
        self._waiting.discard(key)
        self._losing.discard(key)

    def add_loss(self, key: ConversationKey) -> None:
        """Note that a conversation may have to be told of lost mail."""
        self._losing.add(key)

    def may_have_news(self, key: ConversationKey) -> bool:
        """Whether the next step of a conversation may have to show mail, or to tell of lost mail."""
        return key in self._waiting or key in self._losing

    def may_have_lost(self, key: ConversationKey) -> bool:
        return key in self._losing

    async def collect_lost(self, key: ConversationKey, run_id: str) -> list[LostMail]:
        """Return the lost mail that a run tells of."""
        self._losing.discard(key)
        if not (found := await self._store.list_untold(key)):
            return []
        held = {each.mail_id for each in found if self.is_held(each.mail_id, each.agent if each.is_sent else key.agent)}
        if held:
            self._losing.add(key)
        certain = {each.told_id for each in found if each.mail_id not in held}
        # What was held during the first look may have been shown since.
        again = await self._store.list_untold(key) if certain else []
        telling = set[str]().union(*self._telling.values())
        lost = [each for each in again if each.told_id in certain and each.told_id not in telling]
        self.note_told(run_id, [each.told_id for each in lost])
        return lost

    def note_told(self, run_id: str, told_ids: Sequence[str]) -> None:
        """Note that a run tells of lost mail, so that it is not told of again before that is stored."""
        if told_ids:
            self._telling.setdefault(run_id, set()).update(told_ids)

    def is_held(self, mail_id: str, agent: str) -> bool:
        """Whether a run was given this mail for an agent, and may show it although it was evicted meanwhile.

        If not, the store says from now on whether it was shown. Otherwise `observe_release` says when to ask again.
        """
        is_held = self._collecting[agent] > 0 or any(mail_id in taken for taken in self._taken.values())
        self._is_awaited |= is_held
        return is_held

    def observe_release(self, on_release: Callable[[], None]) -> None:
        """Call this whenever mail that `is_held` was asked for may be held no longer."""
        self._on_release.append(on_release)

    def _report_release(self) -> None:
        if self._is_awaited:
            self._is_awaited = False
            for on_release in self._on_release:
                on_release()

    def may_have_mail(self, key: ConversationKey) -> bool:
        return key in self._waiting

    async def collect(
        self,
        key: ConversationKey,
        run_id: str,
        *,
        correlation_id: str = "",
        is_wanted: Callable[[Mail], bool] = lambda _: True,
    ) -> list[Mail]:
        """Return unread mail of a conversation, oldest first, for a run that shows it; no other run is given it.

        Mail that follows what another run is about to show waits for that, so that mail is shown in its order. With a
        correlation id, only the mail with that one that `is_wanted` is returned, whatever precedes it.
        """
        if not correlation_id:
            # First, so that mail that arrives during the read is found by the next call.
            self._waiting.discard(key)
        self._collecting[key.agent] += 1
        try:
            unread = await self._store.list_unread(key)
            return self._take(key, run_id, unread, correlation_id, is_wanted)
        finally:
            # What is evicted from here on was either given to the run, or is not.
            self._collecting[key.agent] -= 1
            if not self._collecting[key.agent]:
                del self._collecting[key.agent]
            self._report_release()

    def _take(
        self,
        key: ConversationKey,
        run_id: str,
        unread: Sequence[Mail],
        correlation_id: str,
        is_wanted: Callable[[Mail], bool],
    ) -> list[Mail]:
        own = self._taken.get(run_id, set[str]())
        others = set[str]().union(*(taken for run, taken in self._taken.items() if run != run_id))
        if correlation_id:
            correlated = [mail for mail in unread if mail.correlation_id == correlation_id]
            wanted = [mail for mail in correlated if mail.id not in own | others and is_wanted(mail)]
        else:
            preceding = [*takewhile(lambda mail: mail.id not in others, unread)]
            if len(preceding) < len(unread):
                self._waiting.add(key)
            wanted = [mail for mail in preceding if mail.id not in own]
        found = _take_first(wanted)
        if len(found) < len(wanted):
            self._waiting.add(key)
        if found:
            self._taken.setdefault(run_id, set()).update(mail.id for mail in found)
        return found

    def release(self, key: ConversationKey, run_id: str) -> None:
        """Forget what a run was given: it is stored as read now, or was not shown and can be given to another run."""
        if self._taken.pop(run_id, None):
            self._waiting.add(key)
        # A goal that has ended takes no more steps.
        if self._telling.pop(run_id, None) and not is_reserved(key.sender):
            self._losing.add(key)
        self._report_release()


def _take_first(mails: list[Mail]) -> list[Mail]:
    """Return the oldest mails that fit into one entry of a history, at least one; the others are shown after it."""
    size = 0
    for number, mail in enumerate(mails):
        size += len(mail.body)
        if number and size > _MOST_SHOWN:
            return mails[:number]
    return mails
