"""`moot run`: starts a task in a conversation of its own, and follows it or leaves it in the background."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import click

from moot.cli import output
from moot.cli.commands.ask import append_piped, limit_option, working_folder
from moot.cli.connect import caller_search_path, daemon_client, require_utf8
from moot.cli.exits import Exit
from moot.cli.follow import tool_notices
from moot.cli.follow.follow_run import RunFollower, Target
from moot.cli.options import cwd_option, private_option, sender_option
from moot.cli.render import plain_data, sanitize, terminal
from moot.cli.stdin import read_stdin
from moot.client.connection import Connection
from moot.client.errors import Unreachable
from moot.wire import moot_pb2 as pb


@click.command()
@click.argument("text", required=False)
@click.option("--agent", default="", metavar="AGENT", help="The agent. Default: moot.")
@sender_option
@click.option("--bg", "background", is_flag=True, help="Print the run's id and leave it in the background.")
@click.option(
    "--tools",
    multiple=True,
    metavar="NAMES",
    help="Only these tools (names or patterns, comma-separated). Other tools of the agent need approval.",
)
@cwd_option("Working directory of the run. Default: the current one.")
@click.option("--message-id", default="", metavar="ID", help="Idempotency key: the same ID is one run.")
@limit_option("--max-steps", "steps", click.IntRange(min=1), "Maximum number of model calls.")
@limit_option(
    "--max-seconds --timeout",
    "seconds",
    click.FloatRange(min=0, min_open=True),
    "Maximum seconds of work; waiting for you does not count.",
)
@limit_option("--max-tokens", "tokens", click.IntRange(min=1), "Maximum number of tokens.")
@limit_option("--max-spend --budget", "spend", click.FloatRange(min=0), "Maximum cost in US dollars.")
@click.option("--no-stream", is_flag=True, help="Print the answer when it is complete.")
@private_option
@output.json_option
def run(text: str | None, background: bool, no_stream: bool, shows_private: bool, **options: Any) -> int:
    """Start a run with task TEXT. Without TEXT, or with -, the task is read from stdin.

    The run has its own conversation. It continues when you disconnect, and after a restart
    of the daemon, unless the outcome of a pending call is unknown; then it ends `interrupted`. When followed, its
    answer goes to stdout and everything else to stderr, and Ctrl-C stops it. With --bg, `moot ps` shows it and
    `moot wait` prints the result.

    Exits with 0 if it completed, 1 if it failed, 3 if it waits for you and there is no terminal, 4 if it was
    denied, 5 if a limit ended it.
    """
    if text is None and sys.stdin.isatty():
        raise click.UsageError("Missing argument 'TEXT'.")
    content = read_stdin() if text in (None, "-") else append_piped(require_utf8(str(text)))
    message = _build_request(content, **options)
    streaming = sys.stdout.isatty() and not no_stream and not output.wants_json()
    return asyncio.run(_run(message, background=background, streaming=streaming, shows_private=shows_private))


def _build_request(
    content: str, *, agent: str, sender: str, tools: Sequence[str], cwd: str, message_id: str, **limits: Any
) -> pb.StartRunMsg:
    named = [each.strip() for given in tools for each in given.split(",") if each.strip()]
    message = pb.StartRunMsg(agent=agent, content=content, sender=sender, tools=named, cwd=working_folder(cwd))
    message.search_path = caller_search_path()
    message.client_message_id = message_id or f"run-{uuid4().hex}"
    chosen = {name: value for name, value in limits.items() if value is not None}
    if chosen:
        message.limits.CopyFrom(pb.RunLimits(**chosen))
    return message


async def _run(message: pb.StartRunMsg, *, background: bool, streaming: bool, shows_private: bool) -> int:
    async with AsyncExitStack() as connections:
        connection, info = await _start(message, connections)
        if background:
            without = {"no_tools": True} if await tool_notices.warn_missing_tools(connection, info.agent) else {}
            output.emit(plain_data.dump_run(info) | without, render=lambda _: sanitize.name(info.run_id))
            return int(Exit.OK)
        output.print_note(
            terminal.paint(f"{sanitize.name(info.agent)} works on it as {info.run_id}", sys.stderr, dim=True)
        )
        target = Target(
            agent=info.root_agent,
            sender=info.root_sender,
            stop=pb.ClientMessage(stop_run=pb.StopRunMsg(run_id=info.run_id)),
            stops_in_line=True,
            speaker=info.agent,
            shows_private=shows_private,
            shape={"run_id": info.run_id},
        )
        return await RunFollower(pb.AttachRunMsg(run_id=info.run_id), target, streaming=streaming).on(connection)


async def _start(message: pb.StartRunMsg, connections: AsyncExitStack) -> tuple[Connection, pb.RunInfo]:
    """Start the run; retries once with the same id if the connection was lost before the reply."""
    connection = await connections.enter_async_context(daemon_client())
    try:
        return connection, (await connection.request(pb.ClientMessage(start_run=message))).run
    except Unreachable:
        connection = await connections.enter_async_context(daemon_client())
        return connection, (await connection.request(pb.ClientMessage(start_run=message))).run
