"""Renders the results of the teammate tools on one line instead of their JSON. Pure."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moot.cli.render import sanitize

if TYPE_CHECKING:
    from moot.domain.task_notification import TaskNotification

# The length of an abbreviated run id.
_SHORT = 13
_STATES = frozenset({"spawned", "running", "completed", "failed", "cancelled"})


def render_result(output: str, width: int = 0) -> str:
    """A tool's result on one line, sanitized; for teammate tools, who reported and the outcome."""
    return sanitize.line(describe_teammates(output) or output, width)


def describe_teammates(output: str) -> str:
    """A description of the teammates in a result; empty if there are none."""
    if output.startswith("<task-notification>"):
        from moot.domain.task_notification import list_notifications_in  # noqa: PLC0415 - only a coordinator has them

        if ends := list_notifications_in(output):
            return " · ".join(map(describe_end, ends))
    if not output.startswith("{"):
        return ""
    try:
        result = json.loads(output)
    except ValueError:
        return ""
    views = result.get("runs", [result]) if isinstance(result, dict) else []
    if not isinstance(views, list) or not views or not all(map(_is_view, views)):
        return ""
    return " · ".join(map(_describe_view, views))


def describe_end(notification: "TaskNotification") -> str:
    """The end of a worker: which, how, and the first line of its report."""
    return f"worker {notification.task_id[:_SHORT]} {notification.status}: {notification.summary}"


def _is_view(view: Any) -> bool:
    return isinstance(view, dict) and isinstance(view.get("agent_id"), str) and view.get("status") in _STATES


def _describe_view(view: Mapping[str, Any]) -> str:
    agent, run_id = str(view.get("agent") or view.get("requested_agent") or ""), str(view["agent_id"])[:_SHORT]
    who = f"{agent} ({run_id})" if agent else run_id
    if view["status"] == "spawned" and "requested_agent" in view:
        why = str(view.get("spawn_reason") or "")
        return f"{who} started" + (f": {why}" if why else "")
    if "outcome" in view:
        came = str(view.get("result") or view.get("error") or "")
        return f"{who} {str(view['outcome']).replace('_', ' ')}" + (f": {came}" if came else "")
    held = str(view.get("blocked_reason") or view.get("condition") or "")
    if view["status"] in ("spawned", "running"):
        return f"{who} is still working" + (f": {held}" if held else "")
    return f"{who} {view['status']}"
