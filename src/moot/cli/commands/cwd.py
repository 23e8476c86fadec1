"""`moot cwd`: shows or sets the default working directory of a conversation."""

import shlex

import click

from moot.cli import output
from moot.cli.commands.ask import working_folder
from moot.cli.connect import send_request
from moot.cli.name_completion import complete_folders
from moot.cli.options import conversation_arguments
from moot.cli.program import hint
from moot.cli.render import sanitize
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb


@click.command()
@conversation_arguments
@click.argument("directory", required=False, default="", shell_complete=complete_folders)
@click.option("--own", is_flag=True, help="Go back to the conversation's own folder.")
@output.json_option
def cwd(agent: str, sender: str, directory: str, own: bool) -> None:
    """Show or set the default directory of the conversation with AGENT.

    Runs work there when their message names no directory. `moot chat` and `moot ask` always send yours, or --cwd;
    other clients, such as those of the HTTP API, usually send none.
    """
    if directory and own:
        raise BadRequest("a directory and --own exclude each other", fix="Give one of them.")
    message = pb.WorkingDirectoryMsg(agent=agent, sender=sender)
    if directory or own:
        message.cwd = working_folder(directory) if directory else ""
    place = send_request(pb.ClientMessage(working_directory=message)).working_directory
    output.emit(
        {"agent": agent, "cwd": place.cwd, "is_own": place.is_own, "is_missing": place.is_missing},
        render=lambda _: _render_place(place, agent, sender),
    )


def _render_place(place: pb.WorkingDirectory, agent: str, sender: str) -> str:
    path = sanitize.name(place.cwd)
    if place.is_missing:
        whose = f" --as {shlex.quote(sender)}" if sender else ""
        command = hint(f"moot cwd {shlex.quote(agent)}{whose}")
        return f"{path} (does not exist)\nSet another: {command} DIRECTORY, or {command} --own"
    return f"{path} (the conversation's own folder)" if place.is_own else path
