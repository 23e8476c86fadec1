"""MailSender: sends mail from an agent or a person to the goals of agents, and says which goals it reached.

Used by peer_tools.py (send_to_peer) and by the requests of `moot peers`. Stored mail is announced on the bus, to the
mailboxes, and to wakes.py, which starts runs of idle agents.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.domain.bridge import BridgeMessage, is_bridge
from moot.domain.config import PeersConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, MootError, Unavailable
from moot.domain.events import BridgeRefused, MailDelivered, MailSent
from moot.domain.goal import Goal, MailTarget
from moot.domain.lost_mail import TOLD_SENDER
from moot.domain.mail import Mail, make_mail_id
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.store import Store
from moot.domain.text import clean
from moot.domain.token import Token
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.redact_text import LONG_TEXT, redact_text
from moot.multiagent.peers.bridge import check_bridge, read_bridge
from moot.multiagent.peers.directory import PeerDirectory, explain_refusal, explain_unknown, find_principal, make_source
from moot.multiagent.peers.letter import EVERYONE, DeliveryReport, Letter, check_letter, join_reports, make_mail_of
from moot.multiagent.peers.losses import Losses
from moot.multiagent.peers.transport.remote_sender import RemoteGoal, RemoteSender
from moot.multiagent.peers.wakes import Wakes

# How many goals of one agent a message may go to.
_MOST_GOALS = 64


class MailSender:
    def __init__(  # noqa: PLR0913 - all that sending takes
        self,
        *,
        mail: MailStore,
        store: Store,
        directory: PeerDirectory,
        mailboxes: Mailboxes,
        wakes: Wakes,
        losses: Losses,
        bus: Bus,
        clock: Clock,
        config: Callable[[], PeersConfig],
        redact: Callable[[str], str],
        remote: RemoteSender | None = None,
    ) -> None:
        self._mail = mail
        self._store = store
        self._directory = directory
        self._mailboxes = mailboxes
        self._wakes = wakes
        self._losses = losses
        self._bus = bus
        self._clock = clock
        self._config = config
        self._redact = redact
        # None if there are no other daemons.
        self._remote = remote

    @property
    def active_seconds(self) -> float:
        """How long after its last message a conversation counts as live."""
        return self._config().active_seconds

    async def send(self, letter: Letter) -> DeliveryReport:
        """Send a message to every live goal of the agent, or of all agents. Raise BadRequest if it cannot be sent."""
        if (name := self._directory.find_name(letter.to)) != letter.to:
            letter = replace(letter, to=name)
        try:
            return await self._send(letter)
        except BadRequest as error:
            if is_bridge(letter.body):
                refused = replace(make_mail_of(letter, letter.goal_id, letter.to, self._clock.now()), id="")
                letter.emit(BridgeRefused(refused, error.message))
            raise

    async def _send(self, letter: Letter) -> DeliveryReport:
        check_letter(letter)
        bridge = read_bridge(letter.body, letter.correlation_id)
        if bridge is not None:
            letter = await self._address(letter, bridge)
        text = letter.body
        body = clean(self._redact(text) if len(text) <= LONG_TEXT else await redact_text(self._redact, text))
        if body != letter.body:
            letter = replace(letter, body=body)
        if letter.to == EVERYONE:
            return await self._broadcast(letter)
        return await self._choose_way(letter, bridge)

    def _choose_way(self, letter: Letter, bridge: BridgeMessage | None) -> Coroutine[Any, Any, DeliveryReport]:
        sender, receiver = self._directory.find(letter.from_agent), self._directory.find(letter.to)
        if receiver is not None:
            return self._send_to_local(letter, sender, receiver, bridge)
        if bridge is None and self._remote is not None:
            # Most mail for another daemon: what it is for is there, and there is nothing else to be said or checked.
            goals, reasons = self._remote.find_goals(letter, sender, self._directory.find_remote(letter.to))
            if goals and not reasons and len(goals) <= _MOST_GOALS:
                return self._remote.send(letter, goals)
        return self._send_to_remote(letter, sender, bridge)

    async def _send_to_local(
        self, letter: Letter, sender: Agent | None, receiver: Agent, bridge: BridgeMessage | None
    ) -> DeliveryReport:
        """Send to the goals of an agent of this daemon."""
        if sender is not None and (refusal := explain_refusal(sender, receiver)):
            return DeliveryReport(unreachable_reasons=(refusal,))
        goals = await self._find_goals(letter, receiver)
        if not goals:
            return DeliveryReport(unreachable_reasons=(_no_goals(letter),))
        _check_count(letter, len(goals))
        if bridge is not None:
            await self._check_bridge(letter, [goal.id for goal in goals], bridge)
        return await self._deliver(letter, goals)

    async def _address(self, letter: Letter, bridge: BridgeMessage) -> Letter:
        """Return a bridge message for one goal: a response goes to the goal that asked."""
        if letter.to == EVERYONE:
            raise BadRequest(f"{bridge.type} is for one goal, not for all", fix="Name the agent.")
        letter = replace(letter, correlation_id=bridge.request_id)
        if bridge.type.is_request or letter.goal_id:
            return letter
        earlier = await self._mail.list_correlated(bridge.request_id)
        asking_goal = next((mail.from_goal for mail in earlier if mail.goal_id == letter.from_goal), "")
        if not asking_goal:
            raise BadRequest(f"no such request {bridge.request_id} was sent to you", fix="Nothing was sent.")
        return replace(letter, goal_id=asking_goal)

    async def _check_bridge(self, letter: Letter, goal_ids: Sequence[str], bridge: BridgeMessage) -> None:
        mail_id = make_mail_id(*letter.origin, goal_ids[0])
        await check_bridge(bridge, self._mail, from_goal=letter.from_goal, goal_ids=goal_ids, mail_id=mail_id)

    async def _find_sent(self, letter: Letter, bridge: BridgeMessage) -> tuple[str, ...]:
        """Return the goal of another daemon that this call sent the message to before a crash, if it did."""
        earlier = await self._mail.list_correlated(bridge.request_id)
        return tuple(mail.goal_id for mail in earlier if mail.id == make_mail_id(*letter.origin, mail.goal_id))

    async def _send_to_remote(
        self, letter: Letter, sender: Agent | None, bridge: BridgeMessage | None
    ) -> DeliveryReport:
        """Send to the agents of other daemons that have this address or name."""
        if bridge is not None and (sent := await self._find_sent(letter, bridge)):
            return DeliveryReport(delivered_to=sent)
        peers = self._directory.find_remote(letter.to)
        goals, reasons = self._remote.find_goals(letter, sender, peers) if self._remote is not None else ([], [])
        # What is sent is checked when it is stored. Whoever may not send learns nothing else.
        is_sent = bool(goals) and len(goals) <= _MOST_GOALS and bridge is None
        if not is_sent and not await self.is_of_owner(letter.root):
            return DeliveryReport(unreachable_reasons=(explain_unknown(letter.to),))
        if self._remote is not None and not goals:
            # A daemon may have been heard meanwhile.
            peers = self._directory.find_remote(letter.to)
            goals, reasons = self._remote.find_goals(letter, sender, peers)
        if self._remote is None or not peers:
            return DeliveryReport(unreachable_reasons=(self._directory.explain_unknown(letter.to),))
        if not goals:
            return DeliveryReport(unreachable_reasons=tuple(reasons) or (_no_goals(letter),))
        _check_count(letter, len(goals))
        if bridge is not None:
            await self._check_bridge(letter, [goal.goal_id for goal in goals], bridge)
        report = await self._remote.send(letter, goals)
        return join_reports(report, DeliveryReport(unreachable_reasons=tuple(reasons))) if reasons else report

    async def is_of_owner(self, root: ConversationKey) -> bool:
        """Whether a conversation is the owner's. Others reach no other daemons, and are not reached from there."""
        return not find_principal(root.sender, await self._store.list_tokens())

    async def _broadcast(self, letter: Letter) -> DeliveryReport:
        """Send to all agents the sender may write to. The cap is checked before anything is sent."""
        sender = self._directory.find(letter.from_agent)
        goals: list[MailTarget] = []
        # More goals of one agent are not looked for.
        crowded = ""
        for receiver in self._directory.list_local(letter.from_agent):
            if sender is None or not explain_refusal(sender, receiver):
                found = await self._find_goals(letter, receiver)
                goals += found
                crowded = receiver.name if len(found) > _MOST_GOALS else crowded
        elsewhere: list[RemoteGoal] = []
        if self._remote is not None and await self.is_of_owner(letter.root):
            elsewhere, _ = self._remote.find_goals(letter, sender, self._directory.list_remote())
        count, most = len(goals) + len(elsewhere), self._config().max_broadcast
        if count > most:
            raise BadRequest(
                f"`*` would reach {count} goals, max {most}; nothing was sent",
                fix="Name the agents one by one, or raise `max_broadcast` under [peers].",
            )
        reached = Counter(goal.address for goal in elsewhere)
        crowded = next((address for address, number in reached.items() if number > _MOST_GOALS), crowded)
        if crowded:
            raise _explain_crowded(crowded)
        if not count:
            return DeliveryReport(unreachable_reasons=("no live goals of any peer",))
        reports = [await self._deliver(letter, goals)]
        if self._remote is not None and elsewhere:
            reports.append(await self._remote.send(letter, elsewhere))
        return join_reports(*reports)

    async def _find_goals(self, letter: Letter, receiver: Agent) -> Sequence[MailTarget]:
        """Return the live goals of the agent that belong to the principal of the sender."""
        if letter.goal_id:
            # A goal that is named need not have been used lately.
            found, tokens = await self._mail.find_targets([letter.goal_id])
            goal = found.get(letter.goal_id)
            is_there = goal is not None and goal.agent == receiver.name and not goal.has_ended
            return [goal] if goal is not None and is_there and _is_own(letter, goal, tokens) else []
        tokens = await self._store.list_tokens()
        return await self.list_goals(
            lambda goal: _is_own(letter, goal, tokens), agent=receiver.name, limit=_MOST_GOALS + 1
        )

    async def list_goals_of(self, agent: str, root: ConversationKey, *, limit: int) -> list[Goal]:
        """Return up to `limit` live goals of an agent of this daemon that a sender in this conversation can reach."""
        tokens = await self._store.list_tokens()
        return await self.list_goals(lambda goal: _is_of(root, goal, tokens), agent=agent, limit=limit)

    async def list_goals(self, is_own: Callable[[Goal], bool], *, agent: str, limit: int) -> list[Goal]:
        """Return up to `limit` live goals that belong to a principal, however many others have."""
        since, most = self._clock.now() - self.active_seconds, limit
        while True:
            found = await self._mail.list_goals(agent=agent, since=since, limit=most)
            own = list(filter(is_own, found))
            if len(own) >= limit or len(found) < most:
                return own[:limit]
            most *= 8

    async def _deliver(self, letter: Letter, goals: Sequence[MailTarget]) -> DeliveryReport:
        now = self._clock.now()
        mails = [make_mail_of(letter, goal.id, goal.agent, now) for goal in goals]
        report = await self._store_all(letter, goals, mails, now)
        ended = await self._losses.evict_ended(goals)
        if not ended:
            return report
        # Whoever sent it is told by this report, and not once more.
        own = [TOLD_SENDER + mail.id for mail in mails if mail.goal_id in ended and letter.from_goal]
        self._mailboxes.note_told(letter.origin[0], own)
        return DeliveryReport(
            delivered_to=tuple(goal_id for goal_id in report.delivered_to if goal_id not in ended),
            unreachable_reasons=(
                *report.unreachable_reasons,
                *(_no_goals(replace(letter, goal_id=goal_id)) for goal_id in report.delivered_to if goal_id in ended),
            ),
            reported=(*report.reported, *own),
        )

    async def _store_all(
        self, letter: Letter, goals: Sequence[MailTarget], mails: Sequence[Mail], now: float
    ) -> DeliveryReport:
        results: list[list[Mail] | MootError]
        if len(mails) == 1:
            # Most mail is for one goal, and evicts nothing.
            try:
                results = [await self._mail.send(mails, now=now)]
            except MootError as error:
                results = [error]
            if results == [[]]:
                letter.emit(MailSent(mails[0]))
                self._announce(goals[0], mails[0])
                return DeliveryReport(delivered_to=(goals[0].id,))
        else:
            results = await self._try_all(mails, now)
        delivered: list[str] = []
        reasons: list[str] = []
        reported: list[str] = []
        for goal, mail, evicted in zip(goals, mails, results, strict=True):
            if isinstance(evicted, MootError):
                reasons.append(f"delivery failed for goal {goal.id}: {evicted.message}")
            else:
                delivered.append(goal.id)
                letter.emit(MailSent(mail))
                self._announce(goal, mail)
                if evicted:
                    lost = await self._announce_evicted(goal, evicted)
                    # A sender whose own mail was evicted is told by this report, and not once more.
                    own = [TOLD_SENDER + each.id for each in lost if each.from_goal == letter.from_goal != ""]
                    self._mailboxes.note_told(letter.origin[0], own)
                    reported += own
                    reasons += map(_explain_eviction, lost)
        return DeliveryReport(
            delivered_to=tuple(delivered), unreachable_reasons=tuple(reasons), reported=tuple(reported)
        )

    async def _try_all(self, mails: Sequence[Mail], now: float) -> list[list[Mail] | MootError]:
        """Store each in a transaction of its own, so that no failure prevents the others; they share a commit."""
        async with asyncio.TaskGroup() as group:
            storing = [group.create_task(self._try(mail, now)) for mail in mails]
        return [task.result() for task in storing]

    async def deliver(self, goal: MailTarget, mail: Mail) -> None:
        """Store and announce one mail that the daemon itself sends to a goal."""
        evicted = await self._mail.send([mail], now=mail.sent_at)
        self._announce(goal, mail)
        await self._announce_evicted(goal, evicted)

    async def _try(self, mail: Mail, now: float) -> list[Mail] | MootError:
        try:
            return await self._mail.send([mail], now=now)
        except MootError as error:
            return error

    def _announce(self, goal: MailTarget, mail: Mail) -> None:
        self._bus.publish(make_source(goal), MailDelivered(mail))
        self._mailboxes.add(goal.key)
        self._wakes.consider(goal.key)

    async def _announce_evicted(self, goal: MailTarget, evicted: Sequence[Mail]) -> list[Mail]:
        """Announce what a mail for this goal has evicted; return what nobody is about to read."""
        if not evicted:
            return []
        lost = await self._losses.announce_evicted(evicted, {goal.id: goal})
        if self._remote is not None:
            # If it came from another daemon, its sender is told.
            self._remote.wake_relay()
        return lost

    async def wake_all(self, agent: str = "") -> None:
        """Start the runs of an agent, or of all, for which mail is waiting, as when it arrives."""
        for key in await self._mail.count_unread():
            if agent in ("", key.agent):
                self._mailboxes.add(key)
                self._wakes.consider(key)

    async def resend_to_remote(self, mail_id: str) -> Mail:
        """Send a mail again that another daemon gave back."""
        if self._remote is None:
            raise Unavailable("this daemon has no broker", fix="Set `url` under [broker].")
        return await self._remote.resend(mail_id)

    async def resend(self, mail_id: str) -> tuple[Mail, str]:
        """Deliver an evicted mail again. Return it, and what it evicted in turn; raise Conflict if nobody reads it."""
        dead = await self._mail.find_dead(mail_id)
        found, _ = await self._mail.find_targets([dead.goal_id] if dead is not None else [])
        goal = next(iter(found.values()), None)
        if goal is not None and goal.has_ended:
            raise _explain_ended(mail_id)
        if dead is not None and self._losses.is_held(dead):
            raise Conflict(f"a run is about to show {mail_id}", fix="See `moot peers dead` again in a moment.")
        mail, evicted = await self._mail.resend(mail_id, now=self._clock.now())
        assert goal is not None, "mail is deleted with its goal"
        self._announce(goal, mail)
        lost = await self._announce_evicted(goal, evicted)
        if await self._losses.evict_ended([goal]):
            raise _explain_ended(mail_id)
        return mail, "; ".join(map(_explain_eviction, lost))


