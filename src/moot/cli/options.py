"""Command-line arguments shared by many commands."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from moot.cli.name_completion import complete_agents, complete_folders, complete_senders

_F = TypeVar("_F", bound=Callable[..., Any])


def sender_option(command: _F) -> _F:
    """--as SENDER, or --here for the sender of the current project; without both the daemon uses the default."""

    @wraps(command)
    def with_sender(*values: Any, sender: str, here: bool, **options: Any) -> Any:
        return command(*values, sender=resolve_sender(sender, here=here), **options)

    as_option = click.option(
        "--as",
        "sender",
        default="",
        metavar="SENDER",
        shell_complete=complete_senders,
        help="The sender. Default: your own.",
    )
    here_option = click.option("--here", is_flag=True, help="The conversation of the current project directory.")
    return cast(_F, as_option(here_option(with_sender)))


def resolve_sender(sender: str, *, here: bool) -> str:
    """Return the sender of a request; empty for the connection's default."""
    if not here:
        return sender
    from moot.cli.project_sender import derive_sender  # noqa: PLC0415 - it imports hashlib

    return derive_sender(sender or _find_default_sender(), os.getcwd())


def _find_default_sender() -> str:
    from moot.cli.connect import run_connected  # noqa: PLC0415 - only with --here
    from moot.wire import moot_pb2 as pb  # noqa: PLC0415
    from moot.wire.codec import PROTOCOL_VERSION  # noqa: PLC0415

    hello = pb.ClientMessage(hello=pb.Hello(version=PROTOCOL_VERSION, client="moot"))
    return run_connected(lambda connection: connection.request(hello)).welcome.default_sender


# Shows what an agent with the role assistant writes beside its messages.
private_option = click.option(
    "--all", "shows_private", is_flag=True, help="Also show the text that an assistant does not send to you."
)


def cwd_option(help_text: str) -> Callable[[_F], _F]:
    """--cwd DIR, which shells complete."""
    return click.option("--cwd", default="", metavar="DIR", shell_complete=complete_folders, help=help_text)


def conversation_arguments(command: _F) -> _F:
    """AGENT --as SENDER: the pair that identifies a conversation."""
    return click.argument("agent", shell_complete=complete_agents)(sender_option(command))
