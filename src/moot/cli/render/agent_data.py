"""Renders tasks and memories: an id or key, the text, and a note, each on one line."""

from moot.cli.render import numbers, sanitize
from moot.wire import moot_pb2 as pb

_MARKS = {"todo": "○", "in_progress": "◐", "done": "●", "blocked": "⊘"}


def render_task(task: pb.TaskInfo) -> tuple[str, str, str]:
    taken = f", {sanitize.name(task.taken_by)}" if task.taken_by else ""
    status = sanitize.line(task.status.replace("_", " "))
    return f"{_MARKS.get(task.status, '?')} {sanitize.name(task.task_id)}", sanitize.line(task.title), status + taken


def render_memory(memory: pb.MemoryInfo) -> tuple[str, str, str]:
    return sanitize.line(memory.key), sanitize.line(memory.content), numbers.format_time(memory.updated_at)
