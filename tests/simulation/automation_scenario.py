"""A simulated history with schedules and workflows beside everything else that clients do. Works with scenario.py."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

from moot.automation.cron_jobs import JobDraft
from moot.automation.workflow_start import WorkflowStart
from moot.domain import workflow_view
from moot.domain.conversation import ConversationKey
from moot.domain.message import Role
from moot.domain.senders import SenderSet
from moot.domain.workflow import has_another_attempt
from moot.domain.workflow_file import parse_workflow
from moot.store.memory import found_runs, workflows
from moot.store.memory.database import Database
from tests.simulation.mutants import Patch
from tests.simulation.scenario import KEYS, Scenario, Violation
from tests.simulation.world import Daemon

# One whose conversation is also talked to, killed and deleted, and one of its own.
OWNERS = (KEYS[0], ConversationKey("moot", "automation"))
EVERYONE = SenderSet(is_everyone=True)


class AutomationScenario(Scenario):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world.automates = True
        # What clients were told of, with its owner.
        self.started: dict[str, ConversationKey] = {}
        self.jobs: dict[str, ConversationKey] = {}
        self.cancelled: set[str] = set()
        self._operations = (
            *self._operations,
            *[self._start_workflow] * 7,
            *[self._cancel_workflow] * 3,
            *[self._schedule] * 5,
            *[self._schedule_workflow] * 3,
        )

    def run(self) -> None:
        super().run()
        self.world.database.transact(lambda db: _raise_any(_list_problems(db, self)))

    async def _start_workflow(self, daemon: Daemon) -> None:
        owner = self._rng.choice(OWNERS)
        start = WorkflowStart(source=self._make_flow(), owner=owner.sender, origin=owner)
        run = await daemon.automation.workflows.start(start)
        if not daemon.is_dead:
            self.world.note(f"started {run.id} for {owner}")
            self.started[run.id] = owner

    async def _cancel_workflow(self, daemon: Daemon) -> None:
        if self.started:
            run_id = self._rng.choice(list(self.started))
            await daemon.automation.workflows.cancel(run_id, EVERYONE)
            if not daemon.is_dead:
                self.world.note(f"cancelled {run_id}")
                self.cancelled.add(run_id)

    async def _schedule(self, daemon: Daemon) -> None:
        await self._add_job(daemon, f"scheduled {len(self.world.trace)}")

    async def _schedule_workflow(self, daemon: Daemon) -> None:
        await self._add_job(daemon, "", self._make_flow())

    async def _add_job(self, daemon: Daemon, prompt: str, workflow: str = "") -> None:
        owner = self._rng.choice(OWNERS)
        due = datetime.fromtimestamp(daemon.clock.now() + self._rng.choice((0.01, 0.5, 20.0)), UTC)
        draft = JobDraft(
            name=f"job {len(self.world.trace)}",
            schedule_type="at",
            schedule=due.isoformat(),
            agent=self._rng.choice(("moot", "operator")),
            prompt=prompt,
            workflow=workflow,
        )
        job, _ = await daemon.automation.jobs.add(owner, draft)
        if not daemon.is_dead:
            self.world.note(f"scheduled {job.id} for {owner}")
            self.jobs[job.id] = owner

    def _make_flow(self) -> str:
        steps: list[dict[str, object]] = []
        for number in range(self._rng.randint(1, 5)):
            above = [f"s{other}" for other in range(number) if self._rng.random() < 0.4]
            prompt = f"step {len(self.world.trace)} " + " ".join(f"{{{{{name}.result}}}}" for name in above)
            step: dict[str, object] = {"id": f"s{number}", "prompt": prompt, "depends_on": above}
            step["agent"] = self._rng.choice(("moot", "operator", "planner"))
            step["retry"] = {"attempts": self._rng.randint(1, 3), "delay": "1s"}
            if above and self._rng.random() < 0.3:
                step["when"] = f"{above[0]}.result contains e"
            steps.append(step)
        return json.dumps({"name": "simulated", "max_parallel": self._rng.randint(1, 4), "steps": steps})


def _forget_reports() -> list[Patch]:
    """What a workflow owes is not found."""
    return [(workflows, "_list_owed", lambda *_given: [])]


def _repeat_steps() -> list[Patch]:
    """After a restart a step is tried again that has ended well."""
    return [(workflow_view, "has_another_attempt", lambda step, attempt, _run: attempt < step.retry.attempts)]


# Deliberate defects that must be found.
AUTOMATION_MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "forget reports": _forget_reports,
    "repeat steps": _repeat_steps,
}


def _raise_any(found: list[str]) -> None:
    if found:
        raise Violation("; ".join(found))


def _list_problems(db: Database, scenario: AutomationScenario) -> list[str]:
    deleted = scenario.records.deleted
    problems: list[str] = []
    for run_id, owner in scenario.started.items():
        if run_id not in db.workflows and owner not in deleted:
            problems.append(f"the workflow {run_id} is lost")
    for job_id, owner in scenario.jobs.items():
        job = db.cron_jobs.get(job_id)
        if job is None:
            problems += [] if owner in deleted else [f"the job {job_id} is lost"]
            continue
        runs = [firing.run_id for firing in db.cron_firings.find("job", job_id)]
        if job.next_at is not None or len(runs) != 1 or not runs[0]:
            problems.append(f"the job {job_id} is next due at {job.next_at} and has the runs {runs}")
    for row in db.workflows:
        problems += _check_workflow(db, row.run.id, is_cancelled=row.run.id in scenario.cancelled)
    return problems


def _check_workflow(db: Database, run_id: str, *, is_cancelled: bool) -> list[str]:
    run = db.workflows[run_id].run
    if not run.ended_at:
        return [f"the workflow {run_id} has not ended"]
    problems = [f"{run_id} was cancelled and is {run.status}"] if is_cancelled and run.status != "cancelled" else []
    steps = {step.id: step for step in parse_workflow(run.source).steps}
    made: dict[str, list[int]] = {}
    for row in sorted(db.workflow_attempts.find("workflow", run_id), key=lambda each: each.attempt.attempt):
        name, attempt = row.attempt.step, row.attempt.attempt
        made.setdefault(name, []).append(attempt)
        stored = found_runs.get(db, row.attempt.run_id)
        is_repeated = (run_id, name, attempt + 1) in db.workflow_attempts
        if is_repeated and (stored is None or not has_another_attempt(steps[name], attempt, stored)):
            problems.append(f"step {name} of {run_id} was repeated after attempt {attempt}")
    for report in db.workflow_reports.find("workflow", run_id):
        told = [
            entry
            for _, entry in db.messages.pairs()
            if entry.message.role is Role.USER and f"({run_id}) has ended" in entry.message.content
        ]
        if report.report.id not in db.deliveries or len(told) != 1:
            problems.append(f"the report of {run_id} was told {len(told)} times")
    return problems
