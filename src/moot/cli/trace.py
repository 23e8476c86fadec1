"""moot trace: the newest turns, or everything that happened in one of them, teammates included."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from moot.cli import output, safe, shapes
from moot.cli.connect import ask_daemon, utf8
from moot.cli.memory import when
from moot.wire import moot_pb2 as pb

_LIST = "list"
_QUIET = ("completed", "escalated", "cancelled")
_COLOURS = {"terminal_error": "red", "outcome": "green", "delegation": "cyan", "delegation_return": "cyan"}


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
        output.emit([shapes.trace(info) for info in traces], render=lambda _: _table(traces, tree=tree))
    else:
        info = ask_daemon(pb.ClientMessage(get_trace=pb.GetTraceMsg(run_id=utf8(run)))).trace
        output.emit(shapes.trace(info), render=lambda _: "\n".join(_shown(info, "")))


def _table(traces: list[pb.TraceInfo], *, tree: bool) -> str:
    rows = [row for info in traces for row in _rows(info, 0, tree=tree)]
    table = output.table(["RUN", "AGENT", "WHEN", "OUTCOME", "SECONDS", "COST", "TEAM", "REQUEST"], rows)
    return table or "There are no turns yet, or none that failed."


def _rows(info: pb.TraceInfo, depth: int, *, tree: bool) -> Iterator[list[str]]:
    outcome = info.outcome or "running"
    yield [
        f"{'└─' * depth} {info.run_id}".strip(),
        info.agent,
        when(info.started_at),
        f"{outcome} ({info.limit})" if info.limit else outcome,
        f"{info.seconds:.1f}",
        f"${info.tree_cost:.4f}" if info.tree_cost else f"{info.tree_tokens} tokens",
        str(_team(info)) if info.children else "",
        info.error if outcome not in (*_QUIET, "running") and info.error else info.request,
    ]
    for child in info.children if tree else ():
        yield from _rows(child, depth + 1, tree=tree)


def _team(info: pb.TraceInfo) -> int:
    return len(info.children) + sum(map(_team, info.children))


def _shown(info: pb.TraceInfo, indent: str) -> Iterator[str]:
    """A trace line by line; those set to work stand where that happened."""
    yield indent + output.paint(_head(info), bold=True)
    if info.left_out:
        yield f"{indent}  … the first {info.left_out} events are left out"
    below = {child.run_id: child for child in info.children}
    for event in info.events:
        yield f"{indent}  {_event(event)}"
        child = below.pop(event.run_id, None) if event.kind == "delegation" else None
        if child is not None:
            yield from _shown(child, indent + "    ")
    for child in below.values():
        yield from _shown(child, indent + "    ")
    for entry in info.ledger:
        yield f"{indent}  {_clock(entry.at)}  {'ledger':17} {safe.line(f'{entry.type} {entry.payload}')}"


def _head(info: pb.TraceInfo) -> str:
    who = f"{info.agent} with {info.sender}" if info.agent == info.key_agent else f"{info.agent} as a guest"
    told = [f"{info.run_id}  {who}", when(info.started_at), info.outcome or "running", f"{info.seconds:.1f} s"]
    told += [f"{info.steps} steps", f"{info.tokens} tokens"] if info.outcome else []
    told += [f"${info.cost:.4f}"] if info.cost else []
    return safe.line(" · ".join(told))


def _event(event: pb.TraceEventInfo) -> str:
    kind = f"{event.kind:17}"
    colour = _COLOURS.get(event.kind)
    cut = " …" if event.truncated else ""
    return f"{_clock(event.at)}  {output.paint(kind, fg=colour) if colour else kind} {_said(event)}{cut}"


def _said(event: pb.TraceEventInfo) -> str:
    payload: dict[str, Any] = json.loads(event.payload)
    match event.kind:
        case "text":
            said = str(payload.get("text", ""))
        case "tool_call":
            said = f"{payload.get('tool', '')} {payload.get('arguments', '')}"
        case "tool_result":
            failed = "failed: " if payload.get("is_error") else ""
            said = f"{payload.get('tool', '')}: {failed}{payload.get('response', '')}"
        case _:
            said = " ".join(f"{key}={_plain(value)}" for key, value in payload.items() if value not in ("", None, []))
    return safe.line(said)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3] if at else " " * 12
