"""Task notifications: how a coordinator reads that one of its workers has ended. Pure.

Made by multiagent/teammates/report.py; shown as it is by engine/framing.py, checked on import by wire/jsonl.py.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from html import unescape

from msgspec import Struct

from moot.domain.run import Outcome
from moot.domain.text import clean, defuse

# The author of a history entry that contains notifications. No agent can have this name.
TASK_AUTHOR = "@tasks"
MAX_SUMMARY_CHARS = 80

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})
_TEXT_TAGS = ("task-id", "status", "summary", "result")
_NUMBER_TAGS = ("total_tokens", "tool_uses", "duration_ms")
_BLOCK = re.compile(
    "<task-notification>\n"
    + "".join(f"<{tag}>([^<>]*+)</{tag}>\n" for tag in _TEXT_TAGS)
    + "<usage>\n"
    + "".join(f"<{tag}>([0-9]{{1,15}}+)</{tag}>\n" for tag in _NUMBER_TAGS)
    + "</usage>\n</task-notification>"
)
_SEPARATOR = "\n\n"


class TaskStatus(StrEnum):
    """How a worker ended, as its coordinator is told."""

    COMPLETED = "completed"
    FAILED = "failed"
    KILLED = "killed"
    TIMEOUT = "timeout"


_STATUSES = {
    Outcome.COMPLETED: TaskStatus.COMPLETED,
    Outcome.CANCELLED: TaskStatus.KILLED,
    Outcome.TIMEOUT: TaskStatus.TIMEOUT,
}


def find_task_status(outcome: Outcome) -> TaskStatus:
    return _STATUSES.get(outcome, TaskStatus.FAILED)


class TaskNotification(Struct, frozen=True, kw_only=True):
    """The end of one run of a worker."""

    # The id of the worker, which stays the same when it is continued.
    task_id: str
    status: TaskStatus
    summary: str
    result: str
    total_tokens: int = 0
    # The number of tool calls that were really made.
    tool_uses: int = 0
    duration_ms: int = 0


def summarize(text: str, otherwise: str = "") -> str:
    """Return the first line of a text, cut to the length of a summary; `otherwise` if there is none."""
    first = next((line for line in map(str.strip, clean(text).splitlines()) if line), otherwise)
    return first if len(first) <= MAX_SUMMARY_CHARS else f"{first[: MAX_SUMMARY_CHARS - 1]}…"


def render_notifications(notifications: Sequence[TaskNotification]) -> str:
    """Return the text that shows these ends. Nothing in a result can end its block or begin another."""
    return _SEPARATOR.join(map(_render, notifications))


def _render(notification: TaskNotification) -> str:
    texts = (notification.task_id, str(notification.status), notification.summary, notification.result)
    numbers = (notification.total_tokens, notification.tool_uses, notification.duration_ms)
    lines = [f"<{tag}>{_escape(text)}</{tag}>" for tag, text in zip(_TEXT_TAGS, texts, strict=True)]
    usage = [f"<{tag}>{number}</{tag}>" for tag, number in zip(_NUMBER_TAGS, numbers, strict=True)]
    return "\n".join(("<task-notification>", *lines, "<usage>", *usage, "</usage>", "</task-notification>"))


def _escape(text: str) -> str:
    # Escaping first leaves only brackets that look like those of a tag; they are defused where they would be one.
    return defuse(clean(text).translate(_ENTITIES))


def list_notifications_in(text: str) -> list[TaskNotification] | None:
    """Return the notifications of a text made by `render_notifications`; None if it is any other text."""
    found: list[TaskNotification] = []
    at = 0
    while match := _BLOCK.match(text, at):
        task_id, status, summary, result, *numbers = match.groups()
        is_ours = status in list(TaskStatus) and all(
            _escape(unescape(part)) == part for part in (task_id, summary, result)
        )
        if not is_ours:
            return None
        total_tokens, tool_uses, duration_ms = map(int, numbers)
        found.append(
            TaskNotification(
                task_id=unescape(task_id),
                status=TaskStatus(status),
                summary=unescape(summary),
                result=unescape(result),
                total_tokens=total_tokens,
                tool_uses=tool_uses,
                duration_ms=duration_ms,
            )
        )
        at = match.end()
        if at == len(text):
            return found
        if not text.startswith(_SEPARATOR, at):
            return None
        at += len(_SEPARATOR)
    return None
