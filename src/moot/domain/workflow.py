"""Workflows: their steps, which steps are ready given the results so far, and a workflow's run. Pure.

A file is read by workflow_file.py, conditions by workflow_condition.py; automation/workflow_executor.py executes it.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.run import NO_MAIL_CAUSE, MailCause, Outcome, Run
from moot.domain.schedule import ScheduleKind
from moot.domain.workflow_condition import Condition, fold

DEFAULT_SECONDS = 600.0
DEFAULT_PARALLEL = 4
# The longest result that is put into the prompt of another step.
LONGEST_RESULT = 60_000
# What lists contain of the text of a workflow: all texts together could be very large.
LISTED_SOURCE = 200
# The longest texts that the results in one prompt may have together: a prompt can name thousands of them.
LONGEST_RESULTS = 600_000

REFERENCE = re.compile(r"\{\{[ \t]*([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.result[ \t]*\}\}")


class Retry(Struct, frozen=True, kw_only=True):
    """How often a step is tried altogether, and the seconds between two attempts."""

    attempts: int = 1
    delay: float = 0.0


class WorkflowStep(Struct, frozen=True, kw_only=True):
    """One step: a prompt for an agent. `line` is where it begins in its file."""

    id: str
    prompt: str
    # Empty is the root agent.
    agent: str = ""
    depends_on: tuple[str, ...] = ()
    deliver_to: tuple[str, ...] = ()
    # Seconds that one attempt may take, excluding the time it waits for a person.
    timeout: float = DEFAULT_SECONDS
    when: Condition | None = None
    retry: Retry = Retry()
    line: int = 0


class Workflow(Struct, frozen=True, kw_only=True):
    """The contents of a workflow file. The steps are in an order in which each follows those it depends on."""

    name: str
    steps: tuple[WorkflowStep, ...]
    description: str = ""
    # When it runs by itself: kind and text of a schedule; None if it does not.
    schedule: tuple[ScheduleKind, str] | None = None
    # The time zone of the schedule; empty is that of the computer.
    zone: str = ""
    # The agents whose conversations with the owner get the report; empty is the conversation that started it.
    deliver_to: tuple[str, ...] = ()
    max_parallel: int = DEFAULT_PARALLEL


class StepState(StrEnum):
    """The state of a step, derived from the runs of its attempts and from the results of other steps."""

    PENDING = "pending"
    RUNNING = "running"
    # It runs, and a person is asked about one of its calls, or a question of its agent.
    WAITING = "waiting for approval"
    # Its last attempt has failed, and the next one follows.
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class WorkflowStatus(StrEnum):
    """The state of a run of a workflow."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class StepResult(Struct, frozen=True, kw_only=True):
    """How a step ended: COMPLETED, FAILED, SKIPPED or CANCELLED; its result, or why there is none."""

    state: StepState
    text: str = ""
    error: str = ""
    # The sources of untrusted text that the step has read.
    taint: frozenset[str] = frozenset()


class WorkflowRun(Struct, frozen=True, kw_only=True):
    """One execution of a workflow, as it is stored. The states of its steps are derived from their runs."""

    id: str
    name: str
    # The text of the file.
    source: str
    # The sender that it belongs to.
    owner: str
    created_at: float
    # The conversation that started it; None if no conversation did.
    origin: ConversationKey | None = None
    # The run and the call that started it, or the schedule and the time: the same start is made once. May be empty.
    start_key: str = ""
    cwd: str = ""
    search_path: str = ""
    taint: frozenset[str] = frozenset()
    # The cause of the run that started it.
    cause: MailCause = NO_MAIL_CAUSE
    cancelled_at: float = 0.0
    ended_at: float = 0.0
    status: WorkflowStatus = WorkflowStatus.RUNNING
    error: str = ""


class StepAttempt(Struct, frozen=True, kw_only=True):
    """One attempt at a step, stored before its run is. `run` is None until that is stored, and after it is removed."""

    step: str
    attempt: int
    run_id: str
    run: Run | None = None


class WorkflowReport(Struct, frozen=True, kw_only=True):
    """A result that a conversation is owed: of the workflow, or of one step. It is delivered once under its id."""

    id: str
    key: ConversationKey
    step: str = ""


class WorkflowLaunch(Struct, frozen=True, kw_only=True):
    """A run of a workflow that is to be stored, with the reports it owes."""

    run: WorkflowRun
    workflow: Workflow
    reports: tuple[WorkflowReport, ...] = ()


# How much of the text of a step that failed is part of its error.
_LONGEST_SAID = 500

# Outcomes of a run after which another attempt makes sense and repeats nothing whose outcome is unknown.
_RETRIED = frozenset(
    {
        Outcome.EMPTY,
        Outcome.EMPTY_AFTER_TOOL_USE,
        Outcome.LOOP_DETECTED,
        Outcome.TIMEOUT,
        Outcome.LIMIT,
        Outcome.TOOL_ERROR,
        Outcome.MODEL_ERROR,
        Outcome.INTERNAL_ERROR,
    }
)


def has_another_attempt(step: WorkflowStep, attempt: int, run: Run) -> bool:
    """Return whether a step is tried again after the run of this attempt has ended."""
    return run.end is not None and run.end.outcome in _RETRIED and attempt < step.retry.attempts


