"""moot trace: the newest turns, or everything that happened in one of them, teammates included."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import click

from moot.cli import output
from moot.cli.commands.memory import when
from moot.cli.connect import ask_daemon, utf8
from moot.cli.render import colours, plain_data, run_lines, sanitize, trace_lines
from moot.wire import moot_pb2 as pb

_LIST = "list"
_PLAIN = {"completed": "green", "escalated": "green", "cancelled": "yellow"}
_HEADERS = ("WHO", "RUN", "WHEN", "OUTCOME", "TIME", "SPENT")
_OUTCOME = 3
_WHO = 12


@click.command()
@click.argument("run", default=_LIST, metavar="[RUN|list]")
@click.option("--failed", is_flag=True, help="Of all runs only those that failed, teammates' own among them.")
@click.option("--tree", is_flag=True, help="In the list, show teammates under the turn that set them to work.")
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many are listed.")
@output.json_option
def trace(run: str, *, failed: bool, tree: bool, limit: int) -> None:
    """List the newest turns, or show what happened in RUN and in those it set to work, in order.

    A RUN may be shortened as long as no other begins so. Traces hold no secrets and no personal data.
    """
    if run == _LIST:
        message = pb.ClientMessage(list_traces=pb.ListTracesMsg(limit=limit, failed=failed))
        traces = list(ask_daemon(message).trace_list.traces)
        output.emit([plain_data.trace(info) for info in traces], render=lambda _: _listed(traces, tree=tree))
    else:
        info = ask_daemon(pb.ClientMessage(get_trace=pb.GetTraceMsg(run_id=utf8(run)))).trace
        width = output.terminal_width()
        output.emit(plain_data.trace(info), render=lambda _: "\n".join(trace_lines.lines(info, width)))


def _listed(traces: list[pb.TraceInfo], *, tree: bool) -> str:
    width = output.terminal_width()
    if not traces:
        return "There are no turns yet, or none that failed."
    return "\n".join(rows(traces, width, tree=tree)) if width else _table(traces, tree=tree)


def rows(traces: list[pb.TraceInfo], width: int, *, tree: bool) -> list[str]:
    """Turns in the columns there are: a row for each, what was asked below it, and what went wrong."""
    shown = [(info, depth) for top in traces for info, depth in _below(top, 0, tree=tree)]
    ids = run_lines.short_ids([info.run_id for info, _ in shown])
    cells = [_cells(info, ids[info.run_id], depth) for info, depth in shown]
    widths = [max(map(sanitize.columns, column)) for column in zip(_HEADERS, *cells, strict=True)]
    widths[0] = min(widths[0], max(_WHO, width - sum(widths[1:]) - 2 * (len(widths) - 1)))
    told = [output.paint(_aligned(_HEADERS, widths), bold=True)]
    for row, (info, depth) in zip(cells, shown, strict=True):
        told.append(_aligned(row, widths, _colour(info)))
        under = "   " * (depth + 1)
        room = width - len(under)
        told.append(output.paint(under + sanitize.fit(_asked(info), room), dim=True))
        if _went_wrong(info):
            told.append(under + output.paint(sanitize.line(info.error, room), fg="red"))
    return told


def _cells(info: pb.TraceInfo, run_id: str, depth: int) -> list[str]:
    began = datetime.fromtimestamp(info.started_at).astimezone().strftime("%d %b %H:%M") if info.started_at else ""
    return [
        ("   " * (depth - 1) + "└─ " if depth else "") + trace_lines.who(info),
        sanitize.line(run_id),
        began,
        _outcome(info),
        run_lines.duration(info.seconds) if info.seconds >= 10 else f"{info.seconds:.1f}s",
        _spent(info),
    ]


def _aligned(row: Sequence[str], widths: Sequence[int], colour: str = "") -> str:
    """A row; numbers stand to the right, and the outcome has a colour."""
    shown: list[str] = []
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        text = sanitize.fit(cell, width)
        room = " " * (width - sanitize.columns(text))
        text = output.paint(text, fg=colour) if colour and column == _OUTCOME else text
        shown.append(room + text if column > _OUTCOME else text + room)
    return "  ".join(shown).rstrip()


def _below(info: pb.TraceInfo, depth: int, *, tree: bool) -> Iterator[tuple[pb.TraceInfo, int]]:
    yield info, depth
    for child in info.children if tree else ():
        yield from _below(child, depth + 1, tree=tree)


def _asked(info: pb.TraceInfo) -> str:
    team = _team(info)
    return (
        f"“{sanitize.line(info.request)}”"
        if not team
        else f"{colours.plural(team, 'teammate')} · “{sanitize.line(info.request)}”"
    )


def _outcome(info: pb.TraceInfo) -> str:
    outcome = sanitize.line((info.outcome or "running").replace("_", " "))
    return f"{outcome} ({sanitize.line(info.limit)})" if info.limit else outcome


def _colour(info: pb.TraceInfo) -> str:
    if not info.outcome:
        return "cyan"
    return _PLAIN.get(info.outcome, "red")


def _went_wrong(info: pb.TraceInfo) -> bool:
    return bool(info.error) and bool(info.outcome) and info.outcome not in _PLAIN


def _spent(info: pb.TraceInfo) -> str:
    return colours.cost(info.tree_cost) if info.tree_cost else f"{colours.count(info.tree_tokens)} tokens"


def _table(traces: list[pb.TraceInfo], *, tree: bool) -> str:
    """One row a run, whole ids, for a pipe or a file."""
    headers = ["RUN", "AGENT", "WHEN", "OUTCOME", "SECONDS", "COST", "TEAM", "REQUEST", "ERROR"]
    found = [
        [
            f"{'└─' * depth} {info.run_id}".strip(),
            info.agent,
            when(info.started_at),
            f"{info.outcome} ({info.limit})" if info.limit else info.outcome or "running",
            f"{info.seconds:.1f}",
            _spent(info),
            str(_team(info)) if info.children else "-",
            info.request or "-",
            info.error if _went_wrong(info) else "-",
        ]
        for top in traces
        for info, depth in _below(top, 0, tree=tree)
    ]
    return output.table(headers, found)


def _team(info: pb.TraceInfo) -> int:
    return len(info.children) + sum(map(_team, info.children))
