"""Delivers each teammate's result once: to a wait of its parent, or in one message. Used by teammates.

A delivery is a row that the store writes in the transaction of the message that shows the result (ToolResult.delivers,
RunRequest.delivers). In memory, live_runs keeps the ended runs whose results a live parent has not been shown yet.
"""

import logging
from collections.abc import Sequence

from moot.domain.conversation import ConversationKey
from moot.domain.errors import MootError
from moot.domain.ids import make_id
from moot.domain.run import Run, RunRequest
from moot.domain.run_view import RunView
from moot.domain.task_notification import TASK_AUTHOR
from moot.engine.run_results import load_result
from moot.failpoint import reach
from moot.multiagent.teammates.dependencies import TeammateDependencies
from moot.multiagent.teammates.report import notify, render_reports
from moot.multiagent.teammates.teammate_text import TeammateTexts
from moot.multiagent.teammates.waits import Waits

logger = logging.getLogger(__name__)

# The author of a report about runs of several agents.
_TOGETHER = "team"
_MOST_TOGETHER = 32
_TRY_AGAIN_SECONDS = 1.0


class Deliveries:
    def __init__(self, dependencies: TeammateDependencies, waits: Waits, texts: TeammateTexts) -> None:
        self._runs = dependencies.runs
        self._live = dependencies.live
        self._waits = waits
        self._texts = texts
        self._store = dependencies.store
        self._clock = dependencies.clock
        self._rng = dependencies.rng
        self._supervisor = dependencies.supervisor
        self._is_coordinator = dependencies.is_coordinator
        # Ids of ended runs to report, by the conversation that receives the report.
        self._ready: dict[ConversationKey, list[str]] = {}

    def release(self, run_id: str) -> None:
        """Report the results that were kept for a run and that it did not show. Called once its end is on disk."""
        self._enqueue_reports(self._live.drop_results(run_id))

    def settle(self, runs: Sequence[Run]) -> None:
        """Keep each ended run's result for the live run that shows it; report it if there is none."""
        left: list[Run] = []
        for run in runs:
            holder = self._find_holder(run) if run.parent_id else ""
            if holder:
                self._live.keep_result(run, holder)
            elif run.reports:
                left.append(run)
        self._enqueue_reports(left)

    def _find_holder(self, run: Run) -> str:
        """Return the live run that shows this result or may ask for it: the parent, or one that waits; else empty."""
        key = run.parent_key
        # A resumed parent may still be queued, without a lane.
        if key is not None and (self._runs.holds(key, run.parent_id) or run.parent_id in self._live):
            return run.parent_id
        return self._waits.first_waiter(run.id)

    def _enqueue_reports(self, runs: Sequence[Run]) -> None:
        for run in runs:
            # The parent has ended and cannot receive a report, so its root conversation does, or the one it names.
            key = run.report_key
            if key not in self._ready:
                self._ready[key] = []
                self._supervisor.start(f"report to {key}", self._report(key))
            if run.id not in self._ready[key]:
                self._ready[key].append(run.id)

    async def _report(self, key: ConversationKey) -> None:
        """Report results to a conversation, one message at a time; runs that end meanwhile go into the next message.

        Only results that the store lists as owed are reported: many of the queued ones were already shown.
        """
        logged = ""
        while self._ready[key]:
            try:
                ready = [*self._ready[key]]
                owed = await self._store.list_still_owed(ready)
                batch = [run for run in owed if run.root_id == owed[0].root_id][:_MOST_TOGETHER]
                # More runs may have been added meanwhile, so only the settled ones are removed.
                settled = {*ready} - {run.id for run in owed}
                self._ready[key] = [run_id for run_id in self._ready[key] if run_id not in settled]
                if batch:
                    stream = await self._runs.submit(await self._request(key, batch))
                    reach("teammate.delivered")
                    await stream.wait_end()
            except MootError as error:
                # Results stay owed until delivered. An agent may be missing for days, so an error is logged once.
                if error.message != logged:
                    logged = error.message
                    logger.warning("the results for %s wait: %s", key, logged)
                await self._clock.sleep(_TRY_AGAIN_SECONDS)
        del self._ready[key]

    async def _request(self, key: ConversationKey, batch: Sequence[Run]) -> RunRequest:
        is_coordinator = self._is_coordinator(key.agent)
        shown = [RunView(await load_result(self._store, run)) for run in batch]
        text = await self._texts.join(shown, notify if is_coordinator else render_reports)
        agents = {TASK_AUTHOR} if is_coordinator else {run.agent for run in batch}
        # The report goes on with the turn, where that worked and with its programs.
        turn = await self._store.get_run(batch[0].root_id)
        return RunRequest(
            id=make_id("run", now=self._clock.now(), rng=self._rng),
            key=key,
            speaker=key.agent,
            content=text.content,
            author=agents.pop() if len(agents) == 1 else _TOGETHER,
            taint=text.taint,
            cwd=turn.request.cwd if turn is not None else "",
            search_path=turn.request.search_path if turn is not None else "",
            # The report belongs to the tree of runs of the original turn and uses its budget. That of a background run,
            # which may have used up its own, is a turn of its own.
            root_id=batch[0].root_id if batch[0].parent_id else "",
            delivers=tuple(run.id for run in batch),
            cause=batch[0].request.cause,
        )
