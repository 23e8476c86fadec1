"""`moot tokens`: access tokens for clients on TCP, HTTP and WebSocket."""

from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import send_request
from moot.cli.name_completion import complete_tokens
from moot.cli.render import numbers, plain_data, sanitize, terminal
from moot.daemon.process_protection import hide_memory
from moot.wire import moot_pb2 as pb


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def tokens(context: click.Context) -> None:
    """Manage access tokens for clients: new, list, revoke. Without a command: list."""
    if context.invoked_subcommand is None:
        context.invoke(list_tokens)


@tokens.command()
@click.argument("name")
@click.option("--sender", "senders", multiple=True, metavar="PATTERN", help="Other senders it may use, such as 'tg:*'.")
@click.option("--may-approve", is_flag=True, help="It may allow or deny single calls in conversations of its senders.")
@output.json_option
def new(name: str, senders: tuple[str, ...], may_approve: bool) -> None:
    """Create a token for NAME. It is shown only once."""
    hide_memory()
    request = pb.NewTokenMsg(name=name, senders=senders, may_approve=may_approve)
    made = send_request(pb.ClientMessage(new_token=request)).token_created
    output.print_note("Save it now; only a digest is stored.")
    if made.sender != made.name:
        sender, earlier = sanitize.name(made.sender), sanitize.name(made.name)
        output.print_prose(
            f"It uses the sender {sender}: an earlier token of this name used {earlier}, and its conversations stay"
            f" private. To continue them, revoke this token and add --sender {earlier}."
        )
    output.emit(
        {"name": made.name, "token": made.token, "sender": made.sender}, render=lambda _: sanitize.line(made.token)
    )


@tokens.command("list")
@output.json_option
def list_tokens() -> None:
    """List the tokens, without their secrets."""
    found = send_request(pb.ClientMessage(list_tokens=pb.ListTokensMsg())).token_list.tokens

    def render(_: Any) -> str:
        rows = [
            [
                info.name,
                numbers.format_time(info.created_at),
                numbers.format_time(info.last_used_at) or "never",
                "revoked" if info.revoked_at else "active",
                "yes" if info.may_approve else "",
                " ".join(dict.fromkeys((info.sender, *info.senders))),
            ]
            for info in found
        ]
        return terminal.render_table(["NAME", "CREATED", "USED", "STATE", "APPROVES", "SENDERS"], rows) or "No tokens."

    output.emit([plain_data.dump_token(info) for info in found], render=render)


@tokens.command()
@click.argument("name", shell_complete=complete_tokens)
@output.json_option
def revoke(name: str) -> None:
    """Revoke the token of NAME immediately, and pause its scheduled jobs."""
    request = pb.ClientMessage(revoke_token=pb.RevokeTokenMsg(name=name))
    paused = list(send_request(request).token_revoked.paused_jobs)

    def render(_: Any) -> str:
        jobs = f" Paused its scheduled jobs: {', '.join(map(sanitize.line, paused))}." if paused else ""
        return f"Revoked {sanitize.name(name)}.{jobs}"

    output.emit({"name": name, "revoked": True, "paused_jobs": paused}, render=render)
