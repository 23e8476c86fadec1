"""Reports of workflows: their text, and their delivery to conversations, once each. Used by workflow_executor.py."""

import logging
import re
from collections.abc import Mapping
from random import Random

from moot.domain.errors import Conflict, MootError
from moot.domain.ids import make_id
from moot.domain.ports.clock import Clock
from moot.domain.ports.workflows import Workflows
from moot.domain.run import RunRequest
from moot.domain.workflow import (
    StepResult,
    StepState,
    Workflow,
    WorkflowReport,
    WorkflowRun,
    WorkflowStatus,
)
from moot.engine.runs import Runs
from moot.engine.supervisor import Supervisor
from moot.failpoint import reach

logger = logging.getLogger(__name__)

# The author of a report.
AUTHOR = "workflow"
_LONGEST_REPORT = 60_000
_FIRST_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 300.0
# A line that looks like the first line of a report; it is quoted, so that a result cannot imitate one.
_HEAD = re.compile(r"^(?=.*\([ \t]*wf-[0-9a-z]+[ \t]*\)[ \t]+has[ \t]+ended)", re.IGNORECASE | re.MULTILINE)


class WorkflowReports:
    def __init__(self, *, workflows: Workflows, runs: Runs, supervisor: Supervisor, clock: Clock, rng: Random) -> None:
        self._workflows = workflows
        self._runs = runs
        self._supervisor = supervisor
        self._clock = clock
        self._rng = rng
        # The reports that are on their way.
        self._started: set[str] = set()

    def deliver(self, run: WorkflowRun, report: WorkflowReport, content: str, taint: frozenset[str]) -> None:
        """Send a report to its conversation, as soon as that accepts it. The delivery is recorded with the message."""
        if report.id not in self._started:
            self._started.add(report.id)
            request = RunRequest(
                id=make_id("run", now=self._clock.now(), rng=self._rng),
                key=report.key,
                speaker=report.key.agent,
                content=content,
                author=AUTHOR,
                taint=taint,
                cwd=run.cwd,
                search_path=run.search_path,
                delivers=(report.id,),
                cause=run.cause,
            )
            self._supervisor.start(f"report {report.id}", self._send(request))

    async def _send(self, request: RunRequest) -> None:
        seconds, logged = _FIRST_RETRY_SECONDS, ""
        while True:
            try:
                stream = await self._runs.submit(request)
                reach("workflow.reported")
                await stream.wait_end()
                return
            except Conflict as error:
                # Its conversation was deleted, or it was delivered before.
                logger.info("the report %s is not needed: %s", request.delivers, error.message)
                return
            except MootError as error:
                # It stays owed. An agent may be missing for days, so an error is logged once.
                if error.message != logged:
                    logged = error.message
                    logger.warning("the report of a workflow for %s waits: %s", request.key, logged)
            await self._clock.sleep(seconds)
            seconds = min(2 * seconds, _LONGEST_RETRY_SECONDS)


def render_step_report(run: WorkflowRun, step: str, result: StepResult) -> str:
    """Return the report of one step."""
    head = f"Step {step} of workflow {run.name} ({run.id}) has ended: {result.state}."
    return f"{head}\n\n{_quote(result.text or result.error, _LONGEST_REPORT)}".rstrip()


def render_report(run: WorkflowRun, workflow: Workflow, results: Mapping[str, StepResult]) -> str:
    """Return the report of a workflow: how it ended, and the results that no other step was given."""
    needed = {name for step in workflow.steps for name in step.depends_on}
    parts = [f"Workflow {run.name} ({run.id}) has ended: {run.status}."]
    if run.status is WorkflowStatus.COMPLETED:
        shown = [step.id for step in workflow.steps if step.id not in needed and results[step.id].text]
    else:
        shown = [name for name, result in results.items() if result.state is StepState.FAILED]
    most = _LONGEST_REPORT // max(1, len(shown))
    for name in shown:
        result = results[name]
        parts.append(f"{name}: {result.state}\n{_quote(result.text or result.error, most)}")
    others = [name for name in results if name not in shown]
    if others:
        parts.append(_summarize(results, others))
    never = len(workflow.steps) - len(results)
    if never:
        parts.append(f"Not started: {never} of {len(workflow.steps)} steps.")
    return "\n\n".join(parts)


def _summarize(results: Mapping[str, StepResult], names: list[str]) -> str:
    most = 50
    listed = ", ".join(f"{name} {results[name].state}" for name in names[:most])
    return f"Other steps: {listed}" + (f" and {len(names) - most} more." if len(names) > most else ".")


def _quote(text: str, most: int) -> str:
    quoted = _HEAD.sub("> ", text[:most])
    cut = len(text) - most
    return f"{quoted}\n(… {cut} characters more; workflow_status shows the step.)" if cut > 0 else quoted
