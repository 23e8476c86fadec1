"""`moot ask`: sends one message and prints the answer. Follows the run with `follow.follow_run`."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from moot.cli import output
from moot.cli.connect import caller_search_path, remote_address, require_utf8
from moot.cli.follow.follow_run import RunFollower, Target
from moot.cli.name_completion import complete_agents
from moot.cli.options import conversation_arguments, cwd_option, private_option
from moot.cli.stdin import read_piped, read_stdin
from moot.client import caller
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb


def limit_option(flags: str, name: str, kind: Any, text: str) -> Callable[[Any], Any]:
    """Build an option for a limit on one run; all given flags are aliases."""
    return click.option(*flags.split(), name, type=kind, default=None, help=text)


@click.command()
@conversation_arguments
@click.argument("text", required=False)
@click.option(
    "--guest",
    default="",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="Guest agent that answers this turn.",
)
@cwd_option("Working directory of this run. Default: the current one.")
@click.option("--message-id", default="", metavar="ID", help="Idempotency key: the same ID is one turn.")
@click.option("--steer", is_flag=True, help="Show TEXT to the active run at its next step, if there is one.")
@limit_option("--max-steps", "steps", click.IntRange(min=1), "Maximum number of model calls.")
@limit_option(
    "--max-seconds --timeout",
    "seconds",
    click.FloatRange(min=0, min_open=True),
    "Maximum seconds for this run, including time in the queue.",
)
@limit_option("--max-tokens", "tokens", click.IntRange(min=1), "Maximum number of tokens.")
@limit_option("--max-spend --budget", "spend", click.FloatRange(min=0), "Maximum cost in US dollars.")
@click.option("--no-stream", is_flag=True, help="Print the answer when it is complete.")
@private_option
@output.json_option
def ask(agent: str, text: str | None, no_stream: bool, shows_private: bool, **options: Any) -> int:
    """Send TEXT to AGENT and print the answer. Without TEXT, or with -, the text comes from stdin.

    With TEXT and a file or pipe on stdin, its content is appended to TEXT after a blank line. A pipe on which
    nothing arrives within 0.2 seconds is ignored. In a loop that reads stdin itself, add `< /dev/null`.

    The answer goes to stdout and everything else to stderr. Ctrl-C stops the run.
    """
    if text is None and sys.stdin.isatty():
        raise click.UsageError("Missing argument 'TEXT'.")
    content = read_stdin() if text in (None, "-") else append_piped(require_utf8(str(text)))
    streaming = sys.stdout.isatty() and not no_stream and not output.wants_json()
    steer = options.pop("steer")
    message = build_request(agent, content, **options)
    message.steer = steer
    kill = pb.ClientMessage(kill=pb.KillMsg(agent=agent, sender=message.sender))
    speaker = "" if message.guest else agent
    target = Target(
        agent=agent,
        sender=message.sender,
        stop=kill,
        patience=options["seconds"],
        speaker=speaker,
        shows_private=shows_private,
        is_visit=True,
    )
    return asyncio.run(RunFollower(message, target, streaming=streaming).run())


def append_piped(text: str) -> str:
    piped = read_piped()
    return f"{text}\n\n{piped}" if piped.strip() else text


def build_request(
    agent: str, content: str, *, sender: str, guest: str, cwd: str, message_id: str, **limits: Any
) -> Any:
    """The message to send, with the caller's working directory unless another is given."""
    folder = working_folder(cwd)
    message = pb.StreamMsg(agent=agent, content=content)
    for name, value in (("sender", sender), ("guest", guest), ("client_message_id", message_id), ("cwd", folder)):
        if value:
            setattr(message, name, value)
    message.search_path = caller_search_path()
    chosen = {name: value for name, value in limits.items() if value is not None}
    if chosen:
        message.limits.CopyFrom(pb.RunLimits(**chosen))
    return message


def working_folder(cwd: str) -> str:
    """The given folder, or the caller's working directory."""
    folder = os.path.abspath(os.path.expanduser(cwd)) if cwd else _current_folder()
    if cwd and not os.path.isdir(folder):
        reason = "is not a directory" if os.path.exists(folder) else "does not exist"
        raise BadRequest(f"{cwd} {reason}", fix="Give a directory that exists.")
    return folder


def _current_folder() -> str:
    """The caller's working directory; empty for a remote daemon or a deleted folder."""
    return "" if remote_address() else caller.read_folder()
