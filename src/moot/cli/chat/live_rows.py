"""Rows of the chat that change while time passes: what a run does, and what a queued message waits for. Pure.

Used by controller.py.
"""

from moot.cli.chat import lines
from moot.cli.chat.queued_message import QueuedMessage
from moot.cli.chat.view import RunView
from moot.cli.markdown.styles import DIM, Line
from moot.cli.render import run_lines, sanitize

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_QUEUED_COLUMNS = 60
_ASKS = {"question": "your answer", "approval": "your approval", "grant": "your approval"}


def render_progress(view: RunView, primary: str, now: float, columns: int) -> Line:
    """Who does what and for how long; empty while it writes or a question is shown instead."""
    if view.status == "writing" or view.question is not None or view.approvals:
        return []
    return render_spinner(view.speaker, view.status, now - view.since, primary, now, columns)


def render_spinner(speaker: str, status: str, elapsed: float, primary: str, now: float, columns: int) -> Line:
    """One row of the given width."""
    frame = _FRAMES[int(now * 10) % len(_FRAMES)]
    seconds = f" {run_lines.format_duration(elapsed)}" if elapsed >= 1 else ""
    head = sanitize.fit(f"{frame} {sanitize.name(speaker)}", max(10, columns // 2)) + " "
    room = max(1, columns - sanitize.columns(head) - len(seconds))
    return [
        (lines.name_style(speaker, primary), head),
        (DIM, sanitize.fit(status, room) + seconds),
    ]


def render_queued(view: RunView, now: float, columns: int) -> Line:
    """A message of this chat that waits: its position, what it waits for, and how long."""
    place = _describe_place(view.position, steers=view.steers) if view.position else "sending"
    if view.position and view.ask_kind:
        place += f", the run ahead waits for {_ASKS.get(view.ask_kind, 'you')}"
    elapsed = now - view.since
    waited = f" · {run_lines.format_duration(elapsed)}" if elapsed >= 1 else ""
    return _render_waiting(view.echo, f"{place}{waited}", columns)


def render_others_queued(message: QueuedMessage, columns: int) -> Line:
    """A message that another client has queued."""
    return _render_waiting(message.content, _describe_place(message.position, steers=message.steers), columns)


def _describe_place(position: int, *, steers: bool) -> str:
    if steers:
        return "shown at the next step"
    return f"queued {position}" if position else "queued"


def _render_waiting(text: str, place: str, columns: int) -> Line:
    room = max(10, min(_QUEUED_COLUMNS, columns - sanitize.columns(f"⋯   ({place})")))
    return [(DIM, f"⋯ {sanitize.line(text, room)}  ({place})")]
