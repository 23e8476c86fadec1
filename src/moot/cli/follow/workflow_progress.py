"""Follows a run of a workflow: draws its graph on a terminal whenever a step changes, until it has ended."""

import asyncio
import sys
import time

from moot.cli import output
from moot.cli.connect import daemon_client
from moot.cli.render import terminal, workflow_lines
from moot.cli.render.workflow_lines import Canvas
from moot.client.connection import Connection
from moot.client.errors import WaitingForPerson
from moot.wire import moot_pb2 as pb

# How long one request waits, and how often the times are drawn anew.
_LONG_SECONDS = 600.0
_TICK_SECONDS = 1.0
# Enter and leave the alternate screen (cursor hidden), move to the top, clear the rest of a row and of the screen.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def is_watched() -> bool:
    return terminal.is_interactive(sys.stdout) and not output.wants_json()


def follow_run(run_id: str) -> pb.WorkflowRunInfo:
    """Return a run once it has ended. On a terminal it is drawn meanwhile; elsewhere nobody can answer its questions.

    Raise WaitingForPerson if it cannot go on and there is no terminal.
    """
    return asyncio.run(_follow(run_id))


async def _follow(run_id: str) -> pb.WorkflowRunInfo:
    async with daemon_client() as connection:
        info = await _fetch(connection, pb.GetWorkflowRunMsg(run_id=run_id))
        if not is_watched():
            while not info.ended_at:
                _require_progress(info)
                info = await _fetch(connection, _next_of(info, _LONG_SECONDS))
            return info
        output.write(_ENTER)
        try:
            while not info.ended_at:
                output.write(_render_screen(info))
                info = await _fetch(connection, _next_of(info, _TICK_SECONDS))
        finally:
            output.write(_LEAVE)
        return info


async def _fetch(connection: Connection, message: pb.GetWorkflowRunMsg) -> pb.WorkflowRunInfo:
    return (await connection.request(pb.ClientMessage(get_workflow_run=message))).workflow_run


def _next_of(info: pb.WorkflowRunInfo, seconds: float) -> pb.GetWorkflowRunMsg:
    return pb.GetWorkflowRunMsg(run_id=info.run_id, seconds=seconds, seen=info.version)


def _render_screen(info: pb.WorkflowRunInfo) -> str:
    columns, rows = terminal.measure_window(sys.stdout)
    canvas = Canvas(width=columns, rows=rows, ascii_only=not workflow_lines.can_draw())
    drawn = workflow_lines.render_run(info, time.time(), canvas).split("\n")
    drawn = [*drawn, "", terminal.paint("Ctrl-C leaves; the workflow continues.", dim=True)][: max(1, rows - 1)]
    return _HOME + "".join(f"{row}{_REST}\n" for row in drawn) + _BELOW


def _require_progress(info: pb.WorkflowRunInfo) -> None:
    """Raise if steps wait for a person and no other goes on."""
    states = [step.state for step in info.steps]
    if "waiting for approval" in states and "running" not in states and "retrying" not in states:
        raise WaitingForPerson(
            f"workflow run {info.run_id} waits for you",
            fix=f"Answer with `moot inbox`, then `moot workflow show {info.run_id}`.",
        )
