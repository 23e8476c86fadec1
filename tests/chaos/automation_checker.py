"""What must be true of schedules, background tasks and workflows once a killed daemon's successor is at rest."""

import time
from collections import Counter
from collections.abc import Iterator

from tests.chaos.automation import Told
from tests.daemon_process import Home

_LEFT = {
    "run": "SELECT id FROM runs WHERE status <> 'ended'",
    "workflow": "SELECT id FROM workflows WHERE ended_at = 0",
    "report": "SELECT id FROM workflow_reports WHERE id NOT IN (SELECT item_id FROM deliveries)",
    "result": (
        "SELECT id FROM runs WHERE kind = 'background' AND root_agent <> ''"
        " AND id NOT IN (SELECT item_id FROM deliveries) AND id NOT IN (SELECT run_id FROM workflow_attempts)"
    ),
}
_RUNS = (
    "SELECT runs.id, runs.outcome, messages.content FROM runs"
    " JOIN messages ON messages.id = (runs.conversation << 32) + runs.user_seq WHERE runs.kind = 'background'"
)
_REPORTS = "SELECT count(*) FROM messages WHERE role = 'user' AND instr(content, ?) > 0 AND instr(content, 'has ended')"
# How a run ends whose daemon was killed within a call.
_UNKNOWN = "interrupted"


def left(home: Home) -> list[str]:
    """What has not come to its end: runs, workflows, jobs that are due, reports that are owed."""
    found = [f"{what} {name}" for what, query in _LEFT.items() for (name,) in home.query(query)]
    due = "SELECT name FROM cron_jobs WHERE next_at IS NOT NULL AND next_at <= ?"
    return found + [f"due {name}" for (name,) in home.query(due, time.time() + 1.0)]


def check(home: Home, told: Told) -> list[str]:
    """Return everything that was lost or made twice. The daemon is at rest."""
    return [*told.surprises, *_check_marks(home), *_check_jobs(home, told), *_check_workflows(home, told)]


def _count_marks(home: Home) -> Counter[str]:
    file = home.path / "marks.txt"
    return Counter(file.read_text().splitlines() if file.exists() else [])


def _check_marks(home: Home) -> Iterator[str]:
    marks = _count_marks(home)
    yield from (f"{key} was made {times} times" for key, times in marks.items() if times > 1)
    for run_id, outcome, content in home.query(_RUNS):
        verb, _, rest = content.partition(" ")
        if verb in ("mark", "sign") and outcome == "completed" and not marks[rest.split()[0]]:
            yield f"{run_id} says that {rest.split()[0]} was made, and it was not"
        if outcome not in ("completed", _UNKNOWN, "cancelled", "model_error"):
            yield f"{run_id} ended {outcome}"


def _check_jobs(home: Home, told: Told) -> Iterator[str]:
    firings = home.query("SELECT job_id, run_id, skipped FROM cron_firings")
    jobs = {job_id for (job_id,) in home.query("SELECT id FROM cron_jobs")}
    yield from (f"the job {job_id} was lost" for job_id in told.jobs - jobs)
    for job_id in jobs:
        started = [run_id for each, run_id, skipped in firings if each == job_id and not skipped]
        if len(started) != 1:
            yield f"the job {job_id} has the runs {started}"
    tasks = {task for (task,) in home.query("SELECT id FROM runs WHERE kind = 'background'")}
    yield from (f"the task {task} was lost" for task in told.tasks - tasks)
    owing = "SELECT id FROM runs WHERE kind = 'background' AND root_agent <> '' AND id NOT IN"
    for (run_id,) in home.query(f"{owing} (SELECT run_id FROM workflow_attempts)"):
        times = home.query(_REPORTS, f"({run_id})")[0][0]
        if times != 1:
            yield f"the result of {run_id} was told {times} times"


def _check_workflows(home: Home, told: Told) -> Iterator[str]:
    found = dict(home.query("SELECT id, status FROM workflows"))
    yield from (f"the workflow {run_id} was lost" for run_id in told.workflows - set(found))
    for run_id, status in found.items():
        steps: dict[str, list[str]] = {}
        attempts = (
            "SELECT step, outcome FROM workflow_attempts JOIN runs ON runs.id = run_id WHERE workflow = ?"
            " ORDER BY workflow_attempts.number"
        )
        for step, outcome in home.query(attempts, run_id):
            steps.setdefault(step, []).append(outcome)
        yield from _check_steps(run_id, status, steps, is_cancelled=run_id in told.cancelled)
        times = home.query(_REPORTS, f"({run_id})")[0][0]
        if times != 1:
            yield f"the report of {run_id} was told {times} times"


def _check_steps(run_id: str, status: str, steps: dict[str, list[str]], *, is_cancelled: bool) -> Iterator[str]:
    if is_cancelled and status != "cancelled":
        yield f"the workflow {run_id} was cancelled and is {status}"
    for step, outcomes in steps.items():
        if len(outcomes) > 1 and any(outcome != "model_error" for outcome in outcomes[:-1]):
            yield f"step {step} of {run_id} was repeated: {outcomes}"
    last = {step: outcomes[-1] for step, outcomes in steps.items()}
    if status == "completed" and (len(last) != 4 or set(last.values()) != {"completed"}):
        yield f"the workflow {run_id} is completed with {last}"
    if status == "failed" and not {_UNKNOWN, "model_error"} & set(last.values()):
        yield f"the workflow {run_id} failed with {last}"
    if status == "running":
        yield f"the workflow {run_id} has not ended"
