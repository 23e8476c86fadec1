"""`moot trace`: lists recent turns, or shows every event of one turn and its teammates."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

import click

from moot.cli import output
from moot.cli.connect import require_utf8, send_request
from moot.cli.name_completion import complete_runs
from moot.cli.program import hint
from moot.cli.render import numbers, plain_data, run_lines, sanitize, terminal, trace_lines
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb

_LIST = "list"
_PLAIN = {"completed": "green", "escalated": "green", "cancelled": "yellow"}
_HEADERS = ("WHO", "RUN", "WHEN", "OUTCOME", "TIME", "SPENT")
_WHEN, _OUTCOME = 2, 3
_WHO = 12
_TOKENS = " tokens"


@click.command()
@click.argument("run", default=_LIST, shell_complete=complete_runs, metavar="[RUN|list]")
@click.option("--failed", is_flag=True, help="Only failed runs, including those of teammates.")
@click.option("--tree", is_flag=True, help="In the list, show teammates below their turn.")
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many are listed.")
@click.option("--prompt", is_flag=True, help="Print a model request of RUN exactly as it was sent.")
@click.option("--step", type=click.IntRange(1), help="Which request --prompt prints. Default: the last one.")
@output.json_option
def trace(run: str, *, failed: bool, tree: bool, limit: int, prompt: bool, step: int | None) -> None:
    """List recent turns, or show all events of RUN and its teammates in order.

    RUN may be abbreviated to a unique prefix. Traces contain no secrets and no personal data; --prompt prints the
    request as the model received it.
    """
    if prompt or step:
        if run == _LIST:
            raise BadRequest("--prompt needs a run", fix="Name one: moot trace RUN --step 1 --prompt")
        _emit_prompt(run, step or 0)
    elif run == _LIST:
        message = pb.ClientMessage(list_traces=pb.ListTracesMsg(limit=limit, failed=failed))
        traces = list(send_request(message).trace_list.traces)
        output.emit([plain_data.dump_trace(info) for info in traces], render=lambda _: _render_list(traces, tree=tree))
    else:
        info = send_request(pb.ClientMessage(get_trace=pb.GetTraceMsg(run_id=require_utf8(run)))).trace
        width = terminal.row_width(sys.stdout)
        output.emit(plain_data.dump_trace(info), render=lambda _: "\n".join(trace_lines.render_trace(info, width)))


def _emit_prompt(run: str, step: int) -> None:
    message = pb.GetPromptMsg(run_id=require_utf8(run), step=step)
    info = send_request(pb.ClientMessage(get_prompt=message)).prompt
    body = info.body.decode()
    data = {
        "run_id": info.run_id,
        "step": info.step,
        "steps": info.steps,
        "provider": info.provider,
        "model": info.model,
        "body": body,
    }
    # Readable on a terminal; the exact bytes in a pipe.
    output.emit(data, render=lambda _: sanitize.clean(body) if terminal.terminal_width() else body)


def _render_list(traces: list[pb.TraceInfo], *, tree: bool) -> str:
    width = terminal.row_width(sys.stdout)
    if not traces:
        return "No turns."
    return "\n".join(render_rows(traces, width, tree=tree)) if width else render_table(traces, tree=tree)


def render_rows(traces: list[pb.TraceInfo], width: int, *, tree: bool) -> list[str]:
    """Turns as rows that fit the terminal, each with its message and its errors below."""
    shown = [(info, depth) for top in traces for info, depth in _walk_children(top, 0, tree=tree)]
    ids = run_lines.short_ids([info.run_id for info, _ in shown])
    cells = [_trace_cells(info, ids[info.run_id], depth) for info, depth in shown]
    headers = list(_HEADERS)
    widths = _measure(headers, cells)
    if _find_least_width(widths) > width:
        # The rows are in the order of time also without it.
        headers, *cells = [[*row[:_WHEN], *row[_WHEN + 1 :]] for row in (headers, *cells)]
        widths = _measure(headers, cells)
    if _find_least_width(widths) > width:
        # A cost has a currency.
        cells = [[*row[:-1], row[-1].removesuffix(_TOKENS)] for row in cells]
        widths = _measure(headers, cells)
    widths[0] = min(widths[0], max(_WHO, width - sum(widths[1:]) - 2 * (len(widths) - 1)))
    outcome = headers.index(_HEADERS[_OUTCOME])
    lines = [terminal.paint(_align(headers, widths, outcome=outcome), bold=True)]
    for row, (info, depth) in zip(cells, shown, strict=True):
        lines.append(_align(row, widths, _outcome_colour(info), outcome=outcome))
        under = "   " * (depth + 1)
        room = width - len(under)
        lines.append(terminal.paint(under + sanitize.fit(_render_request(info), room), dim=True))
        if _has_failed(info):
            lines.append(under + terminal.paint(sanitize.line(hint(info.error), room), fg="red"))
    return lines


def _measure(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(sanitize.columns, column)) for column in zip(headers, *cells, strict=True)]


def _find_least_width(widths: Sequence[int]) -> int:
    """The columns of a row with the shortest first cell."""
    return min(widths[0], _WHO) + sum(widths[1:]) + 2 * (len(widths) - 1)


def _trace_cells(info: pb.TraceInfo, run_id: str, depth: int) -> list[str]:
    began = datetime.fromtimestamp(info.started_at).astimezone().strftime("%d %b %H:%M") if info.started_at else ""
    return [
        ("   " * (depth - 1) + "└─ " if depth else "") + trace_lines.render_owner(info),
        sanitize.line(run_id),
        began,
        _render_outcome(info),
        run_lines.format_duration(info.seconds) if info.seconds >= 10 else f"{info.seconds:.1f}s",
        _render_usage(info),
    ]


def _align(row: Sequence[str], widths: Sequence[int], colour: str = "", *, outcome: int) -> str:
    """Align one row: numbers to the right, a colour for the outcome."""
    shown: list[str] = []
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        text = sanitize.fit(cell, width)
        room = " " * (width - sanitize.columns(text))
        text = terminal.paint(text, fg=colour) if colour and column == outcome else text
        shown.append(room + text if column > outcome else text + room)
    return "  ".join(shown).rstrip()


def _walk_children(info: pb.TraceInfo, depth: int, *, tree: bool) -> Iterator[tuple[pb.TraceInfo, int]]:
    yield info, depth
    for child in info.children if tree else ():
        yield from _walk_children(child, depth + 1, tree=tree)


def _render_request(info: pb.TraceInfo) -> str:
    team = _count_teammates(info)
    return (
        f"“{sanitize.line(info.request)}”"
        if not team
        else f"{numbers.format_plural(team, 'teammate')} · “{sanitize.line(info.request)}”"
    )


def _render_outcome(info: pb.TraceInfo) -> str:
    outcome = sanitize.line(trace_lines.render_state(info).replace("_", " "))
    return f"{outcome} ({sanitize.line(info.limit)})" if info.limit else outcome


def _outcome_colour(info: pb.TraceInfo) -> str:
    if not info.outcome:
        return "cyan"
    return _PLAIN.get(info.outcome, "red")


def _has_failed(info: pb.TraceInfo) -> bool:
    return bool(info.error) and bool(info.outcome) and info.outcome not in _PLAIN


def _render_usage(info: pb.TraceInfo) -> str:
    return (
        numbers.format_cost(info.tree_cost) if info.tree_cost else f"{numbers.format_count(info.tree_tokens)}{_TOKENS}"
    )


def render_table(traces: list[pb.TraceInfo], *, tree: bool) -> str:
    """A table with full ids, one row per run, for a pipe or a file."""
    headers = ["RUN", "AGENT", "WHEN", "OUTCOME", "SECONDS", "COST", "TEAM", "REQUEST", "ERROR"]
    found = [
        [
            # Without spaces in front, which a cell does not keep: the longer the line, the deeper the run.
            f"└{'─' * (3 * depth - 2)} {info.run_id}" if depth else info.run_id,
            info.agent,
            numbers.format_time(info.started_at),
            f"{info.outcome} ({info.limit})" if info.limit else trace_lines.render_state(info),
            f"{info.seconds:.1f}",
            _render_usage(info),
            str(_count_teammates(info)) if info.children else "-",
            info.request or "-",
            hint(info.error) if _has_failed(info) else "-",
        ]
        for top in traces
        for info, depth in _walk_children(top, 0, tree=tree)
    ]
    return terminal.render_table(headers, found)


def _count_teammates(info: pb.TraceInfo) -> int:
    return len(info.children) + sum(map(_count_teammates, info.children))
