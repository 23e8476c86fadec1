"""Renders background commands: command, owner, start time, and how to stop it. Pure."""

from collections.abc import Sequence
from datetime import datetime

from moot.cli.program import hint
from moot.cli.render import flow, run_lines, sanitize, terminal
from moot.domain.senders import CHILD_SENDER, OWNED_SENDERS, owner_of
from moot.wire import moot_pb2 as pb

# The id prefix of background commands.
PREFIX = "bg-"
_DAY = 86_400


def render_jobs(jobs: Sequence[pb.JobInfo], width: int) -> list[str]:
    """A heading and two rows per command; a command cut to `width` says how much is missing."""
    if not jobs:
        return []
    ids = run_lines.short_ids([info.job_id for info in jobs])
    rows = [terminal.paint("In the background:", bold=True)]
    for info in jobs:
        rows.append("  " + sanitize.cut_with_count(render_command(info), max(20, width - 2) if width else 0))
        lines = [render_owner(info), render_since(info), hint(f"moot stop {ids[info.job_id]}")]
        rows.append(terminal.paint(flow.wrap_text(f"    {' · '.join(lines)}", width, indent="    "), dim=True))
    return rows


def render_command(info: pb.JobInfo) -> str:
    """The command on one line."""
    return sanitize.name(f"$ {info.command} &")


def render_owner(info: pb.JobInfo) -> str:
    """The agent and the conversation that started it."""
    agent, sender = sanitize.name(info.root_agent), sanitize.name(owner_of(info.root_sender))
    beside = " &" if info.root_sender.startswith(OWNED_SENDERS) else ""
    by = f"{sanitize.name(info.agent)}, for " if info.sender.startswith(CHILD_SENDER) else ""
    return f"{by}{agent} as {sender}{beside}"


def render_since(info: pb.JobInfo) -> str:
    """The start time and the time since then."""
    began = datetime.fromtimestamp(info.started_at).astimezone()
    form = "%H:%M:%S" if info.seconds < _DAY else "%a %d %b %H:%M"
    return f"since {began.strftime(form)} ({run_lines.format_duration(info.seconds)})"


def job_row(info: pb.JobInfo) -> list[str]:
    """A row in the columns of the run table, for a pipe or a file."""
    blank = ["-"] * 3
    return [
        info.job_id,
        "-",
        info.agent,
        "command",
        render_command(info),
        "-",
        run_lines.format_duration(info.seconds),
        *blank,
        "-",
    ]
