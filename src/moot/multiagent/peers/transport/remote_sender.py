"""RemoteSender: sends mail to goals of other daemons through the outbox. Used by mail_sender.py.

Mail is sent once it is in the outbox; relay.py publishes it, now or when the broker is there again. What several send
at the same time is stored in one transaction.
"""

import asyncio
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.errors import MootError
from moot.domain.events import MailSent
from moot.domain.goal import make_goal_id, read_goal_id
from moot.domain.inbox_message import check_sendable
from moot.domain.mail import Mail
from moot.domain.outbox import OutboxItem
from moot.domain.ports.clock import Clock
from moot.domain.ports.outbox import Outbox
from moot.domain.token import Token
from moot.engine.supervisor import Supervisor
from moot.multiagent.peers.daemons.remote_directory import RemoteAgent, RemoteDirectory
from moot.multiagent.peers.directory import PeerDirectory, explain_unknown, find_principal
from moot.multiagent.peers.letter import DeliveryReport, Letter, make_mail_of
from moot.multiagent.peers.transport.relay import Relay

# How long a call waits for the broker.
_PATIENCE_SECONDS = 2.0


class RemoteGoal(Struct, frozen=True, kw_only=True, gc=False):
    """A goal of an agent of another daemon."""

    goal_id: str
    address: str


class NotOfOwner(MootError):
    """Some of the mail to be stored is from conversations of the holders of tokens, which reach no other daemons."""

    def __init__(self, sendings: "Sequence[_Sending]") -> None:
        super().__init__("it is from a conversation of the holder of a token")
        self.sendings = sendings


class _Sending:
    """A letter that is being sent: its mails, those that the broker has not accepted, and the report to the sender."""

    __slots__ = ("__weakref__", "_missing", "letter", "mails", "report")

    def __init__(self, letter: Letter, mails: Sequence[Mail]) -> None:
        self.letter = letter
        self.mails = mails
        self.report: asyncio.Future[DeliveryReport] = asyncio.get_running_loop().create_future()
        self._missing = {mails[0].id} if len(mails) == 1 else {mail.id for mail in mails}

    def announce(self) -> None:
        """Publish that the mails were sent."""
        for mail in self.mails:
            self.letter.emit(MailSent(mail))

    def accept(self, mail_id: str) -> None:
        """Note that the broker has accepted a mail."""
        self._missing.discard(mail_id)
        if not self._missing and not self.report.done():
            self.report.set_result(DeliveryReport(delivered_to=tuple([mail.goal_id for mail in self.mails])))

    def end(self, delay: str) -> None:
        """Report what was accepted; the rest is sent later, because of `delay`."""
        if self.report.done():
            return
        queued = [mail for mail in self.mails if mail.id in self._missing]
        self._finish(
            DeliveryReport(
                delivered_to=tuple([mail.goal_id for mail in self.mails if mail.id not in self._missing]),
                unreachable_reasons=tuple([f"queued for goal {mail.goal_id}: {delay}" for mail in queued]),
                queued_for=tuple([mail.goal_id for mail in queued]),
            )
        )

    def refuse(self, error: MootError) -> None:
        """Report that the mails could not be stored."""
        self._finish(self.explain_failure(error))

    def refuse_sender(self) -> None:
        """Report that there are no other daemons for the sender."""
        self._finish(DeliveryReport(unreachable_reasons=(explain_unknown(self.letter.to),)))

    def explain_failure(self, error: MootError) -> DeliveryReport:
        reasons = [f"delivery failed for goal {mail.goal_id}: {error.message}" for mail in self.mails]
        return DeliveryReport(unreachable_reasons=tuple(reasons))

    def _finish(self, report: DeliveryReport) -> None:
        if not self.report.done():
            self.report.set_result(report)

    def fail(self, error: BaseException) -> None:
        if self.report.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.report.cancel()
        else:
            self.report.set_exception(error)


