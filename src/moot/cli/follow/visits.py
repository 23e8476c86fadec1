"""Tells the daemon that a person reads a conversation, and shows them what happened while they were away."""

import sys
import time
from contextlib import suppress

from moot.cli import output
from moot.cli.render import sanitize, terminal
from moot.client.connection import Connection
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb


async def show_digest(connection: Connection, agent: str, sender: str) -> None:
    """Show what happened while the person was away, and messages that nobody has read yet, on stderr."""
    info = await visit(connection, agent, sender)
    if info is None or output.wants_json():
        return
    from moot.cli.render import digest_lines  # noqa: PLC0415 - only for a person at a terminal
    from moot.cli.render.user_messages import render_attachments  # noqa: PLC0415

    if info.is_due:
        for line in digest_lines.render_digest(info, now=time.time()):
            output.print_note(terminal.paint(line, sys.stderr, dim=True))
        return
    for item in digest_lines.list_unread_messages(info):
        output.print_note(f"{sanitize.name(item.agent)} (proactive) › {sanitize.clean(item.message.content)}")
        for line in render_attachments(item.message):
            output.print_note(terminal.paint(f"  {line}", sys.stderr, dim=True))


async def visit(connection: Connection, agent: str, sender: str) -> pb.DigestInfo | None:
    """Tell the daemon that a person reads the conversation; a program that reads JSON is none."""
    if output.wants_json() or not sys.stderr.isatty():
        return None
    from moot.cli.chat_settings import read_chat_settings  # noqa: PLC0415 - it imports the configuration

    message = pb.VisitMsg(agent=agent, sender=sender, away_seconds=read_chat_settings().away_seconds)
    with suppress(MootError):
        return (await connection.request(pb.ClientMessage(visit=message))).digest
    return None
