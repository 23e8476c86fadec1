"""PeerDirectory: which agents there are to write to, and who may write to whom. Used by mail_sender.py and tools.py."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.senders import SenderSet, owner_of
from moot.domain.token import Token


class PeerSummary(Struct, frozen=True, kw_only=True):
    """One entry of `list_peers`."""

    agent_id: str
    description: str
    reachable: bool


class PeerDirectory:
    """The agents as their files define them now."""

    def __init__(self, *, agents: Callable[[], Sequence[Agent]], find: Callable[[str], Agent | None]) -> None:
        self._agents = agents
        self._find = find

    def find(self, name: str) -> Agent | None:
        return self._find(name)

    def list_peers(self, caller: str) -> list[PeerSummary]:
        """Return all other agents, also those that cannot be reached."""
        sender = self._find(caller)
        return [
            PeerSummary(
                agent_id=agent.name,
                description=agent.description,
                reachable=sender is not None and not explain_refusal(sender, agent),
            )
            for agent in self._agents()
            if agent.name != caller
        ]


def explain_refusal(sender: Agent, receiver: Agent) -> str:
    """Return why the sender may not write to the receiver; empty if it may."""
    if not _matches(sender.allowed_delegates, receiver.name):
        return f"agent `{sender.name}` may not write to `{receiver.name}` (allowed_delegates)"
    if not _matches(receiver.accept_delegates_from, sender.name):
        return f"agent `{receiver.name}` accepts no messages from `{sender.name}` (accept_delegates_from)"
    return ""


def _matches(patterns: tuple[str, ...] | None, name: str) -> bool:
    """Whether a name is allowed: no list allows all, an empty one none. A `*` at the end stands for any ending."""
    if patterns is None:
        return True
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


def find_principal(sender: str, tokens: Sequence[Token]) -> frozenset[str]:
    """Return what identifies the principal of a sender: the tokens it belongs to; empty for the owner alone.

    A revoked token counts as well: its conversations do not become the owner's.
    """
    owner = owner_of(sender)
    return frozenset(
        token.sender for token in tokens if SenderSet(names=(token.sender,), patterns=token.senders).includes(owner)
    )
