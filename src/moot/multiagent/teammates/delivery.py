"""A result nobody waited for goes to its parent in one message; one that was waited for has been handed over."""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from moot.domain.agent_run import AgentRun, Delivery
from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.ids import make_id
from moot.domain.message import Entry, Role
from moot.domain.run import RunRequest
from moot.failpoint import reach
from moot.multiagent.teammates.report import told
from moot.multiagent.teammates.spawn_request import Crew

logger = logging.getLogger(__name__)

WAIT = "agent_wait"
# Who several that report together are.
_TOGETHER = "team"
_MOST_TOGETHER = 32
_TRY_AGAIN_SECONDS = 1.0


class Deliveries:
    def __init__(self, crew: Crew, at_work: Callable[[str], AgentRun | None]) -> None:
        self._runs = crew.runs
        self._store = crew.store
        self._shelf = crew.shelf
        self._clock = crew.clock
        self._rng = crew.rng
        self._supervisor = crew.supervisor
        # A parent that goes on may be in line, and have no lane yet.
        self._at_work = at_work
        # Ended runs whose parent still goes on, and may yet wait for them.
        self._held: dict[str, dict[str, AgentRun]] = defaultdict(dict)
        # Ended runs whose result is to be told, by the conversation it is told in.
        self._ready: dict[ConversationKey, list[AgentRun]] = {}
        self._telling: set[str] = set()

    def left_by(self, parent: str) -> list[AgentRun]:
        """The ended runs a parent left behind, which is over now."""
        return [*self._held.pop(parent, {}).values()]

    def held(self, run_id: str) -> AgentRun | None:
        """An ended run whose parent still goes on."""
        return next((runs[run_id] for runs in self._held.values() if run_id in runs), None)

    def held_for(self, parent: str) -> Collection[AgentRun]:
        return self._held.get(parent, {}).values()

    def not_fetched(self, parent: str, entries: Sequence[Entry]) -> list[AgentRun]:
        """The ended runs of a parent that goes on whose results are not among what it was told."""
        ended = [*self.held_for(parent)]
        return _without(ended, waited_for(entries, parent)) if ended else []

    async def settle(self, runs: Sequence[AgentRun]) -> None:
        """Hand on the results of runs that have ended, unless their parent still goes on or has them already."""
        by_parent: dict[str, list[AgentRun]] = defaultdict(list)
        for run in runs:
            by_parent[run.parent].append(run)
        left_alone: list[tuple[str, ConversationKey, list[AgentRun]]] = []
        # Before anything is awaited: a parent that goes on must not pass by what is held for it.
        for parent, children in by_parent.items():
            key = children[0].parent_key
            assert key is not None
            if self._runs.holds(key, parent) or self._at_work(parent) is not None:
                self._held[parent] |= {run.id: run for run in children}
            else:
                left_alone.append((parent, key, children))
        for parent, key, children in left_alone:
            first = max(1, min(run.parent_seq for run in children))
            waited = waited_for(await self._store.entries(key, first=first), parent)
            left = _without(children, waited)
            self._tell(left)
            if had := [run.id for run in children if run not in left]:
                await self._shelf.deliver(had, Delivery.WAITED)

    def _tell(self, runs: Sequence[AgentRun]) -> None:
        for run in runs:
            if run.id in self._telling:
                continue
            self._telling.add(run.id)
            # A teammate that has ended cannot be told any more; whoever started it all can.
            key = run.root if run.depth > 1 or run.parent_key is None else run.parent_key
            if key in self._ready:
                self._ready[key].append(run)
            else:
                self._ready[key] = [run]
                self._supervisor.start(f"report to {key}", self._report(key))

    async def _report(self, key: ConversationKey) -> None:
        """One message after the other; what ends while one is being answered goes into the next."""
        said = ""
        while ready := self._ready[key]:
            batch = [run for run in ready if run.origin == ready[0].origin][:_MOST_TOGETHER]
            try:
                stream = await self._runs.submit(await self._request(key, batch))
                reach("teammate.delivered")
                await stream.wait_end()
            except MootError as error:
                # Nothing is lost: it stays owed until it is told. An agent may be gone for days; why is said once.
                if error.message != said:
                    said = error.message
                    logger.warning("the results for %s wait: %s", key, said)
                await asyncio.sleep(_TRY_AGAIN_SECONDS)
                continue
            self._telling -= {run.id for run in batch}
            self._ready[key] = [run for run in self._ready[key] if run not in batch]
        del self._ready[key]

    async def _request(self, key: ConversationKey, batch: Sequence[AgentRun]) -> RunRequest:
        taint: frozenset[str] = frozenset()
        for run in batch:
            history = await self._runs.histories.load(run.key)
            taint |= history.taint if history is not None else run.taint
        agents = {run.agent for run in batch}
        return RunRequest(
            id=make_id("run", now=self._clock.now(), rng=self._rng),
            key=key,
            speaker=key.agent,
            content="\n\n".join(told(run, among=len(batch)) for run in batch),
            author=batch[0].agent if len(agents) == 1 else _TOGETHER,
            taint=taint,
            # What comes of it is still of the turn that set it off, and spends from the same budget.
            origin=batch[0].origin,
            delivers=tuple(run.id for run in batch),
        )


def _without(runs: Sequence[AgentRun], waited: Mapping[str, float]) -> list[AgentRun]:
    """Those of the runs whose end was in no answer to a wait."""
    return [run for run in runs if waited.get(run.id, 0.0) < run.ended_at]


def waited_for(entries: Iterable[Entry], parent: str) -> dict[str, float]:
    """The runs a parent was told the end of; and where an answer was cut, those it asked for and when it was given.

    What an answer says holds, also against the clock: a run may end between being looked at and the answer's writing.
    """
    asked: dict[str, list[str]] = {}
    answered: dict[str, float] = {}
    for entry in entries:
        if entry.run_id != parent:
            continue
        asked |= {call.id: waited_ids(call.arguments) for call in entry.message.tool_calls if call.name == WAIT}
        waited = asked.get(entry.message.tool_call_id) if entry.message.role is Role.TOOL else None
        # Another tool can give back whatever somebody wants to be believed.
        if waited is not None and not entry.message.is_error:
            told = _told(entry.message.content)
            if told is not None:
                answered |= dict.fromkeys(told, math.inf)
            else:
                answered |= {run_id: max(answered.get(run_id, 0.0), entry.created_at) for run_id in waited}
    return answered


def told_ids(content: str) -> set[str]:
    """The runs whose end a wait's result tells, where it was not cut."""
    return _told(content) or set()


def _told(content: str) -> set[str] | None:
    try:
        said = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    views = said.get("runs") if isinstance(said, dict) else None
    views = views if isinstance(views, list) else [said]
    return {
        str(view.get("agent_id"))
        for view in views
        if isinstance(view, dict) and view.get("status") in ("completed", "failed", "cancelled")
    }


def waited_ids(arguments: str) -> list[str]:
    """The runs that a call of agent_wait names."""
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return []
    named = given.get("agent_id") if isinstance(given, dict) else None
    return named.replace(",", " ").split() if isinstance(named, str) else []