def _check_count(letter: Letter, count: int) -> None:
    if count > _MOST_GOALS:
        raise _explain_crowded(letter.to)


def _explain_crowded(agent: str) -> BadRequest:
    fix = f'Name one of them with `goal_id`; list_peers(goals_of="{agent}") lists them, and `moot goals` for a person.'
    return BadRequest(f"agent `{agent}` has more than {_MOST_GOALS} live goals", fix=fix)


def _is_own(letter: Letter, goal: MailTarget, tokens: Sequence[Token]) -> bool:
    """Whether a goal belongs to the principal of the sender, and is not the sender's own."""
    return goal.id != letter.from_goal and _is_of(letter.root, goal, tokens)


def _is_of(root: ConversationKey, goal: MailTarget, tokens: Sequence[Token]) -> bool:
    """Whether a goal belongs to the principal of this root conversation."""
    return not tokens or find_principal(goal.root.sender, tokens) == find_principal(root.sender, tokens)


def _explain_ended(mail_id: str) -> Conflict:
    return Conflict(f"the run that {mail_id} was for has ended", fix="Send a new message to another goal.")


def _no_goals(letter: Letter) -> str:
    if letter.goal_id:
        return f"no live goal `{letter.goal_id}` of agent_id `{letter.to}`"
    return f"no live goals for agent_id `{letter.to}`"


def _explain_eviction(evicted: Mail) -> str:
    return (
        f"goal {evicted.goal_id} had too many unread messages: its oldest, {evicted.id} from `{evicted.from_agent}`,"
        " was evicted"
    )