class RemoteSender:
    def __init__(  # noqa: PLR0913 - all that sending takes
        self,
        *,
        outbox: Outbox,
        relay: Relay,
        directory: PeerDirectory,
        remote: RemoteDirectory,
        max_outbox: Callable[[], int],
        supervisor: Supervisor,
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._relay = relay
        self._directory = directory
        self._remote = remote
        self._max_outbox = max_outbox
        self._clock = clock
        self._supervisor = supervisor
        # What senders without a goal have as theirs: answers of other daemons need one of this store.
        self._no_goal = ""
        # What was not stored yet, and whether a task stores it.
        self._queue: list[_Sending] = []
        self._is_storing = False

    def find_goals(
        self, letter: Letter, sender: Agent | None, peers: Sequence[RemoteAgent]
    ) -> tuple[list[RemoteGoal], list[str]]:
        """Return the goals of these agents that the sender may write to, and why not to others."""
        goals: list[RemoteGoal] = []
        reasons: list[str] = []
        for peer in peers:
            if refusal := self._directory.explain_remote_refusal(sender, peer):
                reasons.append(refusal)
            else:
                found = self._list_goals(letter, peer)
                goals += [RemoteGoal(goal_id=goal_id, address=peer.address) for goal_id in found]
        return goals, reasons

    def _list_goals(self, letter: Letter, peer: RemoteAgent) -> Sequence[str]:
        if not letter.goal_id:
            return peer.agent.goals
        # A goal that is named need not have been used lately; its daemon knows whether it exists.
        numbers = read_goal_id(letter.goal_id)
        if numbers is None or numbers[0] != self._remote.find_store(peer.daemon):
            return ()
        # In its usual form, which the subject of its mail has: a goal can be named in others, such as capital letters.
        return (make_goal_id(*numbers),)

    async def send(self, letter: Letter, goals: Sequence[RemoteGoal]) -> DeliveryReport:
        """Put the mail for these goals into the outbox. If there is a broker, wait a short time until it accepts it.

        Nothing is sent if the sender's conversation is not the owner's.
        """
        now = self._clock.now()
        if not self._no_goal:
            self._no_goal = make_goal_id(await self._outbox.load_store_number(), 0)
        mails = [make_mail_of(letter, goal.goal_id, goal.address, now, self._no_goal) for goal in goals]
        sending = _Sending(letter, mails)
        try:
            for mail in mails:
                check_sendable(mail)
        except MootError as error:
            return sending.explain_failure(error)
        self._queue.append(sending)
        if not self._is_storing:
            self._is_storing = True
            self._supervisor.start("store mail for other daemons", self._store_queue())
        try:
            report = await sending.report
        except BaseException:
            self._relay.forget_expected(sending.mails)
            raise
        if report.queued_for:
            self._relay.forget_expected(sending.mails)
        return report

    async def _store_queue(self) -> None:
        """Store what is sent; what is sent meanwhile is stored together afterwards."""
        try:
            while self._queue:
                # Not those whose sender was stopped meanwhile.
                sendings, self._queue = [each for each in self._queue if not each.report.done()], []
                try:
                    await self._store_all(sendings)
                except BaseException as error:
                    for sending in sendings:
                        sending.fail(error)
                    if not isinstance(error, Exception):
                        raise
        finally:
            self._is_storing = False

    async def _store_all(self, sendings: Sequence[_Sending]) -> None:
        """Store mail in one transaction, and have it published."""
        for sending in sendings:
            self._relay.expect(sending.mails, sending.accept)
        try:
            items = await self._add(sendings)
        except MootError as error:
            for sending in sendings:
                self._relay.forget_expected(sending.mails)
            await self._store_others(sendings, error)
            return
        for sending in sendings:
            sending.announce()
        self._relay.add(items)
        if not self._remote.is_up:
            # A run that sends to many must not wait for each of them.
            for sending in sendings:
                sending.end(self._relay.explain_delay())
            return
        # Most have ended by then, and are not to be kept.
        left = [weakref.ref(sending) for sending in sendings]
        self._clock.call_later(_PATIENCE_SECONDS, lambda: self._end_patience(left))

    async def _store_others(self, sendings: Sequence[_Sending], error: MootError) -> None:
        """Refuse what cannot be stored: the fault of some must not prevent the others."""
        if isinstance(error, NotOfOwner):
            for sending in error.sendings:
                sending.refuse_sender()
            if others := [each for each in sendings if each not in error.sendings]:
                await self._store_all(others)
        elif len(sendings) == 1:
            sendings[0].refuse(error)
        else:
            for sending in sendings:
                await self._store_all([sending])

    def _end_patience(self, sendings: Sequence[weakref.ref[_Sending]]) -> None:
        for find in sendings:
            if (sending := find()) is not None:
                sending.end(self._relay.explain_delay())

    async def _add(self, sendings: Sequence[_Sending]) -> list[OutboxItem]:
        mails = [mail for sending in sendings for mail in sending.mails]
        loop = asyncio.get_running_loop()

        def prepare() -> None:
            # While the disk is waited for. The loop is closed if the daemon ends meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._relay.prepare, mails)

        return await self._outbox.add(
            mails,
            most=self._max_outbox(),
            check=lambda tokens: _check(sendings, tokens),
            note_written=prepare if self._remote.is_up else None,
        )

    def wake_relay(self) -> None:
        self._relay.wake()

    async def resend(self, mail_id: str) -> Mail:
        """Send a mail again that another daemon gave back."""
        mail = await self._outbox.resend(mail_id, now=self._clock.now())
        self._relay.wake()
        return mail


def _check(sendings: Sequence[_Sending], tokens: Sequence[Token]) -> None:
    """Raise NotOfOwner if the holder of a token sends some of it."""
    if refused := [each for each in sendings if find_principal(each.letter.root.sender, tokens)]:
        raise NotOfOwner(refused)
