"""Warnings about the daemon that every command prints: another version, or a configuration that is not in use."""

import click

from moot import __version__
from moot.cli import output
from moot.cli.render import numbers, sanitize
from moot.client.connection import Connection
from moot.wire import moot_pb2 as pb
from moot.wire.codec import PROTOCOL_VERSION

_PRINTED = "moot.printed_notices"


async def print_notices(connection: Connection, *, about_config: bool = True) -> None:
    """Ask the local daemon for its version and configuration, and print what a person should know, once."""
    hello = pb.ClientMessage(hello=pb.Hello(version=PROTOCOL_VERSION, client="moot"))
    context = click.get_current_context(silent=True)
    printed: set[str] = context.find_root().meta.setdefault(_PRINTED, set()) if context is not None else set()
    welcome = (await connection.request(hello)).welcome
    if not about_config:
        welcome.ClearField("config_problem")
    for notice in render_notices(welcome):
        if notice not in printed:
            printed.add(notice)
            output.print_note(output.wrap_prose(notice, indent="  "))


def render_notices(welcome: pb.Welcome) -> list[str]:
    notices = []
    if welcome.daemon_version not in ("", __version__):
        version = sanitize.line(welcome.daemon_version)
        notices.append(
            f"warning: the daemon is version {version}, this command is {__version__}. Restart it: moot down; moot up"
        )
    if welcome.config_problem:
        more = numbers.format_plural(welcome.more_config_errors, "more error")
        rest = f" The file has {more}; `moot doctor` shows all." if welcome.more_config_errors else ""
        notices.append(
            f"warning: {sanitize.line(welcome.config_problem)}.{rest} "
            "The previous configuration is used until `moot reload`."
        )
    return notices


def print_problems(stats: pb.DaemonStats) -> None:
    """Print what a daemon that was started just now does not do, such as listen on a port that is in use."""
    for problem in stats.problems:
        output.print_note(output.wrap_prose(f"warning: {sanitize.line(problem)}", indent="  "))
