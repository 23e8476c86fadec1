"""What becomes of a run the last daemon left: it goes on, or how it ended is found, or recorded where nobody saw it."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moot.domain.agent_run import AgentRun
from moot.domain.conversation import ConversationKey
from moot.domain.run import Outcome, Run, RunEnd
from moot.failpoint import reach
from moot.multiagent.teammates.run_factory import interrupted, stopped
from moot.multiagent.teammates.spawn_request import Crew

logger = logging.getLogger(__name__)


class Fate(NamedTuple):
    """Whether a run had begun, and when, and how it has ended, if it has; `is_moot` is whether nobody need be told."""

    begun: bool
    end: RunEnd | None = None
    is_moot: bool = False
    at: float = 0.0


async def fate(crew: Crew, run: AgentRun) -> Fate:
    """How a run stands that was not told as ended. Those above it have been looked at before it."""
    stored = await crew.store.run(run.id)
    is_moot = await _stopped_with(crew, run)
    if stored is None:
        return Fate(False, stopped() if is_moot else None, is_moot)
    if stored.end is not None:
        return Fate(True, stored.end, is_moot, stored.started_at)
    if is_moot:
        return Fate(True, await _ended(crew, run.id, run.key, stopped(stored.spent)), is_moot, stored.started_at)
    if await _is_known(crew, run.id, run.key, run.may_use):
        return Fate(True, at=stored.started_at)
    return Fate(True, await _ended(crew, run.id, run.key, interrupted(stored.spent)), at=stored.started_at)


async def going_on(crew: Crew, turns: Sequence[Run]) -> list[Run]:
    """Those of the turns people sit before that go on; the others end, since nobody knows what came of a call."""
    found: list[Run] = []
    for turn in turns:
        request = turn.request
        if await _is_known(crew, request.id, request.key, lambda _tool: True):
            found.append(turn)
        else:
            logger.warning("run %s was interrupted: the daemon stopped during a call of it", request.id)
            await _ended(crew, request.id, request.key, interrupted(turn.spent))
    return found


async def never_went_on(crew: Crew, run: AgentRun) -> RunEnd:
    """The end of a run that is stopped while it stands in line; one of an earlier daemon's may have begun there."""
    stored = await crew.store.run(run.id)
    if stored is None or stored.end is not None:
        return RunEnd(outcome=Outcome.CANCELLED, error="It was stopped before it began.")
    return await _ended(crew, run.id, run.key, stopped(stored.spent, "It was stopped before it went on."))


async def _stopped_with(crew: Crew, run: AgentRun) -> bool:
    """Whether the run above it was stopped, and it with it; the daemon may have died before it came to that."""
    above: Run | None = await crew.store.run(run.parent) if run.parent and not run.outlives else None
    return above is not None and above.end is not None and above.end.outcome is Outcome.CANCELLED


async def _is_known(crew: Crew, run_id: str, key: ConversationKey, may_use: Callable[[str], bool]) -> bool:
    """Whether nothing about a run is unknown: no open call can have begun, but for those that do no harm twice."""
    history = await crew.runs.histories.load(key)
    for call in history.open_calls() if history is not None else ():
        if crew.repeatable(call.name) or not may_use(call.name):
            continue
        if not crew.asks.is_carried_over(run_id, call.id):
            return False
    return True


async def _ended(crew: Crew, run_id: str, key: ConversationKey, end: RunEnd) -> RunEnd:
    await crew.store.end(key, run_id, end, (), now=crew.clock.now())
    # The store has closed its open calls, which the history in memory does not know.
    crew.runs.histories.drop(key)
    crew.asks.end_run(run_id)
    reach("teammate.interrupted")
    return end
