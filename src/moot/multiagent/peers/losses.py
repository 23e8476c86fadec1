"""Losses: announces mail that nobody will read, to its receiver and to its sender.

Both get an event, and their agents are told at their next step (engine/mailboxes.py, engine/injection.py); a sender on
another daemon gets a notice through the outbox. Mail that a run may still show is announced once it is certain that it
was not shown. Who has sent a shutdown or plan request gets an answer, because a call may wait for it. Used by
mail_sender.py, receiver.py, outbox_expiry.py and peers.py.
"""

import logging
from collections.abc import Mapping, Sequence

from moot.domain.bridge import is_bridge, is_bridge_request
from moot.domain.errors import MootError
from moot.domain.events import BridgeRefused, MailDelivered, MailDropped, MailEvicted
from moot.domain.goal import GoalKind, MailTarget
from moot.domain.inbox_message import NoticeState
from moot.domain.lost_mail import explain_eviction
from moot.domain.mail import Mail
from moot.domain.outbox import ReturnedMail
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.supervisor import Supervisor
from moot.multiagent.peers.bridge import make_local_refusal
from moot.multiagent.peers.directory import make_source
from moot.multiagent.peers.wakes import Wakes

logger = logging.getLogger(__name__)


class Losses:
    def __init__(
        self,
        *,
        mail: MailStore,
        mailboxes: Mailboxes,
        wakes: Wakes,
        bus: Bus,
        supervisor: Supervisor,
        clock: Clock,
    ) -> None:
        self._mail = mail
        self._mailboxes = mailboxes
        self._wakes = wakes
        self._bus = bus
        self._supervisor = supervisor
        self._clock = clock
        # Evicted mail that a run may still show, with the goal it was for, by its id.
        self._held: dict[str, tuple[Mail, MailTarget | None]] = {}
        mailboxes.observe_release(self._announce_released)

    async def announce_evicted(self, evicted: Sequence[Mail], receivers: Mapping[str, MailTarget]) -> list[Mail]:
        """Announce mail that was evicted here. `receivers` are the goals it was for, by their ids.

        Return what was announced. Mail that a run may still show is announced later, unless it was shown.
        """
        held = {mail.id for mail in evicted if self.is_held(mail)}
        self._held |= {mail.id: (mail, receivers.get(mail.goal_id)) for mail in evicted if mail.id in held}
        return await self._announce_dead([mail for mail in evicted if mail.id not in held], receivers)

    def is_held(self, mail: Mail) -> bool:
        """Whether a run may still show evicted mail."""
        return self._mailboxes.is_held(mail.id, mail.to_agent)

    def _announce_released(self) -> None:
        released = [(mail, receiver) for mail, receiver in self._held.values() if not self.is_held(mail)]
        if released:
            for mail, _ in released:
                del self._held[mail.id]
            self._supervisor.start("announce evicted mail", self._announce_late(released))

    async def _announce_late(self, released: Sequence[tuple[Mail, MailTarget | None]]) -> None:
        receivers = {receiver.id: receiver for _, receiver in released if receiver is not None}
        try:
            await self._announce_dead([mail for mail, _ in released], receivers)
        except MootError as error:
            # A run may have released it because the daemon stops.
            logger.warning("evicted mail cannot be announced: %s", error.message)

    async def _announce_dead(self, evicted: Sequence[Mail], receivers: Mapping[str, MailTarget]) -> list[Mail]:
        """Announce what was not shown after all; return it."""
        dead = await self._mail.find_dead_among([mail.id for mail in evicted]) if evicted else ()
        lost = [mail for mail in evicted if mail.id in dead]
        for mail in lost:
            receiver = receivers.get(mail.goal_id)
            self._bus.publish(make_source(receiver), MailEvicted(mail))
            self._note(receiver)
        senders = await self._find_senders(lost)
        for mail in lost:
            # A sender on another daemon is told there.
            if (sender := senders.get(mail.from_goal)) is not None:
                self._bus.publish(make_source(sender), MailEvicted(mail))
                self._note(sender)
                if is_bridge_request(mail.body):
                    receiver = receivers.get(mail.goal_id)
                    reason = explain_eviction(receiver.key.sender if receiver is not None else "")
                    await self.answer(ReturnedMail(mail=mail, state=NoticeState.EVICTED, reason=reason))
        return lost

    async def evict_ended(self, goals: Sequence[MailTarget]) -> frozenset[str]:
        """Evict the mail of runs that ended while it was being stored; return the ids of their goals."""
        ending = [goal.id for goal in goals if goal.kind is not GoalKind.INTERACTIVE]
        found, _ = await self._mail.find_targets(ending) if ending else ({}, [])
        ended = [goal for goal in found.values() if goal.has_ended]
        for goal in ended:
            self._mailboxes.forget(goal.key)
            await self.announce_evicted(await self._mail.evict(goal.key, now=self._clock.now()), {goal.id: goal})
        return frozenset(goal.id for goal in ended)

    async def answer(self, returned: ReturnedMail) -> None:
        """Tell a goal of this store that nobody will read the shutdown or plan message it has sent."""
        refusal = await make_local_refusal(returned, self._mail, self._clock.now())
        if refusal is not None:
            await self.deliver(refusal)

    async def deliver(self, refusal: Mail) -> None:
        """Store and announce mail of this daemon for one of its goals, if that is still there."""
        found, _ = await self._mail.find_targets([refusal.goal_id])
        for goal in found.values():
            if goal.has_ended:
                continue
            evicted = await self._mail.send([refusal], now=refusal.sent_at)
            self._bus.publish(make_source(goal), MailDelivered(refusal))
            self._mailboxes.add(goal.key)
            self._wakes.consider(goal.key)
            if evicted:
                await self.announce_evicted(evicted, {goal.id: goal})

    async def announce_returned(self, returned: Sequence[ReturnedMail]) -> None:
        """Announce to its senders the mail that other daemons gave back, or that was deleted unread."""
        senders = await self._find_senders([each.mail for each in returned])
        for each in returned:
            sender = senders.get(each.mail.from_goal)
            self._bus.publish(make_source(sender), make_loss_event(each))
            self._note(sender)

    async def _find_senders(self, mails: Sequence[Mail]) -> Mapping[str, MailTarget]:
        goal_ids = list(dict.fromkeys(mail.from_goal for mail in mails if mail.from_goal))
        return (await self._mail.find_targets(goal_ids))[0] if goal_ids else {}

    def _note(self, goal: MailTarget | None) -> None:
        # A run that has ended takes no more steps; if its conversation goes on, it is told then.
        if goal is not None and not goal.has_ended:
            self._mailboxes.add_loss(goal.key)


def make_loss_event(returned: ReturnedMail) -> MailEvicted | BridgeRefused | MailDropped:
    if returned.state is NoticeState.EVICTED:
        return MailEvicted(returned.mail)
    kind = BridgeRefused if is_bridge(returned.mail.body) else MailDropped
    return kind(returned.mail, returned.reason)
