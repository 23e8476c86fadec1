"""Delivers each teammate's result once: to a wait of its parent, or in one message. Used by teammates.

What was delivered is a row that the store writes with the message that shows the result (ToolResult.delivers,
RunRequest.delivers). In memory live_runs keeps which ended runs a parent at work has not been shown yet.
"""

import logging
from collections.abc import Sequence

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.ids import make_id
from moot.domain.run import Run, RunRequest
from moot.failpoint import reach
from moot.multiagent.teammates.dependencies import TeammateDependencies
from moot.multiagent.teammates.report import render_report
from moot.multiagent.teammates.waits import Waits

logger = logging.getLogger(__name__)

# Who several that report together are.
_TOGETHER = "team"
_MOST_TOGETHER = 32
_TRY_AGAIN_SECONDS = 1.0


class Deliveries:
    def __init__(self, dependencies: TeammateDependencies, waits: Waits) -> None:
        self._runs = dependencies.runs
        self._live = dependencies.live
        self._waits = waits
        self._store = dependencies.store
        self._clock = dependencies.clock
        self._rng = dependencies.rng
        self._supervisor = dependencies.supervisor
        # Ended runs whose result is to be reported, by the conversation it is reported to.
        self._ready: dict[ConversationKey, list[str]] = {}

    def release(self, run_id: str) -> None:
        """Report what a run was to show and has not shown, once its end is on disk."""
        self._enqueue_reports(self._live.drop_results(run_id))

    def settle(self, runs: Sequence[Run]) -> None:
        """Hand on the results of runs that have ended: kept for whoever shows them, and else reported."""
        left: list[Run] = []
        for run in runs:
            holder = self._find_holder(run) if run.parent_id else ""
            if holder:
                self._live.keep_result(run, holder)
            elif run.parent_id:
                left.append(run)
        self._enqueue_reports(left)

    def _find_holder(self, run: Run) -> str:
        """The run at work that shows how this one ended, or may yet ask: its parent, or one that waits for it."""
        key = run.parent_key
        # A parent that goes on may be queued, and have no lane yet.
        if key is not None and (self._runs.holds(key, run.parent_id) or run.parent_id in self._live):
            return run.parent_id
        return self._waits.first_waiter(run.id)

    def _enqueue_reports(self, runs: Sequence[Run]) -> None:
        for run in runs:
            # A teammate that has ended cannot be told any more; whoever started it all can.
            key = run.root
            if key not in self._ready:
                self._ready[key] = []
                self._supervisor.start(f"report to {key}", self._report(key))
            if run.id not in self._ready[key]:
                self._ready[key].append(run.id)

    async def _report(self, key: ConversationKey) -> None:
        """One message after the other; what ends while one is being answered goes into the next.

        Only what the store says is owed is told: much of what is handed on here was shown.
        """
        logged = ""
        while self._ready[key]:
            try:
                asked = [*self._ready[key]]
                owed = await self._store.still_owed(asked)
                batch = [run for run in owed if run.root_id == owed[0].root_id][:_MOST_TOGETHER]
                # More may have come meanwhile.
                settled = {*asked} - {run.id for run in owed}
                self._ready[key] = [run_id for run_id in self._ready[key] if run_id not in settled]
                if batch:
                    stream = await self._runs.submit(await self._request(key, batch))
                    reach("teammate.delivered")
                    await stream.wait_end()
            except MootError as error:
                # Nothing is lost: it stays owed until it is told. An agent may be gone for days; why is said once.
                if error.message != logged:
                    logged = error.message
                    logger.warning("the results for %s wait: %s", key, logged)
                await self._clock.sleep(_TRY_AGAIN_SECONDS)
        del self._ready[key]

    async def _request(self, key: ConversationKey, batch: Sequence[Run]) -> RunRequest:
        taint: frozenset[str] = frozenset()
        for run in batch:
            history = await self._runs.histories.load(run.key)
            taint |= history.taint if history is not None else run.request.taint
        agents = {run.agent for run in batch}
        return RunRequest(
            id=make_id("run", now=self._clock.now(), rng=self._rng),
            key=key,
            speaker=key.agent,
            content="\n\n".join(render_report(run, among=len(batch)) for run in batch),
            author=batch[0].agent if len(agents) == 1 else _TOGETHER,
            taint=taint,
            # What comes of it is still of the turn that set it off, and spends from the same budget.
            root_id=batch[0].root_id,
            delivers=tuple(run.id for run in batch),
        )
