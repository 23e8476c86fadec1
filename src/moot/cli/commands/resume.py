"""`moot new` and `moot resume`: archive a conversation and start a new one, or continue an earlier one."""

from typing import Any

import click

from moot.cli import output
from moot.cli.connect import run_connected, send_request
from moot.cli.follow.lane_progress import LaneProgress
from moot.cli.name_completion import complete_archives
from moot.cli.options import conversation_arguments
from moot.cli.render import numbers, plain_data, sanitize, terminal
from moot.cli.render.stretches import list_resumable
from moot.wire import moot_pb2 as pb


@click.command()
@conversation_arguments
@output.json_option
def new(agent: str, sender: str) -> None:
    """Begin a new conversation with AGENT, once it is idle. No model is called.

    The messages so far are archived: AGENT does not see them any more, `moot recall` and the agent's own recall find
    them, and `moot resume` continues them.
    """
    opened = _open_stretch(agent, sender, 0)
    output.emit(
        _stretch_data(opened),
        render=lambda _: f"New conversation. The earlier one is archive {opened.number}: {sanitize.line(opened.title)}",
    )


@click.command()
@conversation_arguments
@click.argument("number", type=click.IntRange(min=1), required=False, shell_complete=complete_archives)
@output.json_option
def resume(agent: str, sender: str, number: int | None) -> None:
    """List the earlier conversations with AGENT, or continue that of archive NUMBER.

    The current one is archived first, as with `moot new`.
    """
    if number is None:
        _list_stretches(agent, sender)
        return
    opened = _open_stretch(agent, sender, number)
    output.emit(_stretch_data(opened), render=lambda _: f"Continued: {sanitize.line(opened.resumed_title)}")


def _list_stretches(agent: str, sender: str) -> None:
    request = pb.ListArchivesMsg(agent=agent, sender=sender)
    found = list_resumable(send_request(pb.ClientMessage(list_archives=request)).archive_list.archives)

    def render(_: Any) -> str:
        rows = [[str(info.number), numbers.format_time(info.archived_at), info.title] for info in found]
        return terminal.render_table(["NUMBER", "ENDED", "TITLE"], rows) or "No earlier conversations."

    output.emit([plain_data.dump_archive(info) for info in found], render=render)


def _open_stretch(agent: str, sender: str, number: int) -> pb.StretchOpened:
    request = pb.OpenStretchMsg(agent=agent, sender=sender, resume=number, tell_queued=True)
    message = pb.ClientMessage(open_stretch=request)
    with output.progress("Archiving") as bar:
        progress = LaneProgress(bar, "Archiving")
        return run_connected(lambda connection: connection.request(message, progress)).stretch_opened


def _stretch_data(opened: pb.StretchOpened) -> dict[str, Any]:
    return {
        "archive": opened.number,
        "title": opened.title,
        "resumed": opened.resumed or None,
        "resumed_title": opened.resumed_title or None,
    }
