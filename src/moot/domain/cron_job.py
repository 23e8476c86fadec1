"""CronJob: a prompt or a workflow that is started at the times of a schedule; its firings, and the run of each. Pure.

Stored by store/cron_jobs.py, fired by automation/scheduler.py.
"""

import re
from enum import StrEnum

from msgspec import Struct

from moot.domain.agent import ROOT
from moot.domain.approval import digest
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict
from moot.domain.run import NO_MAIL_CAUSE, Limits, MailCause, Run, RunKind, RunRequest, RunStatus, Spawn
from moot.domain.schedule import Schedule, ScheduleKind, parse_duration
from moot.domain.senders import CRON_SENDER
from moot.domain.workflow import WorkflowRun, WorkflowStatus

LONGEST_NAME = 100
LONGEST_PROMPT = 32_768
# The maximum per owner.
MOST_JOBS = 10_000
# The firings that are kept of a job.
MOST_FIRINGS = 100
# A firing that is later than this was missed: the daemon was not running, or the computer slept.
MISSED_SECONDS = 60.0
LONGEST_TIMEOUT = 86_400.0

_NAME = re.compile(r"[\w][\w .:/@+-]*")


class JobIsolation(StrEnum):
    """Whether each run has a conversation of its own, or all runs of a job share one."""

    ISOLATED = "isolated"
    MAIN = "main"


class JobDelivery(StrEnum):
    """Where results of a job are told: in the conversation that owns it, in the one with `moot`, or nowhere."""

    CONVERSATION = "conversation"
    OWNER = "owner"
    NOWHERE = "none"


class MissedRule(StrEnum):
    """What happens to firings that were missed: one run late, however many they were, or none."""

    ONCE = "once"
    SKIP = "skip"


class JobStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    # It will not fire again: its one time has come.
    DONE = "done"


class SkipReason(StrEnum):
    """Why a firing has no run."""

    RUNNING = "running"
    MISSED = "missed"
    # Workflows are turned off, or this one cannot be read any more.
    REFUSED = "refused"


class CronJob(Struct, frozen=True, kw_only=True):
    """A scheduled prompt or workflow. Its owner is the conversation that asked for it and gets its results."""

    id: str
    owner: ConversationKey
    name: str
    # The agent that is given the prompt.
    agent: str
    prompt: str
    schedule: Schedule
    # The text of the workflow that is run, instead of a prompt.
    workflow: str = ""
    conversation_mode: JobIsolation = JobIsolation.ISOLATED
    missed: MissedRule = MissedRule.ONCE
    delivery: JobDelivery = JobDelivery.CONVERSATION
    # The seconds that a run may work; None for the configured limit.
    timeout: float | None = None
    cwd: str = ""
    search_path: str = ""
    # The sources of untrusted text that the prompt may contain.
    taint: frozenset[str] = frozenset()
    # The cause of the run that asked for it, if it fires once. A repeated job begins anew each time.
    cause: MailCause = NO_MAIL_CAUSE
    created_at: float = 0.0
    updated_at: float = 0.0
    is_paused: bool = False
    # When it fires next; None if it will not.
    next_at: float | None = None

    @property
    def delivers(self) -> bool:
        """Whether results are told anywhere; questions are then asked in the conversation that owns it."""
        return self.delivery is not JobDelivery.NOWHERE

    @property
    def report_to(self) -> str:
        """The agent whose conversation with the owner gets the results; empty for the conversation that owns it."""
        return ROOT if self.delivery is JobDelivery.OWNER else ""

    @property
    def status(self) -> JobStatus:
        if self.next_at is None and not self.is_paused:
            return JobStatus.DONE
        return JobStatus.PAUSED if self.is_paused else JobStatus.ACTIVE

    def find_following(self, now: float) -> float | None:
        """Return when it fires after the firing that is due now."""
        if self.schedule.kind is ScheduleKind.AT:
            return None
        return self.schedule.find_next(now, anchor=self.next_at if self.next_at is not None else now)

    def find_earlier(self, now: float) -> float | None:
        """Return when it fires if that is before `next_at`, which was computed when the clock was ahead."""
        if self.next_at is None or self.is_paused or self.schedule.kind is ScheduleKind.AT:
            return None
        first = self.schedule.find_first(now, anchor=self.next_at)
        return first if first is not None and first < self.next_at else None


class Firing(Struct, frozen=True, kw_only=True):
    """One firing of a job: a run, or the reason why there is none. A job has one firing for an instant."""

    job_id: str
    due_at: float
    fired_at: float
    run_id: str = ""
    skipped: SkipReason | None = None
    # Whether a person started it, and not the schedule.
    is_manual: bool = False


