"""Renders scheduled jobs and their firings: as lists that fit the terminal, one in full, as data for `--json`. Pure."""

import sys
from collections.abc import Sequence
from typing import Any

from moot.cli.program import hint
from moot.cli.render import flow, numbers, sanitize, terminal
from moot.domain.schedule import format_instant
from moot.wire import moot_pb2 as pb

_LONGEST_NAME = 24
# From this width on, there is room for more columns.
_WIDE = 100
_LIVE = ("queued", "running", "waiting")


def render_jobs(jobs: Sequence[pb.CronJobInfo]) -> str:
    """Return the jobs as a table; in a wide terminal with how the last run ended, and the conversation."""
    if not jobs:
        text = hint('No scheduled jobs. Add one: moot cron add NAME --every 1h "TASK"')
        return flow.wrap_text(text, terminal.row_width(sys.stdout))
    is_wide = _is_wide()
    headers = ["NAME", "STATE", "NEXT", *(("LAST", "FOR") if is_wide else ()), "SCHEDULE"]
    rows = []
    for job in jobs:
        more = (job.last.status, f"{job.agent} as {job.sender}") if is_wide else ()
        rows.append([_fit_name(job.name), _describe_state(job), _format_next(job), *more, describe_schedule(job)])
    return terminal.render_table(headers, rows)


def render_firings(firings: Sequence[pb.FiringInfo]) -> str:
    if not firings:
        return "Nothing has run yet."
    is_wide = _is_wide()
    headers = ["TIME", "NAME", "STATE", *(("RUN",) if is_wide else ()), "RESULT"]
    rows = [
        [
            numbers.format_time(firing.fired_at),
            _fit_name(firing.name),
            firing.status,
            *((firing.run_id,) if is_wide else ()),
            _describe_result(firing),
        ]
        for firing in firings
    ]
    return terminal.render_table(headers, rows)


def render_job(job: pb.CronJobInfo, firings: Sequence[pb.FiringInfo]) -> str:
    timeout = numbers.format_span(int(job.timeout_seconds)) if job.timeout_seconds else ""
    facts = [
        ("id", job.job_id),
        ("state", _describe_state(job)),
        ("schedule", f"{describe_schedule(job)} ({job.timezone})"),
        ("next", _format_local(job.next_at, job.timezone)),
        ("agent", job.runs_as),
        ("for", f"{job.agent} as {job.sender}"),
        ("session", job.session_mode),
        ("missed runs", job.missed),
        ("results to", job.deliver_to),
        ("timeout", timeout),
        ("folder", job.cwd),
        ("contains text from", job.taint),
        ("waits for", job.last.waiting_for),
    ]
    lines = [terminal.paint(sanitize.line(job.name), bold=True)]
    lines += [f"{name:12} {sanitize.line(value)}" for name, value in facts if value]
    what = f"workflow\n\n{job.workflow}" if job.is_workflow else job.prompt
    lines += ["", sanitize.clean(what), "", render_firings(firings)]
    return "\n".join(lines)


def render_next(job: pb.CronJobInfo) -> str:
    """Return the name of a job and when it runs next, as a sentence."""
    if not job.next_at:
        return f"{render_name(job)}: {job.status}."
    return f"{render_name(job)}: next {_format_local(job.next_at, job.timezone)} ({sanitize.line(job.timezone)})."


def render_when(job: pb.CronJobInfo) -> str:
    """Return when a job runs next, or its state."""
    return numbers.format_time(job.next_at) if job.next_at else job.status


def render_name(job: pb.CronJobInfo) -> str:
    return sanitize.line(job.name)


def render_id(answer: pb.CronJobList) -> str:
    return sanitize.name(answer.run_id)


def dump_job(job: pb.CronJobInfo) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": job.job_id,
        "name": job.name,
        "status": job.status,
        "schedule_type": job.schedule_type,
        "schedule": job.schedule,
        "timezone": job.timezone,
        "next_at": job.next_at or None,
        "prompt": job.prompt,
        "agent": job.runs_as,
        "conversation": {"agent": job.agent, "sender": job.sender},
        "session_mode": job.session_mode,
        "missed": job.missed,
        "deliver_to": job.deliver_to,
        "timeout": job.timeout_seconds or None,
        "cwd": job.cwd,
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "last": dump_firing(job.last) if job.HasField("last") else None,
    }
    extra = {"taint": job.taint, "workflow": job.workflow or job.is_workflow}
    return data | {name: value for name, value in extra.items() if value}


def dump_firing(firing: pb.FiringInfo) -> dict[str, Any]:
    data: dict[str, Any] = {
        "job_id": firing.job_id,
        "name": firing.name,
        "due_at": firing.due_at,
        "fired_at": firing.fired_at,
        "status": firing.status,
        "run_id": firing.run_id or None,
        "manual": firing.manual,
        "started_at": firing.started_at or None,
        "ended_at": firing.ended_at or None,
        "result": firing.result,
        "error": firing.error,
        "tokens": firing.tokens,
        "cost": firing.cost,
    }
    extra = {"skipped": firing.skipped, "waiting_for": firing.waiting_for}
    return data | {name: value for name, value in extra.items() if value}


def _is_wide() -> bool:
    """Whether there is room for more columns; also where the output is no terminal."""
    width = terminal.terminal_width()
    return not width or width >= _WIDE


def _fit_name(name: str) -> str:
    width = terminal.terminal_width()
    return sanitize.fit(sanitize.line(name), min(_LONGEST_NAME, width // 4) if width else _LONGEST_NAME)


def _describe_state(job: pb.CronJobInfo) -> str:
    """Return the state of a job: that of its run, if one has not ended."""
    return job.last.status if job.last.status in _LIVE else job.status


def describe_schedule(job: pb.CronJobInfo) -> str:
    """Return when a job runs, as its owner wrote it."""
    return job.schedule if job.schedule_type == "cron" else f"{job.schedule_type} {job.schedule}"


def _describe_result(firing: pb.FiringInfo) -> str:
    if firing.skipped:
        return "the run before has not ended" if firing.skipped == "running" else firing.skipped
    return hint(firing.waiting_for) or hint(firing.error) or firing.result


def _format_next(job: pb.CronJobInfo) -> str:
    return numbers.format_time(job.next_at) if job.next_at else "-"


def _format_local(instant: float, zone: str) -> str:
    """Return an instant as local time of the job's zone."""
    return format_instant(instant, zone).replace("T", " ") if instant else ""
