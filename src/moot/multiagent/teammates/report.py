"""Renders a teammate's run for a model: as the result of agent_wait, and as a message to its parent. Pure."""

import re
from collections.abc import Sequence
from typing import Any

from moot.domain.run import Outcome, Run, RunKind
from moot.domain.run_view import RunView
from moot.domain.task_notification import (
    TaskNotification,
    TaskStatus,
    find_task_status,
    render_notifications,
    summarize,
)
from moot.multiagent.teammates.delegation import MOST_FAILURES

_LONGEST_RESULT = 60_000
_SHOWN_RESULT = 2_000
_NOT_ENDED = (
    "{agent} has not ended. Call agent_wait again, without a timeout; agent_stop would end it before it is done."
)
# A line that looks like the first line of a report; it is quoted, so that a result cannot imitate one.
_HEAD = re.compile(r"^(?=.*\([ \t]*arun-[0-9a-f]+[ \t]*\)[ \t]+has[ \t]+ended)", re.IGNORECASE | re.MULTILINE)


def view(seen: RunView, *, timed_out: bool = False, streak: int = 0) -> dict[str, Any]:
    """Return a run as agent_wait shows it: an ended run with its result, any other with what blocks it."""
    run, block = seen.run, seen.block
    data: dict[str, Any] = {"agent_id": run.id, "agent": run.agent, "status": str(seen.status)}
    if run.end is not None:
        data["outcome"] = str(run.end.outcome)
        # The gate stores a result that is too long as an output and says how to read the rest.
        data["result"] = run.end.answer
        data["error"] = run.end.error
        data["hint"] = hint(run, streak=streak)
    else:
        data["condition"] = str(block.condition)
        data["blocked_reason"] = block.reason
        data["grant_request_id"] = block.request_id
        data["grant_attempt"] = block.attempt
        data["grant_state"] = str(block.state)
        data["waiting_on_run_id"] = ", ".join(seen.waiting_on)
        data["timeout"] = timed_out
        data["hint"] = _NOT_ENDED.format(agent=run.agent) if timed_out else ""
    return {key: value for key, value in data.items() if value not in ("", 0, False)}


def hint(run: Run, *, streak: int = 0) -> str:
    """Return advice about a run that failed; `streak` is the number of consecutive failures."""
    if run.end is None or run.end.outcome is Outcome.COMPLETED or run.kind is RunKind.BACKGROUND:
        return ""
    if run.end.outcome is Outcome.ESCALATED:
        return f"{run.agent} says that this is not its task. Choose another teammate, or answer with what you have."
    if run.end.outcome is Outcome.CANCELLED:
        return f"{run.agent} was stopped before it was done."
    failed = f"{run.agent} failed ({run.end.outcome}) and its partial work is discarded."
    if streak >= MOST_FAILURES:
        return f"{failed} {streak} in a row have failed: answer directly with what you have and say what is missing."
    return (
        f"{failed} Do not give it the same task again: choose another teammate, or answer with what you have and say "
        "what is missing."
    )


def again(earlier: Run) -> str:
    """Return a notice that the same task was already completed in this turn, with the earlier result."""
    assert earlier.end is not None
    text = earlier.end.answer
    more = f" … ({len(text) - _SHOWN_RESULT} characters more)" if len(text) > _SHOWN_RESULT else ""
    return (
        f"{earlier.agent} has completed the same task in this turn before, as {earlier.id}. It is being done a second "
        f"time; a third is refused. The first result was: {text[:_SHOWN_RESULT]}{more}"
    )


def render_reports(seen: Sequence[RunView]) -> str:
    """Return the reports of ended runs as one message."""
    return "\n\n".join(render_report(each.run, among=len(seen)) for each in seen)


def render_report(run: Run, *, among: int = 1) -> str:
    """Return the report of an ended run for a parent that did not wait; `among` reports share one message's size."""
    assert run.end is not None
    label = f"{run.spawn.reason}: " if run.kind is RunKind.BACKGROUND and run.spawn.reason else ""
    head = f"{label}{run.agent} ({run.id}) has ended: {run.end.outcome}."
    content, most = run.end.answer, _LONGEST_RESULT // among
    text = _HEAD.sub("> ", content[:most]) or run.end.error
    cut = len(content) - most
    more = f'(… {cut} characters more; agent_wait(agent_id="{run.id}") shows the whole result.)' if cut > 0 else ""
    return "\n\n".join(part for part in (head, text, more, hint(run)) if part)


def notify(seen: Sequence[RunView]) -> str:
    """Return the ends of runs as a coordinator reads them."""
    return render_notifications([make_notification(each.run, among=len(seen)) for each in seen])


def make_notification(run: Run, *, among: int = 1) -> TaskNotification:
    """Return the notification of an ended run; `among` notifications share one message's size."""
    assert run.end is not None
    end, most = run.end, _LONGEST_RESULT // among
    status = find_task_status(end.outcome)
    content = end.answer or end.error
    cut = len(content) - most
    more = f"\n(… {cut} characters more; agent_wait with agent_id {run.worker_id} shows the rest.)" if cut > 0 else ""
    summary = summarize(end.answer, status) if status is TaskStatus.COMPLETED else summarize(_explain(run))
    return TaskNotification(
        task_id=run.worker_id,
        status=status,
        summary=summary,
        result=content[:most] + more,
        total_tokens=end.usage.total,
        tool_uses=end.tool_uses,
        duration_ms=round(end.seconds * 1000),
    )


def _explain(run: Run) -> str:
    """Return in one line why a run has no result."""
    assert run.end is not None
    end = run.end
    why = end.content if end.outcome is Outcome.ESCALATED else end.error
    return f"{end.outcome}: {why}" if why else str(end.outcome)