class FiringRecord(Struct, frozen=True, kw_only=True):
    """A firing with its job and its run or workflow run, from which its status and result are read."""

    firing: Firing
    job: CronJob
    run: Run | None = None
    workflow: WorkflowRun | None = None
    # Of a workflow that has ended: the run of the step that ended last.
    last_step: Run | None = None

    @property
    def result(self) -> str:
        """The text of its run; of a workflow that of the step that ended last, since no other step needed it."""
        run = self.run
        if self.workflow is not None and self.workflow.status is WorkflowStatus.COMPLETED:
            run = self.last_step
        return run.end.answer if run is not None and run.end is not None else ""

    @property
    def ended_runs(self) -> tuple[Run, ...]:
        """The runs that its status and result tell about."""
        return tuple(run for run in (self.run, self.last_step) if run is not None)


def check_job_name(name: str) -> str:
    """Return the name of a job without surrounding spaces. Raise BadRequest if it is not one."""
    name = name.strip()
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise BadRequest(
            f"{name[:LONGEST_NAME]!r} is not a name for a job",
            fix=f"Use up to {LONGEST_NAME} letters, digits, spaces and . : / @ + - _, beginning with a letter.",
        )
    return name


def check_same_kind(known: CronJob, *, is_workflow: bool) -> None:
    """Raise Conflict if a job would replace one of its name that has a workflow instead of a prompt, or the reverse."""
    if bool(known.workflow) != is_workflow:
        raise Conflict(
            f"there is a job {known.name!r} with {'a workflow' if known.workflow else 'a prompt'}",
            fix="Choose another name, or remove that job first.",
        )


def check_prompt(prompt: str) -> str:
    if not prompt.strip():
        raise BadRequest("the prompt is empty", fix="Describe the task.")
    if len(prompt) > LONGEST_PROMPT:
        raise BadRequest(f"the prompt has {len(prompt)} characters", fix=f"At most {LONGEST_PROMPT} are accepted.")
    return prompt


def parse_conversation_mode(text: str) -> JobIsolation:
    if not text:
        return JobIsolation.ISOLATED
    if text not in tuple(JobIsolation):
        raise BadRequest(f"{text!r} is not a session mode", fix=f"Modes are: {', '.join(JobIsolation)}.")
    return JobIsolation(text)


def parse_missed_rule(text: str) -> MissedRule:
    if not text:
        return MissedRule.ONCE
    if text not in tuple(MissedRule):
        raise BadRequest(f"{text!r} is not a rule for missed runs", fix=f"Rules are: {', '.join(MissedRule)}.")
    return MissedRule(text)


def parse_delivery(targets: tuple[str, ...]) -> JobDelivery:
    named = ", ".join(JobDelivery)
    for place in targets:
        if place not in tuple(JobDelivery):
            raise BadRequest(f"results cannot be delivered to {place!r}", fix=f"Name one of {named}.")
    if len(set(targets)) > 1:
        raise BadRequest("results are delivered to one place", fix=f"Name one of {named}.")
    return JobDelivery(targets[0]) if targets else JobDelivery.CONVERSATION


def parse_timeout(text: str) -> float | None:
    if not text:
        return None
    seconds = parse_duration(text)
    if not 1 <= seconds <= LONGEST_TIMEOUT:
        raise BadRequest(f"the timeout {text} is out of range", fix="Give between 1s and 24h.")
    return seconds


def make_job_run(job: CronJob, *, run_id: str, due_at: float, now: float) -> Run:
    """Return the run of a firing, queued."""
    place = job.id if job.conversation_mode is JobIsolation.MAIN else f"{job.id}.{run_id}"
    return Run(
        request=RunRequest(
            id=run_id,
            key=ConversationKey(job.agent, f"{CRON_SENDER}{place}:{job.owner.sender}"),
            speaker=job.agent,
            content=job.prompt,
            cwd=job.cwd,
            search_path=job.search_path,
            limits=Limits(seconds=job.timeout),
            taint=job.taint,
            root=job.owner if job.delivers else None,
            cause=job.cause,
        ),
        status=RunStatus.QUEUED,
        created_at=now,
        spawn=Spawn(
            kind=RunKind.BACKGROUND,
            reason=f"Schedule {job.name!r}",
            report_to=job.report_to,
            client_key=digest(job.id, str(due_at)),
        ),
    )
