"""`moot chat AGENT`: opens the conversation and reconnects until the user leaves. Runs a `Room` on a `Screen`."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click

from moot.cli import daemon_process, output
from moot.cli.connect import daemon_client, find_paths, is_answering, remote_address
from moot.cli.options import conversation_arguments
from moot.client.errors import Unreachable
from moot.domain.errors import BadRequest, MootError
from moot.wire import moot_pb2 as pb

if TYPE_CHECKING:
    from moot.cli.chat.room import Room

_RETRY_SECONDS = 0.5


@click.command()
@conversation_arguments
@click.option("--guest", default="", metavar="AGENT", help="Guest agent that answers by default; @NAME overrides it.")
@click.option("--cwd", default="", metavar="DIR", help="Working directory of the runs. Default: the current one.")
@click.option("-m", "--message", default="", metavar="TEXT", help="Send this first.")
def chat(agent: str, sender: str, guest: str, cwd: str, message: str) -> None:
    """Open the conversation with AGENT in the terminal.

    @NAME invites another agent for one message, Esc stops the run, /help lists all commands.
    """
    if output.wants_json() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("a chat needs a terminal", fix=f'In scripts use: moot ask {agent} "TEXT"')
    folder = os.path.abspath(os.path.expanduser(cwd)) if cwd else "" if remote_address() else os.getcwd()
    asyncio.run(_chat(agent, sender, guest=guest, folder=folder, message=message))


async def _chat(agent: str, sender: str, *, guest: str, folder: str, message: str) -> None:
    from moot.cli.chat.completion import ChatCompleter  # noqa: PLC0415 - the terminal library is slow to import
    from moot.cli.chat.room import Room  # noqa: PLC0415
    from moot.cli.chat.screen import Screen  # noqa: PLC0415
    from moot.cli.chat.slash import COMMANDS  # noqa: PLC0415

    # Checked before anything is drawn, so that an unknown agent or a failed start is one clear error.
    async with daemon_client() as connection:
        await connection.request(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=agent)))
    room = Room(agent, sender, guest=guest, cwd=folder)
    room.screen = Screen(room, ChatCompleter(COMMANDS, room.guests))
    async with asyncio.TaskGroup() as tasks:
        room.tasks = tasks
        staying = tasks.create_task(_stay_connected(room, message), name="chat connection")
        try:
            await room.screen.run()
        finally:
            staying.cancel()
            room.close()


async def _stay_connected(room: "Room", message: str) -> None:
    """Connect, and reconnect after every loss. The daemon is only restarted if a message waits to be sent."""
    while True:
        try:
            async with daemon_client(start=False) as connection:
                await room.enter(connection)
                if message:
                    room.submit(message)
                    message = ""
                await connection.closed.wait()
        except Unreachable:
            pass
        except MootError as error:
            # The daemon refused the request; retrying would not help.
            room.complain(error)
            room.screen.quit()
            return
        room.leave()
        await _wait_until_reachable(room)


async def _wait_until_reachable(room: "Room") -> None:
    told = False
    while not await _is_reachable():
        if not told:
            room.tell("lost the connection to the daemon; waiting for it (a message or a decision restarts it)")
            told = True
        if room.eager and not remote_address():
            await _start_daemon(room)
        await asyncio.sleep(_RETRY_SECONDS)
    room.tell("connected again")


async def _is_reachable() -> bool:
    if not remote_address():
        return await is_answering(find_paths())
    try:
        async with daemon_client(start=False):
            return True
    except MootError:
        return False


async def _start_daemon(room: "Room") -> None:
    try:
        room.tell(f"started the daemon (pid {await daemon_process.start(find_paths(), is_answering)})")
    except MootError as error:
        room.give_up_sending(error)
