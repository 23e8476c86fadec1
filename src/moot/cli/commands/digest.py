"""`moot digest`: what happened in a conversation while you were away."""

import sys
import time

import click

from moot.cli import output
from moot.cli.chat_settings import read_chat_settings
from moot.cli.connect import send_request
from moot.cli.name_completion import complete_agents
from moot.cli.options import sender_option
from moot.cli.render import digest_lines, flow, terminal
from moot.wire import moot_pb2 as pb

_MOST_SHOWN = 200


@click.command()
@click.argument("agent", default="", shell_complete=complete_agents)
@sender_option
@output.json_option
def digest(agent: str, sender: str) -> None:
    """Show again what happened in the conversation with AGENT while you were away.

    The chat and `moot ask` show it first when you return after `away_seconds` of [chat].
    """
    agent = agent or read_chat_settings().agent
    info = send_request(pb.ClientMessage(visit=pb.VisitMsg(agent=agent, sender=sender, again=True))).digest

    def render(_: object) -> str:
        if not info.items:
            return "Nothing happened while you were away."
        lines = digest_lines.render_digest(info, now=time.time(), most=_MOST_SHOWN)
        return "\n".join(flow.wrap_text(line, terminal.row_width(sys.stdout), indent="    ") for line in lines)

    output.emit(digest_lines.dump_digest(info), render=render)
