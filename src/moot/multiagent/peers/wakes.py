"""Wakes: starts a run for an idle conversation that has mail, if its agent allows it and the budgets are not used up.

Works with engine/mailboxes.py and engine/runs.py. The message of such a run is the mail, and counts as read with it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from random import Random

from moot.domain.agent import Agent
from moot.domain.config import PeersConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.events import Event, MailRead
from moot.domain.ids import make_id
from moot.domain.mail import MAIL_AUTHOR, Mail, join_taint, render_mail
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.run import RunRequest
from moot.domain.senders import is_reserved
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach

logger = logging.getLogger(__name__)


class Wakes:
    def __init__(  # noqa: PLR0913 - all that starting a run takes
        self,
        *,
        mail: MailStore,
        mailboxes: Mailboxes,
        runs: Runs,
        find_agent: Callable[[str], Agent | None],
        config: Callable[[], PeersConfig],
        supervisor: Supervisor,
        bus: Bus,
        clock: Clock,
        rng: Random,
    ) -> None:
        self._mail = mail
        self._mailboxes = mailboxes
        self._runs = runs
        self._find_agent = find_agent
        self._config = config
        self._supervisor = supervisor
        self._bus = bus
        self._clock = clock
        self._rng = rng
        # Conversations for which a run is being prepared.
        self._preparing: set[ConversationKey] = set()
        # Those of them for which more mail came meanwhile, which may have been too late for that run.
        self._again: set[ConversationKey] = set()
        # The runs that were started and have not ended, by thread: the store may not have them yet.
        self._started: dict[str, set[str]] = {}
        # The mail that is the message of a run which has not begun.
        self._shown_by: dict[str, list[Mail]] = {}
        # Many conversations may be considered at once: each counts what the one before it started.
        self._counting = asyncio.Lock()

    def consider(self, key: ConversationKey) -> None:
        """Start a run if the conversation is idle and its agent is woken by mail; otherwise the mail waits.

        An active run is shown the mail at its next step. What it does not get to see is considered when it ends.
        """
        if not self._runs.has_local_work(key):
            self._start(key, self._find_agent(key.agent))

    def consider_all(self, keys: Collection[ConversationKey]) -> None:
        """As `consider`, for conversations that got mail at the same moment: each agent is looked up once."""
        agents: dict[str, Agent | None] = {}
        for key in keys:
            if self._runs.has_local_work(key):
                continue
            if key.agent not in agents:
                agents[key.agent] = self._find_agent(key.agent)
            self._start(key, agents[key.agent])

    def _start(self, key: ConversationKey, agent: Agent | None) -> None:
        # The mail of a background run is read by that run, or by nobody: it must not go on after its end.
        if agent is None or not agent.wake or is_reserved(key.sender):
            return
        if key in self._preparing:
            self._again.add(key)
        else:
            self._preparing.add(key)
            self._supervisor.start(f"wake {key}", self._wake(key))

    def on_run_started(self, event: Event) -> None:
        """Announce that the mail which is the message of a run was read."""
        for mail in self._shown_by.pop(event.source.run_id, ()):
            self._bus.publish(event.source, MailRead(mail))

    def on_run_ended(self, event: Event) -> None:
        key = event.source.key
        # A message that waits is answered by a run that is shown the mail.
        if self._mailboxes.may_have_mail(key) and not self._runs.list_waiting(key):
            self._start(key, self._find_agent(key.agent))

    async def _wake(self, key: ConversationKey) -> None:
        try:
            # What arrives while a run is active is considered after it, unless another message waits.
            while self._mailboxes.may_have_mail(key) and not self._runs.has_local_work(key):
                self._again.discard(key)
                if not await self._run_once(key) and key not in self._again:
                    return
        finally:
            self._preparing.discard(key)
            self._again.discard(key)

    async def _run_once(self, key: ConversationKey) -> bool:
        """Run a turn whose message is the unread mail. Return False if the mail has to wait."""
        run_id = make_id("run", now=self._clock.now(), rng=self._rng)
        try:
            mails = await self._mailboxes.collect(key, run_id)
            # What does not start a run stays unread, and is shown with what does.
            async with self._counting:
                wakers = await self._find_wakers(key, mails)
                for mail in wakers:
                    self._started.setdefault(mail.thread, set()).add(run_id)
            if not wakers:
                return False
            reach("mail.waking")
            self._shown_by[run_id] = mails
            stream = await self._runs.submit(_request(run_id, key, mails))
            await stream.wait_end()
        except MootError as error:
            logger.warning("mail does not wake %s: %s", key, error.message)
            return False
        else:
            return True
        finally:
            # Also for a run that never began, which has no end to release it.
            self._mailboxes.release(key, run_id)
            self._shown_by.pop(run_id, None)
            self._forget_started(run_id)

    def _forget_started(self, run_id: str) -> None:
        for thread in [thread for thread, runs in self._started.items() if run_id in runs]:
            self._started[thread].discard(run_id)
            if not self._started[thread]:
                del self._started[thread]

    async def _find_wakers(self, key: ConversationKey, mails: Sequence[Mail]) -> list[Mail]:
        """Return the mails that may start a run: not muted, and within the budgets of their thread."""
        config = self._config()
        if not mails or key.agent in await self._mail.list_muted():
            return []
        wakers: list[Mail] = []
        for mail in mails:
            if mail.hops >= config.max_hops:
                logger.warning("mail %s does not wake %s: it is the result of %d others", mail.id, key, mail.hops)
            elif mail.thread and await self._count_wakes(mail.thread) >= config.max_wakes:
                logger.warning("mail %s does not wake %s: %s started too many runs", mail.id, key, mail.thread)
            else:
                wakers.append(mail)
        return wakers

    async def _count_wakes(self, thread: str) -> int:
        return len(await self._mail.list_wakes(thread) | self._started.get(thread, set()))


def _request(run_id: str, key: ConversationKey, mails: Sequence[Mail]) -> RunRequest:
    return RunRequest(
        id=run_id,
        key=key,
        speaker=key.agent,
        content=render_mail(mails),
        author=MAIL_AUTHOR,
        taint=join_taint(mails),
        delivers=tuple(mail.id for mail in mails),
    )
