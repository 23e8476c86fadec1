"""Command-line arguments shared by many commands, and the name of the program."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def sender_option(command: _F) -> _F:
    """--as SENDER; the daemon uses the connection's default if omitted."""
    option = click.option("--as", "sender", default="", metavar="SENDER", help="The sender. Default: your own.")
    return option(command)


def conversation_arguments(command: _F) -> _F:
    """AGENT --as SENDER: the pair that identifies a conversation."""
    return click.argument("agent")(sender_option(command))


def program_name() -> str:
    """The name to use in suggested commands: `moot`, or the checkout's own script."""
    return os.environ.get("MOOT_DEV") or "moot"
