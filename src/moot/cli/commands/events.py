"""`moot events`: subscribes to all events of the caller's conversations and prints them as they arrive."""

import asyncio
import sys
from contextlib import aclosing
from json import dumps
from typing import Any

import click

from moot.cli import output
from moot.cli.follow.follow_events import follow_events
from moot.cli.render import colours, numbers, plain_data, sanitize, terminal
from moot.cli.render.event_lines import Cell, render_row
from moot.wire import moot_pb2 as pb

_TEXT_COLUMNS = 100


@click.command()
@click.option("-n", "count", type=click.IntRange(min=1), help="Stop after N events.")
@click.option("--ndjson", is_flag=True, help="Print each event as one line of JSON, as it happens.")
@click.option(
    "--since",
    type=click.IntRange(min=0),
    metavar="SEQ",
    help="Begin with the events after number SEQ, as far as they are kept.",
)
@output.json_option
def events(count: int | None, ndjson: bool, since: int | None) -> None:
    """Follow everything that happens in your conversations and in all runs that work for them, until Ctrl-C.

    Each event has a number. The daemon keeps the newest ones: --since with the last number you have seen continues from
    there. A lost connection, also because the daemon restarts, is reported on stderr, and the command continues in the
    same way when the daemon is back. Events that are no longer kept are announced by an event of the kind `gap`.

    With --json the events are collected and printed as one document at the end, so give -n too.
    """
    if output.wants_json() and count is None:
        raise click.UsageError("--json needs -n, since live events have no end; --ndjson prints line by line.")
    asyncio.run(_follow(count, since, ndjson=ndjson))


async def _follow(limit: int | None, since: int | None, *, ndjson: bool) -> None:
    collected: list[dict[str, Any]] = []
    async with aclosing(follow_events(since)) as found:
        seen = 0
        async for event in found:
            seen += 1
            if output.wants_json():
                collected.append(plain_data.dump_event(event))
            elif ndjson:
                output.write(dumps(plain_data.dump_event(event)) + "\n")
            else:
                output.write(render_event(event) + "\n")
            if seen == limit:
                break
    if output.wants_json():
        output.emit(collected)


def render_event(event: pb.AgentEventMsg) -> str:
    kind = pb.AgentEventKind.Name(event.kind).lower()
    width = terminal.row_width(sys.stdout)
    number = Cell(str(event.seq), {"dim": True})
    if event.kind == pb.GAP:
        text = f"events {event.gap.first_seq} to {event.gap.last_seq} are not kept any more"
        return render_row([number, Cell(kind)], text, width)
    moment = Cell(numbers.format_moment(event.timestamp))
    if event.kind == pb.RELOADED:
        return render_row([number, moment, Cell(kind)], "", width)
    name = event.speaker or event.agent
    who = Cell(sanitize.name(name), {"fg": colours.name_colour(name)})
    what = event.content or event.tool_output or " ".join(call.name for call in event.tool_calls)
    where = Cell(f"{sanitize.name(event.root_agent)} as {sanitize.name(event.root_sender)}", {"dim": True})
    return render_row([number, moment, where, who, Cell(kind)], sanitize.exact_line(what, _TEXT_COLUMNS), width)
