"""Receiver: stores the mail that arrives from the broker, gives back what is refused, and counts what is dropped.

arrivals.py checks each message. A batch is stored in one transaction before the broker is told that it was received;
then the receivers are told, as by mail_sender.py.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.bridge import may_be_bridge
from moot.domain.events import MailDelivered, MailDropped
from moot.domain.goal import MailTarget
from moot.domain.inbox_message import read_subject
from moot.domain.mail import Mail
from moot.domain.outbox import Position, Receipt, ReceiptResult
from moot.domain.ports.broker import Arrival, Batch
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.outbox import Outbox
from moot.domain.token import Token
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach
from moot.multiagent.peers.bridge import find_arrival_flaw, find_refusal
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.remote_directory import RemoteDirectory
from moot.multiagent.peers.directory import find_principal, make_source
from moot.multiagent.peers.losses import Losses, make_loss_event
from moot.multiagent.peers.transport.arrivals import (
    Message,
    Rejection,
    Verdict,
    give_back,
    read_arrival,
)
from moot.multiagent.peers.transport.presence import Presence
from moot.multiagent.peers.transport.relay import Relay
from moot.multiagent.peers.wakes import Wakes

logger = logging.getLogger(__name__)

# An agent that is unknown is looked for in files; in one batch, for at most this many names.
_MOST_NAMES = 16


class ReceiverDependencies(Struct, frozen=True, kw_only=True):
    link: DaemonLink
    directory: RemoteDirectory
    presence: Presence
    relay: Relay
    outbox: Outbox
    mail: MailStore
    find_agent: Callable[[str], Agent | None]
    mailboxes: Mailboxes
    wakes: Wakes
    losses: Losses
    bus: Bus
    supervisor: Supervisor
    clock: Clock


class Receiver:
    def __init__(self, dependencies: ReceiverDependencies) -> None:
        self._d = dependencies
        self._store_number = 0
        self._is_consuming = False
        # How many messages were dropped or given back, by the kind of reason.
        self.dropped: Counter[str] = Counter()

    async def start(self, store: int) -> None:
        self._store_number = store
        self._d.directory.position = await self._d.outbox.load_position()

    def on_connected(self) -> None:
        """Begin to receive. The consumption outlives the connection."""
        if not self._is_consuming:
            self._is_consuming = True
            self._d.supervisor.start("receive mail", self._consume())

    async def _consume(self) -> None:
        d = self._d
        # Before anything is received: what the copy of a home takes is lost to the original.
        await d.presence.wait_for_claims()
        while True:
            # Another daemon has the name of this one, for example on a copy of its home: that one receives.
            await d.directory.wait_for_problem(present=False)
            async with d.link.broker.consume(self._store_number, self._receive):
                await d.directory.wait_for_problem(present=True)

    async def _receive(self, batch: Batch) -> None:
        for arrivals, position in _split(batch, self._d.directory.position):
            await self._store(arrivals, position)
        reach("receipt.stored")

    async def _store(self, arrivals: Sequence[Arrival], position: Position) -> None:
        d = self._d
        accepts_unsigned = d.link.accepts_unsigned()
        read = [(arrival, self._read(arrival, accepts_unsigned)) for arrival in arrivals]
        mails = [message.mail for _, message in read if type(message) is Message and message.mail is not None]
        names = {mail.to_agent for mail in mails}
        verdict = Verdict()
        if len(names) <= _MOST_NAMES and _is_plain(read, mails):
            # Most batches: what decides about them is read in the transaction that stores them.
            agents = {name: d.find_agent(name) for name in names}

            def judge(goals: Mapping[str, MailTarget], tokens: Sequence[Token]) -> Receipt:
                nonlocal verdict
                verdict = Verdict()
                verdict.judge_all(read, goals, tokens, agents.get)
                return verdict.make_receipt(position)

            goal_ids = _list_goal_ids(arrivals)
            result, goals, tokens = await d.outbox.receive_checked(goal_ids, judge, now=d.clock.now())
        else:
            goals, tokens = await d.mail.find_targets(_list_goal_ids(arrivals))
            for arrival, message in read:
                verdict.judge_all([(arrival, message)], goals, tokens, d.find_agent)
                await self._check_last(verdict, arrival, message)
            result = await d.outbox.receive(verdict.make_receipt(position), now=d.clock.now())
        d.directory.position = position
        d.presence.confirm_soon(len(arrivals))
        # The holders of tokens learn nothing of what arrives from other daemons.
        announced = {each: goal for each, goal in goals.items() if not find_principal(goal.root.sender, tokens)}
        self.dropped.update(rejection.kind for _, rejection in verdict.rejected)
        for arrival, rejection in verdict.rejected:
            if give_back(rejection) is None:
                self._report_dropped(arrival, rejection, announced)
        await self._announce(result, announced)

    def _read(self, arrival: Arrival, accepts_unsigned: bool) -> Message | Rejection:
        """Return what arrived, or what is wrong with it: one message must not stop the others."""
        try:
            return read_arrival(arrival, self._d.directory, store=self._store_number, accepts_unsigned=accepts_unsigned)
        except Rejection as rejection:
            return rejection
        except Exception:
            logger.exception("a message on %.128r could not be read", arrival.message.subject)
            return Rejection("error", "it could not be read")

    async def _check_last(self, verdict: Verdict, arrival: Arrival, message: Message | Rejection) -> None:
        """Check the message that was judged last for what only the mail before it tells: shutdown and plan messages."""
        if isinstance(message, Rejection) or verdict.has_rejected(arrival):
            return
        d = self._d
        if message.mail is not None and may_be_bridge(message.mail.body):
            accepted = verdict.mails[:-1]
            is_verified = message.daemon is not None
            if flaw := await find_arrival_flaw(message.mail, d.mail, accepted, is_verified=is_verified):
                verdict.mails.pop()
                verdict.reject(arrival, Rejection("bridge", flaw, message.mail))
        if message.returned is not None:
            refusal = await find_refusal(message.returned, d.mail, d.clock.now())
            verdict.mails += [refusal] if refusal is not None else []

    def on_malformed(self, subject: str) -> None:
        """Count a message that was for no goal of any daemon."""
        self.dropped["subject"] += 1
        reason = f"the subject {subject[:128]!r} is not that of a goal"
        mail = Mail(id="", goal_id="", from_agent="", from_goal="", to_agent="", body="", sent_at=self._d.clock.now())
        logger.warning("dropped a message: %s", reason)
        self._d.bus.publish(make_source(None), MailDropped(mail, reason))

    def _report_dropped(self, arrival: Arrival, rejection: Rejection, goals: Mapping[str, MailTarget]) -> None:
        """Tell subscribers of a message that nobody is given. Its text is left out."""
        logger.warning("dropped a message on %.128r: %s", arrival.message.subject, rejection.reason)
        found = read_subject(arrival.message.subject)
        goal_id = found[1] if found is not None else ""
        goal = goals.get(goal_id)
        mail = Mail(
            id="",
            goal_id=goal_id,
            from_agent="",
            from_goal="",
            to_agent=goal.agent if goal is not None else "",
            body="",
            sent_at=self._d.clock.now(),
        )
        self._d.bus.publish(make_source(goal), MailDropped(mail, rejection.reason))

    async def _announce(self, result: ReceiptResult, goals: Mapping[str, MailTarget]) -> None:
        d = self._d
        found = {mail.goal_id: goals[mail.goal_id] for mail in result.stored}
        self._announce_stored(result.stored, found)
        if result.evicted:
            await d.losses.announce_evicted(result.evicted, goals)
        for each in result.refused:
            d.bus.publish(make_source(goals.get(each.mail.goal_id)), make_loss_event(each))
        if result.returned:
            await d.losses.announce_returned(result.returned)
        ended = await d.losses.evict_ended([*found.values()])
        if result.evicted or result.refused or ended:
            # There are notices to be sent.
            d.relay.wake()

    def _announce_stored(self, stored: Sequence[Mail], goals: Mapping[str, MailTarget]) -> None:
        """Announce mail for these goals. Each goal and each sender is looked at once, in the order of the mail."""
        d = self._d
        now = d.clock.monotonic()
        for address, from_goal in dict.fromkeys([(mail.from_agent, mail.from_goal) for mail in stored]):
            if from_goal:
                d.directory.note_writer(address, from_goal, now)
        sources = {goal_id: make_source(goal) for goal_id, goal in goals.items()}
        for mail in stored:
            d.bus.publish(sources[mail.goal_id], MailDelivered(mail))
        keys = [goal.key for goal in goals.values()]
        for key in keys:
            d.mailboxes.add(key)
        d.wakes.consider_all(keys)


def _is_plain(read: Sequence[tuple[Arrival, Message | Rejection]], mails: Sequence[Mail]) -> bool:
    """Whether nothing but their goals decides about messages. `mails` are those in them."""
    is_all = len(mails) == len(read) or all(isinstance(each, Rejection) or each.mail is not None for _, each in read)
    return is_all and not any(map(may_be_bridge, [mail.body for mail in mails]))


def _list_goal_ids(arrivals: Sequence[Arrival]) -> list[str]:
    subjects = [read_subject(arrival.message.subject) for arrival in arrivals]
    return list(dict.fromkeys([subject[1] for subject in subjects if subject is not None]))


def _split(batch: Batch, known: Position | None) -> Iterator[tuple[Sequence[Arrival], Position]]:
    """Return first what was received before, which may come again after a crash, and then the rest."""
    if known is None or known.stream != batch.position.stream:
        yield batch.arrivals, batch.position
        return
    again = [arrival for arrival in batch.arrivals if arrival.position <= known]
    if again:
        yield again, known
    if batch.position > known:
        yield batch.arrivals[len(again) :], batch.position
