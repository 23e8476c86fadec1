"""`moot mode`: shows or sets the mode of a conversation, which decides what needs approval."""

import click

from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.options import conversation_arguments
from moot.cli.render import sanitize
from moot.domain.auto_approve import AutoApproveLevel
from moot.domain.errors import BadRequest
from moot.domain.mode import Mode
from moot.wire import moot_pb2 as pb


@click.command()
@conversation_arguments
@click.argument("mode", required=False, default="", type=click.Choice(["", *map(str, Mode)]), metavar="[MODE]")
@click.option("--default", "configured", is_flag=True, help="Go back to the configured mode.")
@click.option(
    "--auto-approve",
    "level",
    type=click.Choice([*map(str, AutoApproveLevel), "default"]),
    metavar="LEVEL",
    help="Approve without asking: none, reads, edits or commands; default is what the agent states.",
)
@output.json_option
def mode(agent: str, sender: str, mode: str, configured: bool, level: str | None) -> None:
    """Show or set the MODE of the conversation with AGENT: plan, ask, work or free.

    plan reads only. ask asks before every dangerous call. work makes ordinary sandboxed commands and edits below the
    working directory without asking; `moot undo` takes edits back. free makes dangerous calls without asking.

    --auto-approve lets calls be made without asking where the mode ask, or the policy all, would ask: reads are
    calls that only read, change the agent's own tasks and notes, or start other runs; edits also edits that can be
    undone and other calls of moderate tools; commands also ordinary sandboxed commands. `moot agents show` lists
    the tools. It never applies after untrusted text, nor to secrets, payments or destructive commands.

    It also applies to teammates, guests and background runs of the conversation, from their next call on.
    """
    if mode and configured:
        raise BadRequest("a mode and --default exclude each other", fix="Give one of them.")
    message = pb.ModeMsg(agent=agent, sender=sender)
    if mode or configured:
        message.mode = mode
    if level is not None:
        message.auto_approve = "" if level == "default" else level
    found = send_request(pb.ClientMessage(mode=message)).mode
    if found.warning and (mode or configured):
        output.print_note(output.wrap_prose(found.warning, indent="  "))
    output.emit(
        {
            "agent": found.agent,
            "sender": found.sender,
            "mode": found.mode,
            "is_own": found.is_own,
            "auto_approve": found.auto_approve,
            "has_own_level": found.has_own_level,
        },
        render=lambda _: render_mode(found),
    )


def render_mode(found: pb.ModeInfo) -> str:
    source = "" if found.is_own else " (not set for this conversation)"
    shown = f"{sanitize.name(found.mode)}{source}: {sanitize.line(found.meaning)}."
    if found.auto_approve == "none" and not found.has_own_level:
        return shown
    whose = "" if found.has_own_level else " (as the agent states)"
    level, meaning = sanitize.name(found.auto_approve), sanitize.line(found.level_meaning)
    return f"{shown}\nauto-approve {level}{whose}: {meaning}."