def read_result(run: Run, taint: frozenset[str]) -> StepResult:
    """Return the result of a step from the last run of it, which has ended."""
    assert run.end is not None
    if run.end.outcome is Outcome.COMPLETED:
        return StepResult(state=StepState.COMPLETED, text=run.end.answer, taint=taint)
    is_stopped = run.end.outcome is Outcome.CANCELLED
    state = StepState.CANCELLED if is_stopped else StepState.FAILED
    # A run that did nothing may have said why.
    details = " ".join(text for text in (run.end.error, run.end.content[:_LONGEST_SAID]) if text)
    error = f"{run.end.outcome}: {details}" if details else str(run.end.outcome)
    return StepResult(state=state, error=error, taint=taint)


def describe_failure(step: str, error: str) -> str:
    """Return the error of a workflow that failed with a step."""
    return f"step {step} failed: {error}"


def render_prompt(step: WorkflowStep, results: Mapping[str, StepResult]) -> tuple[str, frozenset[str]]:
    """Return the prompt with the results it refers to, and their taint. What is inserted is not looked at again."""
    taint: set[str] = set()
    room = LONGEST_RESULTS

    def insert(match: re.Match[str]) -> str:
        nonlocal room
        result = results[match[1]]
        taint.update(result.taint)
        shown = result.text[: min(room, LONGEST_RESULT)]
        room -= len(shown)
        cut = len(result.text) - len(shown)
        return shown if not cut else f"{shown}\n(… {cut} characters more)"

    text = REFERENCE.sub(insert, step.prompt)
    return text, frozenset(taint | find_condition_taint(step, results))


def find_condition_taint(step: WorkflowStep, results: Mapping[str, StepResult]) -> frozenset[str]:
    """Return the taint of what decides whether a step runs: the results that its condition reads."""
    names = step.when.steps if step.when is not None else ()
    return frozenset().union(*(results[name].taint for name in names))


class Progress:
    """Which steps of a workflow have ended and which are ready. Each step costs the number of its dependents."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        self.steps = {step.id: step for step in workflow.steps}
        self.results: dict[str, StepResult] = {}
        self.has_failed = False
        # The results as conditions compare them.
        self._folded: dict[str, str] = {}
        self._missing = {step.id: len(step.depends_on) for step in workflow.steps}
        self._dependents: dict[str, list[str]] = {step.id: [] for step in workflow.steps}
        for step in workflow.steps:
            for name in step.depends_on:
                self._dependents[name].append(step.id)
        self._ready = deque[str]()
        # The steps whose dependencies have ended, and of which it is not decided whether they are skipped.
        self._undecided = deque(step.id for step in workflow.steps if not step.depends_on)
        self._decide()

    @property
    def is_done(self) -> bool:
        """Whether every step has a result."""
        return len(self.results) == len(self.steps)

    def has_ready(self) -> bool:
        """Return whether a step can be started. After a failure none can."""
        return bool(self._ready) and not self.has_failed

    def take_ready(self) -> WorkflowStep:
        return self.steps[self._ready.popleft()]

    def mark_started(self, names: Iterable[str]) -> None:
        """Take out steps that were started before."""
        started = set(names)
        self._ready = deque(name for name in self._ready if name not in started)

    def put_back(self, name: str) -> None:
        """Make a step ready again, for another attempt."""
        self._ready.append(name)

    def finish(self, name: str, result: StepResult) -> None:
        """Record the result of a step. Those that depend on it may be ready now, or skipped."""
        self._record(name, result)
        self._decide()

    def _record(self, name: str, result: StepResult) -> None:
        if name in self.results:
            return
        self.results[name] = result
        self.has_failed |= result.state in (StepState.FAILED, StepState.CANCELLED)
        for dependent in self._dependents[name]:
            self._missing[dependent] -= 1
            if not self._missing[dependent]:
                self._undecided.append(dependent)

    def _decide(self) -> None:
        """Make steps ready, or skip them because their condition does not hold; this may decide others."""
        while self._undecided and not self.has_failed:
            name = self._undecided.popleft()
            if name in self.results:
                continue
            if self._is_skipped(self.steps[name]):
                self._record(name, StepResult(state=StepState.SKIPPED, taint=self._find_skip_taint(name)))
            else:
                self._ready.append(name)

    def _find_skip_taint(self, name: str) -> frozenset[str]:
        """Return the taint of a skipped step: that it was skipped tells what others have said."""
        step = self.steps[name]
        skipped = [self.results[each] for each in step.depends_on if self.results[each].state is StepState.SKIPPED]
        return find_condition_taint(step, self.results).union(*(each.taint for each in skipped))

    def _is_skipped(self, step: WorkflowStep) -> bool:
        """A step is skipped with one it depends on, unless its condition looks at the status of that one."""
        looked_at = step.when.statuses if step.when is not None else frozenset()
        for name in step.depends_on:
            if self.results[name].state is StepState.SKIPPED and name not in looked_at:
                return True
        return step.when is not None and not step.when.holds(self._read)

    def _read(self, name: str, field: str) -> str:
        result = self.results[name]
        if field != "result":
            return str(result.state)
        if name not in self._folded:
            self._folded[name] = fold(result.text)
        return self._folded[name]
