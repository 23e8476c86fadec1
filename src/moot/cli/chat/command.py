"""`moot chat AGENT`: opens the conversation and reconnects. Runs a `ChatController` on a `Screen`."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from moot.cli import output
from moot.cli.chat_settings import read_chat_settings
from moot.cli.connect import daemon_client, find_paths, remote_address
from moot.cli.name_completion import complete_agents, complete_senders
from moot.cli.options import cwd_option, private_option, resolve_sender
from moot.cli.render import terminal
from moot.client import daemon_process
from moot.client.errors import Unreachable
from moot.domain.config import ChatConfig
from moot.domain.errors import BadRequest, MootError
from moot.wire import moot_pb2 as pb

if TYPE_CHECKING:
    from moot.cli.chat.controller import ChatController

_RETRY_SECONDS = 0.5


@click.command()
@click.argument("agent", default="", shell_complete=complete_agents)
@click.option(
    "--as",
    "sender",
    default="",
    metavar="SENDER",
    shell_complete=complete_senders,
    help="The sender. Default: your own.",
)
@click.option(
    "--here/--no-here",
    default=None,
    help="Open the conversation of the current project directory, or not. Default: `here` in [chat].",
)
@click.option(
    "--guest",
    default="",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="Guest agent that answers by default; @NAME overrides it.",
)
@cwd_option("Working directory of the runs. Default: the current one.")
@click.option("-m", "--message", default="", metavar="TEXT", help="Send this first.")
@private_option
@click.option("--plain", is_flag=True, help="Show text as it was written instead of rendering Markdown.")
def chat(  # noqa: PLR0913, PLR0917 - one parameter for each option
    agent: str, sender: str, here: bool | None, guest: str, cwd: str, message: str, plain: bool, shows_private: bool
) -> None:
    """Open the conversation with AGENT in the terminal. Without AGENT: `agent` in [chat], which is moot by default.

    @NAME invites another agent for one message, Esc stops the run, /help lists all commands.
    """
    settings = read_chat_settings()
    if plain or not terminal.has_colours(sys.stdout):
        settings = replace(settings, markdown=False)
    agent = agent or settings.agent
    if output.wants_json() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("a chat needs a terminal", fix=f'In scripts use: moot ask {agent} "TEXT"')
    # A named sender is exactly that one, whatever the default is.
    sender = resolve_sender(sender, here=settings.here and not sender if here is None else here)
    folder = os.path.abspath(os.path.expanduser(cwd)) if cwd else "" if remote_address() else os.getcwd()
    opening = _Opening(guest=guest, folder=folder, message=message, shows_private=shows_private)
    asyncio.run(_chat(agent, sender, opening, settings))


class _Opening(Struct, frozen=True, kw_only=True):
    """How a chat was opened."""

    guest: str
    folder: str
    message: str
    shows_private: bool


async def _chat(agent: str, sender: str, opening: _Opening, settings: ChatConfig) -> None:
    from moot.cli.chat.completion import ChatCompleter  # noqa: PLC0415 - the terminal library is slow to import
    from moot.cli.chat.controller import ChatController  # noqa: PLC0415
    from moot.cli.chat.file_index import FileIndex  # noqa: PLC0415
    from moot.cli.chat.screen import Screen, ScreenOptions  # noqa: PLC0415
    from moot.cli.chat.slash import COMMANDS  # noqa: PLC0415
    from moot.cli.markdown.text_format import has_links  # noqa: PLC0415

    # Checked before anything is drawn, so that an unknown agent or a failed start is one clear error.
    async with daemon_client() as connection:
        await connection.request(pb.ClientMessage(get_agent=pb.GetAgentMsg(name=agent)))
    chat = ChatController(agent, sender, guest=opening.guest, cwd=opening.folder, steers=settings.busy == "steer")
    chat.away_seconds = settings.away_seconds
    completer = ChatCompleter(COMMANDS, chat.guests, None if remote_address() else FileIndex(chat.folder))
    options = ScreenOptions(
        markdown=settings.markdown, links=has_links(), notify=settings.notify, shows_private=opening.shows_private
    )
    chat.screen = Screen(chat, completer, options=options)
    async with asyncio.TaskGroup() as tasks:
        chat.tasks = tasks
        staying = tasks.create_task(_stay_connected(chat, opening.message), name="chat connection")
        try:
            await chat.screen.run()
        finally:
            staying.cancel()
            chat.close()


async def _stay_connected(chat: "ChatController", message: str) -> None:
    """Connect, and reconnect after every loss. The daemon is only restarted if a message waits to be sent."""
    while True:
        try:
            async with daemon_client(start=False) as connection:
                await chat.on_connected(connection)
                if message:
                    chat.submit(message)
                    message = ""
                await connection.closed.wait()
        except Unreachable:
            pass
        except MootError as error:
            # The daemon refused the request; retrying would not help.
            chat.show_error(error)
            chat.screen.quit()
            return
        chat.on_disconnected()
        await _wait_until_reachable(chat)


async def _wait_until_reachable(chat: "ChatController") -> None:
    is_reported = False
    while not await _is_reachable():
        if not is_reported:
            chat.show_notice("lost the connection to the daemon; waiting for it (a message or a decision restarts it)")
            is_reported = True
        if chat.has_unsent and not remote_address():
            await _start_daemon(chat)
        await asyncio.sleep(_RETRY_SECONDS)
    chat.show_notice("connected again")


async def _is_reachable() -> bool:
    if not remote_address():
        return await daemon_process.is_answering(find_paths())
    try:
        async with daemon_client(start=False):
            return True
    except MootError:
        return False


async def _start_daemon(chat: "ChatController") -> None:
    try:
        chat.show_notice(f"started the daemon (pid {await daemon_process.start(find_paths())})")
    except MootError as error:
        chat.give_up_sending(error)
