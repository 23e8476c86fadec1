"""Renders workflows and their runs: lists, a graph with the state of each step, and data for `--json`. Pure."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from moot.cli.program import hint
from moot.cli.render import cron_lines, numbers, run_lines, sanitize, terminal
from moot.cli.render.workflow_graph import draw_lanes
from moot.wire import moot_pb2 as pb

_ENDED = ("completed", "failed", "skipped", "cancelled")
# From these widths on there is room for the agent, and for all words of a state.
_MEDIUM, _WIDE = 72, 100
_LONGEST_NAME = 28
_NARROWEST = 8
# Rows beside the steps on a screen: the head, an empty one, what is above and below, and the line of the cursor.
_OTHER_ROWS = 6


class _State(NamedTuple):
    symbol: str
    plain: str
    style: dict[str, Any]


_STATES = {
    "": _State("○", "o", {}),
    "pending": _State("○", ".", {"dim": True}),
    "running": _State("●", "*", {"fg": "cyan"}),
    "waiting for approval": _State("?", "?", {"fg": "yellow"}),
    "retrying": _State("↻", "r", {"fg": "yellow"}),
    "completed": _State("✓", "+", {"fg": "green"}),
    "failed": _State("✗", "x", {"fg": "red"}),
    "skipped": _State("–", "-", {"dim": True}),
    "cancelled": _State("■", "#", {"dim": True}),
}
_SHORT = {"waiting for approval": "waiting"}


class Canvas(NamedTuple):
    """How a graph is drawn: columns (0 is unlimited) and rows of the screen, and whether only in ASCII."""

    width: int = 0
    rows: int = 0
    ascii_only: bool = False


def can_draw() -> bool:
    """Whether the output can show the signs of a graph."""
    try:
        "├╯─│✓✗●○↻■–".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def render_run(run: pb.WorkflowRunInfo, now: float, canvas: Canvas) -> str:
    """Return a run with the graph of its steps, each with its state."""
    done = sum(step.state in _ENDED for step in run.steps)
    took = run_lines.format_duration(max(0.0, (run.ended_at or now) - run.created_at))
    state = terminal.paint(run.status, **_STATES.get(run.status, _STATES[""]).style)
    head = [
        f"{terminal.paint(sanitize.line(run.name), bold=True)}  {state}  {done}/{len(run.steps)} steps  {took}",
        terminal.paint(run.run_id, dim=True),
    ]
    waiting = sum(step.state == "waiting for approval" for step in run.steps)
    notes = [f"{numbers.format_plural(waiting, 'step')} waiting for you: {hint('moot inbox')}"] if waiting else []
    if run.error and run.status == "failed":
        notes.append(terminal.paint(sanitize.line(hint(run.error), canvas.width), fg="red"))
    if run.taint:
        notes.append(f"contains text from {sanitize.line(run.taint)}")
    rows = render_steps(run.steps, now, canvas)
    return "\n".join([*head, "", *_choose_rows(rows, run.steps, canvas), *([""] if notes else []), *notes])


def render_plan(workflow: pb.WorkflowInfo, canvas: Canvas) -> str:
    """Return a workflow that is not running: the graph of its steps and when it runs by itself."""
    lines = [terminal.paint(sanitize.line(workflow.name), bold=True)]
    lines += [sanitize.line(workflow.description)] if workflow.description else []
    if workflow.HasField("job"):
        lines.append(f"scheduled: {cron_lines.describe_schedule(workflow.job)}, {cron_lines.render_when(workflow.job)}")
    elif workflow.schedule:
        lines.append(f"schedule: {sanitize.line(workflow.schedule)} {sanitize.line(workflow.timezone)}".rstrip())
    if workflow.taint:
        lines.append(f"contains text from {sanitize.line(workflow.taint)}")
    return "\n".join([*lines, "", *render_steps(workflow.steps, 0.0, canvas)])


def render_steps(steps: Sequence[pb.WorkflowStepInfo], now: float, canvas: Canvas) -> list[str]:
    """Return one row for each step: its place in the graph, its name, its state and the beginning of its result."""
    width = canvas.width
    symbols = {step.id: _choose_symbol(step, canvas) for step in steps}
    most = max(4, width // 6) if width else 40
    lanes = draw_lanes([(step.id, step.depends_on) for step in steps], symbols, most=most, ascii_only=canvas.ascii_only)
    graph = lanes or [symbols[step.id] for step in steps]
    columns = _Columns(steps, max(map(len, graph), default=0), width, is_listed=lanes is None)
    return [columns.render(step, drawn, now) for step, drawn in zip(steps, graph, strict=True)]


class _Columns:
    """The widths of the columns, which all rows share."""

    def __init__(self, steps: Sequence[pb.WorkflowStepInfo], graph: int, width: int, *, is_listed: bool) -> None:
        self._graph = graph
        self._width = width
        # Without lanes a row says what the step depends on.
        self._is_listed = is_listed
        self._has_agents = not width or width >= _MEDIUM
        self._has_states = any(step.state for step in steps)
        longest = max((sanitize.columns(sanitize.name(step.id)) for step in steps), default=0)
        self._name = min(longest, _LONGEST_NAME, width // 3 if width else _LONGEST_NAME)
        self._agent = max((len(sanitize.name(step.agent, 20)) for step in steps), default=0)
        self._state = max((len(self._describe(step)) for step in steps), default=0)

    def _describe(self, step: pb.WorkflowStepInfo) -> str:
        is_wide = not self._width or self._width >= _WIDE
        state = step.state if is_wide else _SHORT.get(step.state, step.state)
        return f"{state} ({step.attempts})" if step.attempts > 1 else state

    def render(self, step: pb.WorkflowStepInfo, drawn: str, now: float) -> str:
        style = _STATES.get(step.state, _STATES[""]).style
        cells = [drawn.ljust(self._graph), sanitize.name(step.id, self._name).ljust(self._name)]
        if self._has_agents:
            cells.append(sanitize.name(step.agent, 20).ljust(self._agent))
        if self._has_states:
            cells += [self._describe(step).ljust(self._state), _format_time(step, now).rjust(6)]
        row = " ".join((cells[0], "  ".join(cells[1:])))
        room = self._width - sanitize.columns(row) - 2 if self._width else 0
        note = self._describe_detail(step)
        if note and (not self._width or room >= _NARROWEST):
            row += "  " + (sanitize.fit(note, room) if room else note)
        return terminal.paint(row.rstrip(), **style) if style else row.rstrip()

    def _describe_detail(self, step: pb.WorkflowStepInfo) -> str:
        text = hint(step.error) or step.result
        if not step.state:
            text = f"when {step.when}" if step.when else step.prompt
        after = f"after {', '.join(step.depends_on)}: " if self._is_listed and step.depends_on else ""
        return sanitize.line(f"{after}{text}")


def _choose_symbol(step: pb.WorkflowStepInfo, canvas: Canvas) -> str:
    state = _STATES.get(step.state, _STATES[""])
    return state.plain if canvas.ascii_only else state.symbol


def _format_time(step: pb.WorkflowStepInfo, now: float) -> str:
    if not step.started_at or step.state in ("pending", "skipped"):
        return ""
    return run_lines.format_duration(max(0.0, (step.ended_at or now) - step.started_at))


def _choose_rows(rows: list[str], steps: Sequence[pb.WorkflowStepInfo], canvas: Canvas) -> list[str]:
    """Return the rows that fit the screen: from just above the first step that has not ended."""
    room = canvas.rows - _OTHER_ROWS
    if not canvas.rows or len(rows) <= room:
        return rows
    room = max(1, room)
    first = next((at for at, step in enumerate(steps) if step.state not in _ENDED), len(rows))
    start = min(max(0, first - 2), len(rows) - room)
    below = len(rows) - start - room
    above = [terminal.paint(f"… {start} above", dim=True)] if start else []
    return [*above, *rows[start : start + room], *([terminal.paint(f"… {below} below", dim=True)] if below else [])]


def render_results(run: pb.WorkflowRunInfo) -> str:
    """Return the results that no other step was given."""
    needed = {name for step in run.steps for name in step.depends_on}
    shown = [step for step in run.steps if step.id not in needed and step.result]
    if len(shown) == 1:
        return sanitize.clean(shown[0].result)
    return "\n\n".join(
        f"{terminal.paint(sanitize.name(step.id), bold=True)}\n{sanitize.clean(step.result)}" for step in shown
    )


def render_workflows(found: Sequence[pb.WorkflowInfo]) -> str:
    if not found:
        return hint("No saved workflows. Save one: moot workflow save FILE")
    rows = [
        [
            info.name,
            str(len(info.steps)) if not info.error else "?",
            cron_lines.render_when(info.job) if info.HasField("job") else "-",
            info.last.status or "-",
            hint(info.error) or info.description,
        ]
        for info in found
    ]
    return terminal.render_table(["NAME", "STEPS", "NEXT", "LAST", "DESCRIPTION"], rows)


def render_runs(found: Sequence[pb.WorkflowRunInfo]) -> str:
    if not found:
        return hint("No workflow has run yet. Run one: moot workflow run FILE")
    rows = [
        [
            numbers.format_time(run.created_at),
            run.name,
            run.status,
            run_lines.format_duration(run.ended_at - run.created_at) if run.ended_at else "",
            run.run_id,
            hint(run.error),
        ]
        for run in found
    ]
    return terminal.render_table(["TIME", "NAME", "STATE", "TOOK", "RUN", "ERROR"], rows)


def dump_run(run: pb.WorkflowRunInfo) -> dict[str, Any]:
    data: dict[str, Any] = {
        "run_id": run.run_id,
        "name": run.name,
        "sender": run.sender,
        "status": run.status,
        "error": run.error,
        "created_at": run.created_at,
        "ended_at": run.ended_at or None,
        "job_id": run.job_id or None,
    }
    if run.steps:
        data["steps"] = [_dump_step(step) for step in run.steps]
    return data | ({"taint": run.taint} if run.taint else {})


def dump_workflow(workflow: pb.WorkflowInfo) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": workflow.name,
        "description": workflow.description,
        "path": workflow.path or None,
        "schedule": workflow.schedule or None,
        "timezone": workflow.timezone or None,
        "deliver_to": list(workflow.deliver_to),
        "max_parallel": workflow.max_parallel,
        "steps": [_dump_step(step) for step in workflow.steps],
        "job": cron_lines.dump_job(workflow.job) if workflow.HasField("job") else None,
        "last": dump_run(workflow.last) if workflow.HasField("last") else None,
    }
    extra = {"taint": workflow.taint, "error": workflow.error}
    return data | {name: value for name, value in extra.items() if value}


def _dump_step(step: pb.WorkflowStepInfo) -> dict[str, Any]:
    data: dict[str, Any] = {"id": step.id, "agent": step.agent, "depends_on": list(step.depends_on)}
    if step.when:
        data["when"] = step.when
    if not step.state:
        return data | {"prompt": step.prompt} if step.prompt else data
    return data | {
        "state": step.state,
        "attempts": step.attempts,
        "run_id": step.run_id or None,
        "started_at": step.started_at or None,
        "ended_at": step.ended_at or None,
        "result": step.result,
        "error": step.error,
    }
