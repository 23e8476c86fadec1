"""PeerDirectory: which agents there are to write to, and who may write to whom.

Used by mail_sender.py and peer_tools.py.
Agents of this daemon are those of the registry; those of others come from remote_directory.py.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.conversation import ConversationKey
from moot.domain.events import EventSource
from moot.domain.goal import MailTarget
from moot.domain.peer_address import is_allowed, join_address, split_address
from moot.domain.senders import SenderSet, owner_of
from moot.domain.token import Token
from moot.multiagent.peers.daemons.remote_directory import RemoteAgent, RemoteDirectory

_NOWHERE = EventSource(key=ConversationKey("", ""), root=ConversationKey("", ""))
_OWNER_ALONE: frozenset[str] = frozenset()


class PeerSummary(Struct, frozen=True, kw_only=True):
    """One entry of `list_peers`."""

    agent_id: str
    description: str
    reachable: bool


class PeerDirectory:
    """The agents as their files define them now, and as other daemons announce them. `remote` is None without those."""

    def __init__(
        self,
        *,
        agents: Callable[[], Sequence[Agent]],
        find: Callable[[str], Agent | None],
        remote: RemoteDirectory | None = None,
        is_enabled: Callable[[], bool] = lambda: True,
    ) -> None:
        # Whether agents can find and write to each other.
        self.is_enabled = is_enabled
        self._agents = agents
        self._find = find
        self._remote = remote

    def find_name(self, to: str) -> str:
        """Return the name of an agent of this daemon that is given with its address here; anything else as it is."""
        agent, daemon = split_address(to)
        return agent if self._remote is not None and daemon == self._remote.name else to

    def find(self, name: str) -> Agent | None:
        # Persons and agents of other daemons: for a name that is unknown, the registry looks for new files.
        return None if "@" in name else self._find(name)

    def list_local(self, caller: str) -> list[Agent]:
        """Return all other agents of this daemon."""
        return [agent for agent in self._agents() if agent.name != caller]

    def list_remote(self) -> list[RemoteAgent]:
        return self._remote.list_agents() if self._remote is not None else []

    def find_remote(self, to: str) -> Sequence[RemoteAgent]:
        """Return the agents of other daemons with this address, or with this name."""
        return self._remote.find_agents(to) if self._remote is not None else []

    def explain_unknown(self, to: str) -> str:
        """Return why there is no agent with this address or name."""
        away = self._remote.find_away(to) if self._remote is not None else ""
        if not away or self._remote is None:
            return explain_unknown(to)
        if not self._remote.is_up:
            return f"there is no connection to the broker, so daemon `{away}` of agent `{to}` cannot be reached"
        return f"daemon `{away}` of agent `{to}` is not connected"

    def list_local_peers(self, caller: str) -> list[PeerSummary]:
        """Return all other agents of this daemon, also those that cannot be reached."""
        sender = self._find(caller)
        return [
            PeerSummary(
                agent_id=agent.name,
                description=agent.description,
                reachable=sender is not None and not explain_refusal(sender, agent),
            )
            for agent in self.list_local(caller)
        ]

    def list_peers(self, caller: str) -> list[PeerSummary]:
        """Return all other agents, also those that cannot be reached."""
        sender = self._find(caller)
        remote = [
            PeerSummary(
                agent_id=peer.address,
                description=peer.agent.description,
                reachable=sender is not None and not self.explain_remote_refusal(sender, peer),
            )
            for peer in self.list_remote()
        ]
        return self.list_local_peers(caller) + remote

    def explain_remote_refusal(self, sender: Agent | None, peer: RemoteAgent) -> str:
        """Return why a sender may not write to an agent of another daemon; empty if it may. None is a person."""
        assert self._remote is not None, "there are no agents of other daemons"
        if problem := self._remote.explain_unreachable(peer.daemon):
            return problem
        if sender is None:
            return ""
        if not is_allowed(sender.allowed_delegates, peer.address):
            return explain_not_allowed(sender.name, peer.address, sender.allowed_delegates)
        own, accepts = join_address(sender.name, self._remote.name), peer.agent.accept_delegates_from
        return "" if is_allowed(accepts, own) else explain_not_accepted(peer.address, own, accepts)


def explain_unknown(to: str) -> str:
    return f"unknown agent_id `{to}`"


def explain_refusal(sender: Agent, receiver: Agent) -> str:
    """Return why the sender may not write to the receiver; empty if it may."""
    if not is_allowed(sender.allowed_delegates, receiver.name):
        return explain_not_allowed(sender.name, receiver.name, sender.allowed_delegates)
    if not is_allowed(receiver.accept_delegates_from, sender.name):
        return explain_not_accepted(receiver.name, sender.name, receiver.accept_delegates_from)
    return ""


def explain_not_allowed(sender: str, receiver: str, patterns: Sequence[str] | None) -> str:
    refusal = f"agent `{sender}` may not write to `{receiver}` (allowed_delegates)"
    return refusal if patterns is not None else f"{refusal}{_explain_absent(sender, receiver)}"


def explain_not_accepted(receiver: str, sender: str, patterns: Sequence[str] | None) -> str:
    refusal = f"agent `{receiver}` accepts no messages from `{sender}` (accept_delegates_from)"
    return refusal if patterns is not None else f"{refusal}{_explain_absent(receiver, sender)}"


def _explain_absent(agent: str, other: str) -> str:
    return f"; agents of other daemons need an entry such as [{other}] in the AGENT.md of `{agent}`"


def find_principal(sender: str, tokens: Sequence[Token]) -> frozenset[str]:
    """Return what identifies the principal of a sender: the tokens it belongs to; empty for the owner alone.

    A revoked token counts as well: its conversations do not become the owner's.
    """
    if not tokens:
        return _OWNER_ALONE
    owner = owner_of(sender)
    return frozenset(
        token.sender for token in tokens if SenderSet(names=(token.sender,), patterns=token.senders).includes(owner)
    )


def make_source(goal: MailTarget | None) -> EventSource:
    """Return the source of an event about mail of a goal; None is about a message for no goal."""
    return _NOWHERE if goal is None else EventSource(key=goal.key, root=goal.root, speaker=goal.agent)
