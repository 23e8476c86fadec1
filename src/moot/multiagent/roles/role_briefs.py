"""RoleBriefs: adds to the briefing of a run what the role of its agent requires. Used by teammates/briefing.py.

The prompts are in role_prompts.py, what a coordinator is told of its workers in worker_facts.py.
"""

from msgspec.structs import replace

from moot.domain.agent import AUTOMATOR, Agent, AgentRole
from moot.domain.run import Run
from moot.domain.scope import (
    ASSISTING,
    ASSISTING_ALONE,
    NOT_COORDINATING,
    NOT_SPAWNED,
    WORKING,
    WORKING_AS_AUTOMATOR,
)
from moot.domain.text import defuse
from moot.engine.gate import Gate
from moot.engine.turn import Briefing, Turn
from moot.multiagent.abilities import adapt_agent
from moot.multiagent.roles.role_prompts import BRIEF_WORKER, WORKER, render_brief_coordinator, render_coordinator
from moot.multiagent.roles.worker_facts import WorkerFacts
from moot.multiagent.team import Team

_LONGEST_DESCRIPTION = 300


class RoleBriefs:
    def __init__(self, *, team: Team, gate: Gate, facts: WorkerFacts) -> None:
        self._team = team
        self._gate = gate
        self._facts = facts

    async def add(self, turn: Turn, briefing: Briefing, run: Run | None = None) -> Briefing:
        """Return the briefing with what the role requires; `run` is that of a teammate. A guest has no role."""
        if turn.request.guest:
            return briefing
        match self.find_role(turn.agent, run):
            case AgentRole.COORDINATOR:
                return await self._coordinate(turn, briefing, is_spawned=run is not None)
            case AgentRole.WORKER:
                text = BRIEF_WORKER if turn.model.config.small else WORKER
                working = WORKING_AS_AUTOMATOR if turn.agent.name == AUTOMATOR else WORKING
                return replace(briefing, preamble=(text,), scope=briefing.scope & working)
            case AgentRole.ASSISTANT if run is None:
                # engine/framing.py tells it so, if it is offered the tool that messages the person.
                scope = ASSISTING if turn.config.has_teammates else ASSISTING_ALONE
                return replace(briefing, scope=scope, offers=briefing.offers & NOT_COORDINATING)
            case _:
                return replace(briefing, offers=briefing.offers & NOT_COORDINATING)

    def find_role(self, agent: Agent, run: Run | None) -> AgentRole | None:
        """Return the role of an agent in a run. Whoever a coordinator has started is a worker."""
        if run is not None and self._team.is_coordinator(run.spawn.chain[-1]):
            return AgentRole.WORKER
        return agent.role

    async def _coordinate(self, turn: Turn, briefing: Briefing, *, is_spawned: bool) -> Briefing:
        scope = briefing.scope if is_spawned else NOT_SPAWNED
        request, model, agent = turn.request, turn.model, turn.agent
        box = self._gate.box(agent.scope & request.scope & scope)
        tools_config = turn.config.tools
        within, most = briefing.offers & tools_config.not_blocked, tools_config.tool_search.max_offered
        offer = box.choose_tools(model, agent.prefixes, within, most=most)
        tools = tuple(spec.name for spec in offer.specs)
        render = render_brief_coordinator if model.config.small else render_coordinator
        facts = await self._facts.tell(request, turn.history)
        return replace(
            briefing,
            preamble=(render(tools, self._list_workers(agent.name)),),
            scope=scope,
            facts=facts.text,
            facts_taint=facts.taint,
        )

    def _list_workers(self, coordinator: str) -> tuple[tuple[str, str], ...]:
        partition = self._team.partition()
        others = [agent for agent in partition.teammates() if agent.name != coordinator]
        able = [adapt_agent(agent, partition.tools_of(agent.name)) for agent in others]
        return tuple((agent.name, _line(agent.description)) for agent in able)


def _line(description: str) -> str:
    """Return a description from an agent file as one line of bounded length. The text is untrusted."""
    text = defuse(" ".join(description.split()))
    return text if len(text) <= _LONGEST_DESCRIPTION else f"{text[:_LONGEST_DESCRIPTION]}…"
