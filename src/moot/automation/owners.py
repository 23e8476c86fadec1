"""Finds the conversation that owns a job, task or workflow, and checks which agents a run may start. Used by tools."""

from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Forbidden
from moot.domain.ports.tool import RunContext
from moot.domain.run import Run, RunKind
from moot.domain.run_view import RunView
from moot.domain.senders import owner_of


def find_owner(context: RunContext) -> ConversationKey:
    """Return the conversation that owns what a run schedules or submits, and gets the results."""
    return _name_person(context.asks_in)


def find_run_owner(run: Run) -> ConversationKey:
    """Return the conversation that a background run works for."""
    return _name_person(run.root)


class AgentChooser(Struct, frozen=True, kw_only=True):
    """Decides which agents a run may have work: so nobody gets work done with tools that it could not use itself."""

    # Whether an agent directs others, and may therefore have them work.
    may_direct: Callable[[str], bool]
    find_live: Callable[[str], RunView | None]
    # Returns the conversation of the step of a workflow that a run works for, if it does.
    find_step: Callable[[RunContext], Awaitable[ConversationKey | None]]

    def choose(self, context: RunContext, wanted: str, *, delivers: bool = True) -> str:
        """Return the agent that does the work. Only one that directs others may name another than itself.

        The modes and approvals of a run whose result is not delivered are those of its own agent. So another agent may
        not work without the conversation being told.
        """
        self._require_all_tools(context)
        owner = find_owner(context)
        if not wanted or wanted == owner.agent:
            return owner.agent
        if not self.may_direct(owner.agent):
            raise Forbidden(f"{owner.agent} cannot start work of {wanted}", fix="Leave the agent out.")
        if not delivers:
            raise Forbidden(f"the result of {wanted} must be reported", fix="Deliver it to the conversation.")
        return wanted

    def check(self, context: RunContext, agents: Iterable[str]) -> None:
        """Raise Forbidden if one of the agents of a workflow may not work for the conversation, or be told of it."""
        self._require_all_tools(context)
        owner = find_owner(context)
        others = sorted(set(agents) - {owner.agent})
        if others and not self.may_direct(owner.agent):
            fix = f"Name {owner.agent} as the agent of every step, and no other agent in deliver_to."
            raise Forbidden(f"{owner.agent} cannot start work of {others[0]}", fix=fix)

    def check_told(self, context: RunContext, agent: str) -> None:
        """Raise Forbidden if results may not be told to another agent: only one that directs others may do so."""
        owner = find_owner(context)
        if agent != owner.agent and not self.may_direct(owner.agent):
            raise Forbidden(f"{owner.agent} cannot tell {agent} results", fix="Deliver them to the conversation.")

    async def check_no_step(self, context: RunContext) -> None:
        """Raise BadRequest if a run works for a step of a workflow: steps that start workflows could go on for ever."""
        if await self.find_step(context) is not None:
            raise BadRequest("a step of a workflow cannot start a workflow", fix="Add the steps to this workflow.")

    def _require_all_tools(self, context: RunContext) -> None:
        """A background run that was given only some tools could get at the others in a run that has all of them."""
        view = self.find_live(context.root_id or context.run_id)
        if view is not None and view.run.kind is RunKind.BACKGROUND and view.run.spawn.allowed_tools is not None:
            raise Forbidden("a run that has only some of its tools cannot start others", fix="Do it in this run.")


def _name_person(key: ConversationKey) -> ConversationKey:
    return ConversationKey(key.agent, owner_of(key.sender))
