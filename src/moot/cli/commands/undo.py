"""`moot undo`: takes back the newest change that an agent made to files, or makes it again."""

import sys

import click

from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.name_completion import complete_agents
from moot.cli.options import sender_option
from moot.cli.program import program_name
from moot.cli.render import sanitize
from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb

_RUN = ("run-", "arun-")


@click.command()
@click.argument("target", default="", metavar="[AGENT|RUN]", shell_complete=complete_agents)
@sender_option
@click.option("--redo", is_flag=True, help="Redo the change that was undone last.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--force", is_flag=True, help="Overwrite files that have changed since.")
@output.json_option
def undo(target: str, sender: str, redo: bool, dry_run: bool, force: bool) -> None:
    """Undo the newest change of files, in any conversation, in that with AGENT, or in RUN and its teammates.

    Changes by the file tools can be undone, those by commands cannot. Repeat it to go further back.
    """
    is_run = target.startswith(_RUN)
    message = pb.UndoMsg(
        agent="" if is_run else target,
        sender=sender,
        run_id=target if is_run else "",
        redo=redo,
        dry_run=dry_run,
        force=force,
    )
    undone = _request_undo(message)
    data = {
        "number": undone.number,
        "agent": undone.agent,
        "sender": undone.sender,
        "by": undone.by,
        "run": undone.run_id,
        "tool": undone.tool,
        "at": undone.at,
        "cwd": undone.cwd,
        "paths": list(undone.paths),
        "diff": undone.diff,
        "redo": redo,
        "dry_run": dry_run,
    }
    output.emit(data, render=lambda _: _render(undone, redo))


def _request_undo(message: pb.UndoMsg) -> pb.Undone:
    try:
        return send_request(pb.ClientMessage(undo=message)).undone
    except NotFound:
        if message.agent:
            # This fails if it is the agent that does not exist.
            send_request(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=message.agent)))
        raise


def _render(undone: pb.Undone, redo: bool) -> str:
    verb = "redo" if redo else "undo"
    did = f"Would {verb}" if undone.dry_run else {"undo": "Undid", "redo": "Made again"}[verb]
    by = sanitize.line(undone.by or undone.agent)
    if undone.by not in ("", undone.agent):
        by += f", a teammate of {sanitize.line(undone.agent)},"
    what = f"{did}: {sanitize.line(undone.tool)} by {by} in {sanitize.line(undone.cwd)}"
    back = "" if undone.dry_run else f"\n`{program_name()} undo{'' if redo else ' --redo'}` takes this back."
    text = output.wrap_prose(f"{what}.{back}", sys.stdout, indent="  ")
    return f"{sanitize.exact(undone.diff)}\n{text}"
