"""`moot trust`: clears the taint of a conversation."""

import click

from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.options import conversation_arguments
from moot.cli.render import sanitize
from moot.wire import moot_pb2 as pb


@click.command()
@conversation_arguments
@output.json_option
def trust(agent: str, sender: str) -> None:
    """Trust everything in the conversation with AGENT so far, including content from the web and MCP servers.

    It no longer causes extra approvals. Later untrusted content does so again.
    """
    taint = send_request(pb.ClientMessage(trust=pb.TrustMsg(agent=agent, sender=sender))).trusted.taint
    whose = f"untrusted text ({sanitize.line(taint.replace(',', ', '))}) included" if taint else "no untrusted text"
    text = f"The conversation with {sanitize.name(agent)} so far is trusted: {whose}."
    output.emit({"agent": agent, "trusted": True, "taint": taint}, render=lambda _: text)
