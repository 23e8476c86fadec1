"""Commands in the background, for a person: what runs, whose it is, since when, and how to stop it. Pure."""

from collections.abc import Sequence
from datetime import datetime

from moot.cli import output
from moot.cli.render import flow, run_lines, sanitize
from moot.domain.senders import BACKGROUND_SENDER, CHILD_SENDER, owner_of
from moot.wire import moot_pb2 as pb

# As the ids of runs begin; nothing else has an id like it.
PREFIX = "bg-"
_DAY = 86_400


def lines(jobs: Sequence[pb.JobInfo], width: int) -> list[str]:
    """A heading and two rows for each; where `width` cuts a command, it says how much is missing."""
    if not jobs:
        return []
    ids = run_lines.short_ids([info.job_id for info in jobs])
    rows = [output.paint("In the background:", bold=True)]
    for info in jobs:
        rows.append("  " + sanitize.counted(line(info), max(20, width - 2) if width else 0))
        told = [who(info), since(info), f"moot stop {ids[info.job_id]}"]
        rows.append(output.paint(flow.wrapped(f"    {' · '.join(told)}", width, indent="    "), dim=True))
    return rows


def line(info: pb.JobInfo) -> str:
    """The command on one line."""
    return sanitize.exact_line(f"$ {info.command} &")


def who(info: pb.JobInfo) -> str:
    """The agent and the conversation a person finds it in."""
    agent, sender = sanitize.line(info.root_agent), sanitize.line(owner_of(info.root_sender))
    beside = "&" if info.root_sender.startswith(BACKGROUND_SENDER) else "⇄"
    by = f"{sanitize.line(info.agent)}, for " if info.sender.startswith(CHILD_SENDER) else ""
    return f"{by}{agent} {beside} {sender}"


def since(info: pb.JobInfo) -> str:
    """When it was started, and how long ago that is."""
    began = datetime.fromtimestamp(info.started_at).astimezone()
    form = "%H:%M:%S" if info.seconds < _DAY else "%a %d %b %H:%M"
    return f"since {began.strftime(form)} ({run_lines.duration(info.seconds)})"


def row(info: pb.JobInfo) -> list[str]:
    """For a pipe or a file, in the columns of the runs."""
    blank = ["-"] * 3
    return [info.job_id, "-", info.agent, "command", line(info), "-", run_lines.duration(info.seconds), *blank, "-"]
