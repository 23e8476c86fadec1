"""`moot mode`: shows or sets the mode of a conversation, which decides what needs approval."""

import click

from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.options import conversation_arguments
from moot.cli.render import sanitize
from moot.domain.errors import BadRequest
from moot.domain.mode import Mode
from moot.wire import moot_pb2 as pb


@click.command()
@conversation_arguments
@click.argument("mode", required=False, default="", type=click.Choice(["", *map(str, Mode)]), metavar="[MODE]")
@click.option("--default", "configured", is_flag=True, help="Go back to the configured mode.")
@output.json_option
def mode(agent: str, sender: str, mode: str, configured: bool) -> None:
    """Show or set the MODE of the conversation with AGENT: plan, ask, work or free.

    plan reads only. ask asks before every dangerous call. work makes ordinary sandboxed commands and edits below the
    working directory without asking; `moot undo` takes edits back. free makes dangerous calls without asking.

    It also applies to teammates, guests and background runs of the conversation, from their next call on.
    """
    if mode and configured:
        raise BadRequest("a mode and --default exclude each other", fix="Give one of them.")
    message = pb.ModeMsg(agent=agent, sender=sender)
    if mode or configured:
        message.mode = mode
    found = send_request(pb.ClientMessage(mode=message)).mode
    if found.warning and (mode or configured):
        output.print_note(output.wrap_prose(found.warning, indent="  "))
    output.emit(
        {"agent": found.agent, "sender": found.sender, "mode": found.mode, "is_own": found.is_own},
        render=lambda _: render_mode(found),
    )


def render_mode(found: pb.ModeInfo) -> str:
    source = "" if found.is_own else " (as configured)"
    return f"{sanitize.name(found.mode)}{source}: {sanitize.line(found.meaning)}."
