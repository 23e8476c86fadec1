"""RemoteSender: sends mail to goals of other daemons through the outbox. Used by mail_sender.py.

Mail is sent once it is in the outbox; relay.py publishes it, now or when the broker is there again.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.domain.errors import MootError
from moot.domain.events import MailSent
from moot.domain.goal import make_goal_id, read_goal_id
from moot.domain.inbox_message import check_sendable
from moot.domain.mail import Mail
from moot.domain.ports.clock import Clock
from moot.domain.ports.outbox import Outbox
from moot.multiagent.peers.directory import PeerDirectory
from moot.multiagent.peers.letter import DeliveryReport, Letter, make_mail_of
from moot.multiagent.peers.relay import Relay
from moot.multiagent.peers.remote_directory import RemoteAgent, RemoteDirectory

# How long a call waits for the broker.
_PATIENCE_SECONDS = 2.0


class RemoteGoal(Struct, frozen=True, kw_only=True):
    """A goal of an agent of another daemon."""

    goal_id: str
    address: str


class RemoteSender:
    def __init__(
        self,
        *,
        outbox: Outbox,
        relay: Relay,
        directory: PeerDirectory,
        remote: RemoteDirectory,
        max_outbox: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._relay = relay
        self._directory = directory
        self._remote = remote
        self._max_outbox = max_outbox
        self._clock = clock
        self._store_number: int | None = None

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
        is_there = numbers is not None and numbers[0] == self._remote.find_store(peer.daemon)
        return (letter.goal_id,) if is_there else ()

    async def send(self, letter: Letter, goals: Sequence[RemoteGoal]) -> DeliveryReport:
        """Put the mail for these goals into the outbox, and wait a short time for the broker to accept it."""
        now = self._clock.now()
        if self._store_number is None:
            self._store_number = await self._outbox.load_store_number()
        # Answers of the other daemon need a goal of this store, also if the sender has none.
        sent = replace(letter, from_goal=letter.from_goal or make_goal_id(self._store_number, 0))
        mails = [make_mail_of(sent, goal.goal_id, goal.address, now) for goal in goals]
        ids = [mail.id for mail in mails]
        self._relay.expect(ids)
        try:
            for mail in mails:
                check_sendable(mail)
            await self._outbox.add(mails, most=self._max_outbox())
            for mail in mails:
                letter.emit(MailSent(mail))
            self._relay.wake()
            accepted = await self._relay.wait_accepted(ids, _PATIENCE_SECONDS)
        except MootError as error:
            reasons = (f"delivery failed for goal {mail.goal_id}: {error.message}" for mail in mails)
            return DeliveryReport(unreachable_reasons=tuple(reasons))
        finally:
            self._relay.forget_expected(ids)
        return _report(mails, accepted)

    def wake_relay(self) -> None:
        self._relay.wake()

    async def resend(self, mail_id: str) -> Mail:
        """Send a mail again that another daemon gave back."""
        mail = await self._outbox.resend(mail_id, now=self._clock.now())
        self._relay.wake()
        return mail


def _report(mails: Sequence[Mail], accepted: set[str]) -> DeliveryReport:
    return DeliveryReport(
        delivered_to=tuple(mail.goal_id for mail in mails if mail.id in accepted),
        unreachable_reasons=tuple(
            f"queued for goal {mail.goal_id}: the broker is unavailable; it is sent when it returns"
            for mail in mails
            if mail.id not in accepted
        ),
        queued_for=tuple(mail.goal_id for mail in mails if mail.id not in accepted),
    )
