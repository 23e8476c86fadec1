"""WorkerFacts: what a coordinator is told of its workers in each turn: what they know, and how full their contexts are.

Works with the stored runs and engine/history.py. The text follows the message of the turn, so that everything before it
stays the same; its rule is in role_prompts.py.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.ports.model import Model
from moot.domain.run import Delivery, Run, RunRequest
from moot.domain.run_view import TeammateStatus, status_of
from moot.domain.task_notification import find_task_status, summarize
from moot.domain.text import defuse
from moot.engine.history import Histories, History
from moot.engine.run_results import Entries, load_results
from moot.multiagent.roles.role_prompts import FULL_PERCENT

# How many workers are listed, the newest first.
_MOST_LISTED = 12
_TASK_CHARS = 200
_LIVE = (TeammateStatus.SPAWNED, TeammateStatus.RUNNING)


class WorkerStore(Entries, Protocol):
    async def list_workers(self, key: ConversationKey, *, root: ConversationKey, limit: int) -> list[Run]: ...
    async def get_run(self, run_id: str) -> Run | None: ...


class WorkerFact(Struct, frozen=True, kw_only=True):
    """One worker of a coordinator."""

    run: Run
    # The task that it was started for, if it was given others since.
    first_task: str = ""
    # Whether its end has not been told yet.
    is_owed: bool = False
    # The tokens of its next request, and its model's window; 0 if not known.
    tokens: int = 0
    window: int = 0


class ToldFacts(Struct, frozen=True):
    """What a coordinator is told of its workers, and the sources of untrusted text in it."""

    text: str = ""
    taint: frozenset[str] = frozenset()


class WorkerFacts:
    def __init__(self, *, store: WorkerStore, histories: Histories, find_model: Callable[[str, str], Model]) -> None:
        self._store = store
        self._histories = histories
        # Returns the model of an agent, or the one that its conversation uses instead.
        self._find_model = find_model

    async def tell(self, request: RunRequest, coordinator: History) -> ToldFacts:
        """Return the facts about the workers that runs of this conversation have started."""
        facts: list[WorkerFact] = []
        taint: frozenset[str] = frozenset()
        workers = await self._store.list_workers(request.key, root=request.asks_in, limit=_MOST_LISTED)
        for run in await load_results(self._store, workers):
            history = await self._histories.load(run.key)
            first = None if run.id == run.worker_id else await self._store.get_run(run.worker_id)
            # The delivery by the message of this turn may not be on disk yet.
            is_owed = run.delivery is Delivery.OWED and run.id not in request.delivers
            first_task = first.instruction if first is not None else ""
            facts.append(replace(self._describe(run, history), first_task=first_task, is_owed=is_owed))
            # What the owner has marked as trusted in the coordinator's conversation includes what it was shown of this.
            if not coordinator.is_trusted(max(run.spawn.parent_seq, run.delivered_seq)):
                taint |= history.taint if history is not None else run.request.taint
        return ToldFacts(render_facts(facts), taint)

    def _describe(self, run: Run, history: History | None) -> WorkerFact:
        if history is None:
            return WorkerFact(run=run)
        tokens = history.count_tokens("") or history.estimate_tokens()
        try:
            window = self._find_model(run.agent, history.model).window
        except MootError:
            # Its agent or model has gone; what it knows is still worth telling.
            window = 0
        return WorkerFact(run=run, tokens=tokens, window=window)


def render_facts(facts: Sequence[WorkerFact]) -> str:
    return "\n".join(("Your workers, newest first:", *map(_render_fact, facts))) if facts else ""


def _render_fact(fact: WorkerFact) -> str:
    run = fact.run
    lines = [f"- {run.worker_id} ({run.agent}), {_find_status(run)}, {_render_context(fact)}: {_advise(fact)}"]
    if fact.first_task:
        lines.append(f"  its first task: {_line(fact.first_task)}")
    lines.append(f"  its latest task: {_line(run.instruction)}")
    if run.end is not None and not fact.is_owed:
        lines.append(f"  its latest report: {_line(summarize(run.end.answer or run.end.error, 'none'))}")
    return "\n".join(lines)


def _find_status(run: Run) -> str:
    """Return how a worker ended in the words of its notification, or how far it is."""
    return find_task_status(run.end.outcome) if run.end is not None else status_of(run)


def _render_context(fact: WorkerFact) -> str:
    if not fact.window:
        return f"about {fact.tokens} tokens in its context"
    return f"context {_compute_percent_used(fact)}% full"


def _advise(fact: WorkerFact) -> str:
    """Return what the rule says where facts decide it; the rest is for the coordinator to judge."""
    if status_of(fact.run) in _LIVE:
        return "wait for it"
    if fact.is_owed:
        return "its notification follows"
    return "start another instead" if _compute_percent_used(fact) > FULL_PERCENT else "can be continued"


def _compute_percent_used(fact: WorkerFact) -> int:
    return min(100, round(100 * fact.tokens / fact.window)) if fact.window else 0


def _line(text: str) -> str:
    line = defuse(" ".join(text.split()))
    return line if len(line) <= _TASK_CHARS else f"{line[:_TASK_CHARS]}…"
