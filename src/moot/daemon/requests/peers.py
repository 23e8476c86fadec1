"""Handlers for goals, peers and the mail between them. Works with multiagent/peers/."""

from functools import partial
from itertools import accumulate
from random import Random

from msgspec.structs import replace

from moot.daemon.principal import Principal
from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.reply import Reply
from moot.domain.bridge import DAEMON
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.events import EventSource
from moot.domain.goal import Goal
from moot.domain.ids import make_id
from moot.domain.mail import DeadMail, Mail
from moot.domain.outbox import OutboxItem
from moot.domain.peer_address import PERSON
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.outbox import Outbox
from moot.domain.text import clean
from moot.engine.bus import Bus
from moot.multiagent.peers.daemons.remote_directory import DaemonStatus
from moot.multiagent.peers.letter import Letter
from moot.multiagent.peers.peers import Peers
from moot.wire import moot_pb2 as pb
from moot.wire.mail import mail_info

_MOST_GOALS = 1_000
_MOST_DEAD = 1_000
_DEAD_PAGE = 64
_MOST_LISTED = 1_000
_LONGEST_BODY = 200


class PeerRequests:
    def __init__(self, *, mail: MailStore, outbox: Outbox, peers: Peers, bus: Bus, clock: Clock, rng: Random) -> None:
        self._bus = bus
        self._mail = mail
        self._outbox = outbox
        # None if there can be no other daemons.
        self._others = peers.others
        self._sender = peers.sender
        self._directory = peers.directory
        self._clock = clock
        self._rng = rng

    async def list_goals(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        goals = await self._list_goals(principal, message.list_goals.agent)
        reply.send(pb.ServerMessage(goals=pb.GoalList(goals=map(_goal_info, goals))))

    async def list_peers(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        caller = message.list_peers.agent
        if caller and self._directory.find(caller) is None:
            raise NotFound(f"no agent named {caller!r}", fix="List them with `moot agents`.")
        goals = await self._list_goals(principal, "")
        muted = await self._mail.list_muted()
        peers: list[pb.PeerInfo] = []
        for peer in self._directory.list_local_peers(caller):
            agent = self._directory.find(peer.agent_id)
            own = [goal for goal in goals if goal.agent == peer.agent_id]
            peers.append(
                pb.PeerInfo(
                    agent_id=peer.agent_id,
                    description=clean(peer.description),
                    # A person may write to every agent.
                    reachable=peer.reachable or not caller,
                    wake=agent is not None and agent.wake,
                    muted=peer.agent_id in muted,
                    goals=len(own),
                    unread=sum(goal.unread for goal in own),
                )
            )
        if principal.is_owner:
            peers += self._list_remote(caller)
        reply.send(pb.ServerMessage(peers=pb.PeerList(peers=peers)))

    def _list_remote(self, caller: str) -> list[pb.PeerInfo]:
        """Return the agents of other daemons. Those belong to the same owner."""
        sender = self._directory.find(caller) if caller else None
        return [
            pb.PeerInfo(
                agent_id=peer.address,
                description=clean(peer.agent.description),
                reachable=not self._directory.explain_remote_refusal(sender, peer),
                goals=len(peer.agent.goals),
                daemon=peer.daemon,
                last_seen=peer.last_seen,
            )
            for peer in self._directory.list_remote()
        ]

    async def send_mail(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.send_mail
        sender = principal.sender(request.sender)
        root = ConversationKey(request.agent, sender)
        report = await self._sender.send(
            Letter(
                origin=(make_id("mail", now=self._clock.now(), rng=self._rng), ""),
                from_agent=_name_person(sender),
                from_goal="",
                root=root,
                to=request.agent.strip(),
                body=request.content,
                goal_id=await self._find_goal_id(principal, request.agent, request.goal_id),
                correlation_id=request.correlation_id,
                emit=partial(self._bus.publish, EventSource(key=root, root=root)),
            )
        )
        sent = pb.MailReport(
            delivered_to=report.delivered_to,
            unreachable_reasons=report.unreachable_reasons,
            queued_for=report.queued_for,
        )
        reply.send(pb.ServerMessage(mail_report=sent))

    async def list_dead_mail(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        dead = await self._list_dead(principal)
        if principal.is_owner:
            dead = sorted([*dead, *await self._list_returned()], key=lambda each: each.evicted_at, reverse=True)
        shown = [pb.DeadMailInfo(mail=mail_info(each.mail, each.reason), evicted_at=each.evicted_at) for each in dead]
        reply.send(pb.ServerMessage(dead_mail=pb.DeadMailList(mail=shown)))

    async def _list_dead(self, principal: Principal) -> list[DeadMail]:
        """Return the newest evicted mail of a principal, as much as fits into an answer."""
        found: list[DeadMail] = []
        owned: dict[str, bool] = {}
        size = skip = 0
        while page := await self._mail.list_dead(limit=_DEAD_PAGE, skip=skip):
            skip += len(page)
            for each in page:
                if each.mail.goal_id not in owned:
                    owned[each.mail.goal_id] = await self._owns(principal, each.mail)
                size += len(each.mail.body.encode()) if owned[each.mail.goal_id] else 0
                if size > PAGE_BYTES or len(found) == _MOST_DEAD:
                    return found
                if owned[each.mail.goal_id]:
                    found.append(each)
        return found

    async def _list_returned(self) -> list[DeadMail]:
        """Return the newest mail that was given back, as much as fits into an answer."""
        found = await self._outbox.list_failed(limit=_MOST_DEAD)
        sizes = accumulate(len(each.mail.body.encode()) for each in found)
        return [each for each, size in zip(found, sizes, strict=True) if size <= PAGE_BYTES]

    async def list_outbox(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("list the outbox")
        waiting = await self._outbox.list_waiting(limit=_MOST_LISTED)
        others = self._others
        shown = [_outbox_info(each, others is not None and others.is_published(each)) for each in waiting]
        total = await self._outbox.count_waiting()
        reply.send(pb.ServerMessage(outbox=pb.OutboxList(mail=shown, total=total)))

    async def list_daemons(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("list other daemons")
        name, others = message.list_daemons.forget, self._others
        if name and not (others is not None and await others.presence.forget(name)):
            raise NotFound(f"no daemon named {name!r} is known", fix="List them with `moot peers daemons`.")
        found = pb.DaemonList()
        if others is not None and others.is_shared:
            found.name, found.fingerprint, found.problem = others.name, others.fingerprint, others.directory.problem
            found.daemons.extend(map(_daemon_info, others.directory.list_daemons()))
        reply.send(pb.ServerMessage(daemons=found))

    async def resend_mail(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        mail_id = message.resend_mail.mail_id
        dead = await self._mail.find_dead(mail_id)
        if dead is None and principal.is_owner:
            # It may have been given back.
            reply.send(pb.ServerMessage(mail_resent=mail_info(await self._sender.resend_to_remote(mail_id))))
            return
        if dead is None or not await self._owns(principal, dead):
            raise NotFound(f"there is no evicted mail {mail_id}", fix="List it with `moot peers dead`.")
        reply.send(pb.ServerMessage(mail_resent=mail_info(*await self._sender.resend(mail_id))))

    async def mute_agent(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("mute agents")
        request = message.mute_agent
        if request.agent and request.muted and self._directory.find(request.agent) is None:
            raise NotFound(f"no agent named {request.agent!r}", fix="List them with `moot agents`.")
        if request.agent:
            await self._mail.set_muted(request.agent, muted=request.muted, now=self._clock.now())
            if not request.muted:
                await self._sender.wake_all(request.agent)
        reply.send(pb.ServerMessage(agent_muted=pb.AgentMuted(agents=await self._mail.list_muted())))

    async def _list_goals(self, principal: Principal, agent: str) -> list[Goal]:
        return await self._sender.list_goals(
            lambda goal: principal.owns(goal.root.sender), agent=agent, limit=_MOST_GOALS
        )

    async def _find_goal_id(self, principal: Principal, agent: str, start: str) -> str:
        """Return the whole id of a goal from its beginning."""
        if not start:
            return ""
        found = [goal.id for goal in await self._list_goals(principal, agent) if goal.id.startswith(start)]
        if len(found) > 1:
            raise BadRequest(f"{len(found)} goals begin with {start!r}", fix="Give more of the id; see `moot goals`.")
        return found[0] if found else start

    async def _owns(self, principal: Principal, mail: Mail) -> bool:
        found, _ = await self._mail.find_targets([mail.goal_id])
        return any(principal.owns(goal.root.sender) for goal in found.values())


def _name_person(sender: str) -> str:
    """Return the name under which a person sends mail."""
    name = f"{PERSON}{sender}"
    if name == DAEMON:
        raise BadRequest(f"{DAEMON} is the daemon's own name", fix="Send the message as somebody else: --as NAME.")
    return name


def _daemon_info(daemon: DaemonStatus) -> pb.OtherDaemonInfo:
    return pb.OtherDaemonInfo(
        name=daemon.name,
        fingerprint=daemon.fingerprint,
        live=daemon.is_live,
        last_seen=daemon.last_seen,
        version=clean(daemon.version),
        problem=daemon.problem,
    )


def _outbox_info(item: OutboxItem, is_published: bool) -> pb.OutboxItemInfo:
    mail = replace(item.mail, body=item.mail.body[:_LONGEST_BODY])
    return pb.OutboxItemInfo(mail=mail_info(mail), published=is_published)


def _goal_info(goal: Goal) -> pb.GoalInfo:
    return pb.GoalInfo(
        goal_id=goal.id,
        agent=goal.agent,
        sender=goal.key.sender,
        owner=goal.owner,
        kind=goal.kind,
        state=goal.state,
        label=clean(goal.label),
        unread=goal.unread,
        active_at=goal.active_at,
    )
