"""Command-line arguments shared by many commands, and the name of the program."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def sender_option(command: _F) -> _F:
    """--as SENDER; without it the daemon takes the default of the connection."""
    option = click.option("--as", "sender", default="", metavar="SENDER", help="The sender. Default: your own.")
    return option(command)


def conversation_arguments(command: _F) -> _F:
    """AGENT --as SENDER: the two names that are a conversation."""
    return click.argument("agent")(sender_option(command))


def program_name() -> str:
    """How a person calls this command: `moot`, or the way through a checkout's own script."""
    return os.environ.get("MOOT_DEV") or "moot"
