"""Connects a command to the daemon, and starts the daemon first if it is not running (`daemon_process`)."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import click

from moot.cli import output
from moot.cli.daemon_notices import print_notices, print_problems
from moot.client import caller, daemon_process
from moot.client.connection import Connection, connect
from moot.daemon.paths import Paths
from moot.domain.errors import BadRequest, Unauthorized
from moot.wire import moot_pb2 as pb

_T = TypeVar("_T")
_ESCAPED = re.compile("[\ud800-\udfff]")


def find_paths() -> Paths:
    return Paths.find(os.environ)


def remote_address() -> str:
    """The TCP address from the command line or the environment; empty for the local daemon."""
    context = click.get_current_context(silent=True)
    chosen = context.find_root().obj if context is not None else os.environ.get("MOOT_ADDRESS")
    return chosen if isinstance(chosen, str) else ""


def caller_search_path() -> str:
    """The caller's PATH, so that commands of agents use the same programs; empty for a remote daemon."""
    return "" if remote_address() else caller.read_search_path()


@asynccontextmanager
async def daemon_client(
    *, start: bool = True, notify: bool = True, about_config: bool = True
) -> AsyncIterator[Connection]:
    """Connect to the daemon. With `start`, start it in the background first if it is not running.

    `notify` prints warnings about the daemon; those `about_config` not for a request that reloads the configuration.
    """
    address = remote_address()
    if address:
        opening = connect(address, token=_read_token(address))
    else:
        if start:
            await ensure_running(find_paths())
        opening = connect(find_paths().socket)
    async with opening as connection:
        if notify and not address:
            await print_notices(connection, about_config=about_config)
        yield connection


def _read_token(address: str) -> str:
    """The access token for a remote daemon. Checked here, because the daemon's refusal does not say how to set one."""
    token = os.environ.get("MOOT_TOKEN", "")
    if not token:
        raise Unauthorized(
            f"the daemon at {address} requires a token, and MOOT_TOKEN is not set",
            fix="Its owner creates one with `moot tokens new NAME`; then run: export MOOT_TOKEN=moot_…",
        )
    return token


async def ensure_running(home: Paths) -> bool:
    """Start the daemon unless it answers, with a note on stderr. Return whether it was started."""
    if await daemon_process.is_answering(home):
        return False
    with output.progress("The daemon is not running, starting it") as bar:
        pid = await daemon_process.start(home)
        bar.say(output.wrap_prose(f"Started the daemon (pid {pid}); `moot down` stops it.", indent="  "))
    async with connect(home.socket) as connection:
        stats = (await connection.request(pb.ClientMessage(get_stats=pb.GetStats()))).stats
    print_problems(stats)
    return True


def run_connected(work: Callable[[Connection], Awaitable[_T]], *, start: bool = True, about_config: bool = True) -> _T:
    """Run a coroutine function with a connection, from synchronous code."""

    async def use_connection() -> _T:
        async with daemon_client(start=start, about_config=about_config) as connection:
            return await work(connection)

    return asyncio.run(use_connection())


def send_request(message: pb.ClientMessage, *, start: bool = True) -> pb.ServerMessage:
    """Send one request and return its reply."""
    about_config = message.WhichOneof("message") != "reload"
    return run_connected(lambda connection: connection.request(message), start=start, about_config=about_config)


def require_utf8(text: str) -> str:
    """The text of an argument; raises if its bytes are not UTF-8."""
    if text.isascii() or not _ESCAPED.search(text):
        return text
    try:
        # In a non-UTF-8 locale the bytes arrive as surrogate escapes.
        return os.fsencode(text).decode()
    except UnicodeError as error:
        raise BadRequest("the text is not valid UTF-8", fix="Check the encoding of your terminal.") from error
