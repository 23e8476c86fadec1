"""`moot bg`: background tasks: submit, list, show, result, cancel. They are the runs of `moot run --bg`."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.commands import runs
from moot.cli.commands.run import run
from moot.cli.connect import send_request
from moot.cli.exits import Exit
from moot.cli.name_completion import complete_runs
from moot.cli.options import sender_option
from moot.cli.program import hint
from moot.cli.render import plain_data, run_lines, sanitize, terminal
from moot.domain.errors import Conflict
from moot.domain.senders import BACKGROUND_SENDER, owner_of
from moot.wire import moot_pb2 as pb

_run_argument = click.argument("task", shell_complete=complete_runs)
# What of `moot run` makes no sense for a task that nobody follows.
_FOLLOWING = ("background", "no_stream", "shows_private")


@click.group(cls=CommandGroup, invoke_without_command=True)
@sender_option
@output.json_option
@click.pass_context
def bg(context: click.Context, sender: str) -> None:
    """List your background tasks, or those of one sender."""
    if context.invoked_subcommand is None:
        _list_tasks(sender)


@bg.command("list")
@sender_option
@output.json_option
def list_tasks(sender: str) -> None:
    """List your background tasks, or those of one sender, newest last: those at work, and those that ended last."""
    _list_tasks(sender)


def _list_tasks(sender: str) -> None:
    found = send_request(pb.ClientMessage(list_runs=pb.ListRunsMsg(all=True, limit=500, tasks=True))).run_list.runs
    tasks = [
        info
        for info in found
        if info.kind == "background"
        and info.sender.startswith(BACKGROUND_SENDER)
        and sender in ("", owner_of(info.sender))
    ]
    output.emit([plain_data.dump_run(info) for info in tasks], render=lambda _: _render_tasks(tasks))


def _render_tasks(tasks: Sequence[pb.RunInfo]) -> str:
    if not tasks:
        return hint('No background tasks. Start one: moot bg submit "TASK"')
    rows = [[info.run_id, info.agent, run_lines.describe_state(info)[0], info.instruction] for info in tasks]
    return terminal.render_table(["TASK", "AGENT", "STATE", "PROMPT"], rows)


_start_run: Callable[..., int] = cast("Callable[..., int]", run.callback)
bg.add_command(
    click.Command(
        "submit",
        params=[parameter for parameter in run.params if parameter.name not in _FOLLOWING],
        callback=partial(_start_run, background=True, no_stream=True, shows_private=False),
        help="Start a background task with TEXT and print its id. The same as `moot run --bg`.",
    )
)
bg.add_command(runs.show, "show")


@bg.command()
@_run_argument
@output.json_option
def result(task: str) -> int:
    """Print the result of TASK, which must have ended.

    Exits with 0 if it completed, and 1 if it failed or has not ended.
    """
    info = send_request(pb.ClientMessage(get_run=pb.GetRunMsg(run_id=task))).run
    if not info.outcome:
        raise Conflict(f"task {info.run_id} has not ended", fix=f"`moot wait {info.run_id}` waits for it.")
    output.emit(plain_data.dump_run(info), render=lambda _: sanitize.clean(info.result))
    if info.outcome == "completed":
        return int(Exit.OK)
    if not output.wants_json():
        output.print_note(terminal.paint(f"{info.outcome}: {sanitize.line(info.error)}", sys.stderr, dim=True))
    return int(Exit.RUN_FAILED)


@bg.command()
@_run_argument
@output.json_option
def cancel(task: str) -> None:
    """Cancel TASK, which has not ended."""
    stopped = send_request(pb.ClientMessage(stop_run=pb.StopRunMsg(run_id=task))).run_list.runs
    data: list[dict[str, Any]] = [plain_data.dump_run(info) for info in stopped]
    output.emit(data, render=lambda _: f"Cancelled {sanitize.name(stopped[0].run_id)}.")
