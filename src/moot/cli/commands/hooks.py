"""`moot agents hooks`: shows the hook chain of tool calls with the counts of each hook."""

from typing import Any

import click

from moot.cli import output
from moot.cli.connect import send_request
from moot.cli.render import plain_data, terminal
from moot.wire import moot_pb2 as pb


@click.command()
@output.json_option
def hooks() -> None:
    """Show the hooks of tool calls in order, with counts since the daemon started."""
    found = send_request(pb.ClientMessage(list_hooks=pb.ListHooksMsg())).hook_list.hooks

    def render(_: Any) -> str:
        rows = [
            [str(number), info.name, info.phase, "on" if info.enabled else "off", _render_counts(info)]
            for number, info in enumerate(found, 1)
        ]
        return terminal.render_table(["", "HOOK", "PHASE", "STATE", "SO FAR"], rows) or "No hooks are enabled."

    output.emit([plain_data.dump_hook(info) for info in found], render=render)


def _render_counts(info: pb.HookInfo) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(info.counts.items())) or "nothing"
