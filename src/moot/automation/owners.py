"""Which conversation automation works for: that of the person, also if a teammate or a background run asks. Pure."""

from collections.abc import Callable

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Forbidden
from moot.domain.ports.tool import RunContext
from moot.domain.run import Run
from moot.domain.senders import owner_of

# Tells whether an agent directs others, and may therefore have them work.
MayDirect = Callable[[str], bool]


def find_owner(context: RunContext) -> ConversationKey:
    """Return the conversation that owns what a run schedules or submits, and gets the results."""
    return _name_person(context.asks_in)


def find_run_owner(run: Run) -> ConversationKey:
    """Return the conversation that a background run works for."""
    return _name_person(run.root)


def choose_agent(owner: ConversationKey, wanted: str, may_direct: MayDirect) -> str:
    """Return the agent that does the work. Only one that directs others may name another than itself.

    So nobody gets work done with tools that it could not use itself.
    """
    if not wanted or wanted == owner.agent:
        return owner.agent
    if not may_direct(owner.agent):
        raise Forbidden(f"{owner.agent} cannot have {wanted} work", fix="Leave the agent out.")
    return wanted


def _name_person(key: ConversationKey) -> ConversationKey:
    return ConversationKey(key.agent, owner_of(key.sender))
