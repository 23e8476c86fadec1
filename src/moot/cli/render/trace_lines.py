"""Renders one trace: a line for each event with its time offset, teammates indented. Pure."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from moot.cli.program import hint
from moot.cli.render import numbers, sanitize, teammate_lines, terminal
from moot.domain.senders import OWNED_SENDERS, owner_of
from moot.wire import moot_pb2 as pb

_COLOURS = {"terminal_error": "red", "outcome": "green", "delegation": "cyan", "delegation_return": "cyan"}
_LEDGER = "ledger"
_KIND, _OFFSET = 17, 9
# On narrower terminals lines are not wrapped.
_NARROWEST = 24
_STEP = "    "
_WENT = {"waited": ", waited for", "sent": ", delivered in a message", "owed": ", not delivered yet"}


class _Entry(Struct, frozen=True):
    at: float
    kind: str
    # The event and its details.
    what: str
    more: tuple[str, ...] = ()
    run_id: str = ""


def render_trace(info: pb.TraceInfo, width: int) -> list[str]:
    """The trace with teammates indented below the call that spawned them, wrapped to the terminal."""
    return list(_TraceRenderer(width, info.started_at).run(info, ""))


class _TraceRenderer:
    def __init__(self, width: int, start: float) -> None:
        self._width = width
        self._start = start

    def run(self, info: pb.TraceInfo, indent: str) -> Iterator[str]:
        yield from (terminal.paint(line, bold=True) for line in self._wrap(indent, indent + "  ", render_head(info)))
        yield from self._wrap(f"{indent}  ", f"{indent}  ", f"“{sanitize.line(info.request)}”" if info.request else "")
        if info.left_out:
            yield f"{indent}  … the first {info.left_out} events are left out"
        below = {child.run_id: child for child in info.children}
        for happened in _merge_entries(info):
            yield from self._render_event(happened, indent)
            child = below.pop(happened.run_id, None) if happened.kind == "delegation" else None
            if child is not None:
                yield from self.run(child, indent + _STEP)
        for child in below.values():
            yield from self.run(child, indent + _STEP)

    def _render_event(self, happened: _Entry, indent: str) -> Iterator[str]:
        first = f"{indent}{self._format_offset(happened.at):>{_OFFSET}}  {happened.kind:{_KIND}} "
        hang = " " * len(first)
        colour = _COLOURS.get(happened.kind)
        for line in self._wrap(first, hang, happened.what) or [first.rstrip()]:
            yield line.replace(happened.kind, terminal.paint(happened.kind, fg=colour), 1) if colour else line
            # Only the first line shows the kind.
            colour = None
        for detail in happened.more:
            yield from (terminal.paint(line, dim=True) for line in self._wrap(hang, hang + "  ", detail))

    def _format_offset(self, at: float) -> str:
        """The time since the start of the trace."""
        if not at or not self._start:
            return ""
        seconds = at - self._start
        if abs(seconds) < 60:
            return f"{seconds:+.3f}s"
        minutes, left = divmod(int(abs(seconds)), 60)
        sign = "-" if seconds < 0 else "+"
        return f"{sign}{minutes}m{left:02}s" if minutes < 60 else f"{sign}{minutes // 60}h{minutes % 60:02}m"

    def _wrap(self, first: str, hang: str, text: str) -> list[str]:
        if not text:
            return []
        if self._width - len(hang) < _NARROWEST:
            return [first + text]
        rows = _wrap_rows(text, self._width - max(len(first), len(hang)))
        return [f"{hang if number else first}{row}" for number, row in enumerate(rows)]


def _wrap_rows(text: str, room: int) -> list[str]:
    """Wrap text at the given width; longer words are broken."""
    rows, row = [], ""
    for word in text.split(" "):
        if row and sanitize.columns(row) + 1 + sanitize.columns(word) <= room:
            row = f"{row} {word}"
            continue
        rows += [row] if row else []
        row = word
        while sanitize.columns(row) > room:
            begun = sanitize.fit(row, room + 1)[:-1]
            rows.append(begun)
            row = row[len(begun) :]
    return [*rows, row] if row else rows


def render_state(info: pb.TraceInfo) -> str:
    """The outcome of a run, or its current state."""
    return str(info.outcome) or ("running" if info.started_at else "queued")


def render_head(info: pb.TraceInfo) -> str:
    lines = [
        f"{info.run_id}  {render_owner(info)}",
        numbers.format_time(info.started_at),
        render_state(info),
        f"{info.seconds:.1f} s",
    ]
    lines += (
        [numbers.format_plural(info.steps, "step"), f"{numbers.format_count(info.tokens)} tokens"]
        if info.outcome
        else []
    )
    lines += [numbers.format_cost(info.cost)] if info.cost else []
    return sanitize.line(" · ".join(filter(None, lines)))


def render_owner(info: pb.TraceInfo) -> str:
    """The agent and whom it works for, as in the list of runs."""
    if info.parent:
        return sanitize.name(info.agent)
    beside = " &" if info.sender.startswith(OWNED_SENDERS) else ""
    guest = f" (guest of {info.key_agent})" if info.agent != info.key_agent else ""
    return sanitize.line(f"{info.agent}{guest} as {owner_of(info.sender)}{beside}")


def _merge_entries(info: pb.TraceInfo) -> list[_Entry]:
    """The events, each followed by the ledger entries that belong to it; entries of events left out come first."""
    by_event: dict[int, list[_Entry]] = defaultdict(list)
    for entry in info.ledger:
        by_event[entry.after_event].append(_ledger_entry(entry))
    merged = by_event[0]
    for event in info.events:
        merged += [_event_entry(event), *by_event[event.seq]]
    return merged


def _ledger_entry(entry: pb.LedgerEntryInfo) -> _Entry:
    payload = json.loads(entry.payload)
    reason = payload.pop("blocked_reason", "")
    what = sanitize.line(f"{entry.type}: {reason}" if reason else entry.type)
    return _Entry(entry.at, _LEDGER, what, tuple(map(sanitize.line, _render_facts(payload))))


def _event_entry(event: pb.TraceEventInfo) -> _Entry:
    payload: dict[str, Any] = json.loads(event.payload)
    what, more = _SAID.get(event.kind, _plain_payload)(payload)
    cut = " …" if event.truncated else ""
    return _Entry(
        event.at, event.kind, sanitize.exact_line(what) + cut, tuple(map(sanitize.exact_line, more)), event.run_id
    )


# ---- text and details of each kind of event -----------------------------------------------------

_Text = tuple[str, tuple[str, ...]]


def _text(payload: dict[str, Any]) -> _Text:
    return str(payload.get("text", "")), ()


def _tool_call(payload: dict[str, Any]) -> _Text:
    tool, written = str(payload.get("tool", "")), payload.get("arguments", "")
    try:
        given = json.loads(written) if isinstance(written, str) else written
    except ValueError:
        given = None
    return (tool, _render_facts(given)) if isinstance(given, dict) else (f"{tool} {written}", ())


def _tool_result(payload: dict[str, Any]) -> _Text:
    failed = "✗ " if payload.get("is_error") else ""
    came = str(payload.get("response", ""))
    took = f" ({numbers.format_milliseconds(payload['duration_ms'])})" if payload.get("duration_ms") else ""
    return (
        f"{payload.get('tool', '')}{took}: {failed}{teammate_lines.describe_teammates(came) or _space_json(came)}",
        (),
    )


def _space_json(text: str) -> str:
    """JSON with spaces after separators, so that it can be wrapped."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False) if text[:1] in ("{", "[") else text
    except ValueError:
        return text


def _delegation(payload: dict[str, Any]) -> _Text:
    text = f"{payload.pop('to', '')} ({payload.pop('run_id', '')})"
    reason = payload.pop("reason", "")
    return (f"{text}: {reason}" if reason else text), _render_facts(payload)


def _delegation_return(payload: dict[str, Any]) -> _Text:
    text = f"{payload.pop('from', '')} ({payload.pop('run_id', '')}): {payload.pop('outcome', '')}"
    went = _WENT.get(str(payload.pop("delivery", "")), "")
    return f"{text} after {float(payload.pop('seconds', 0)):.1f} s{went}", _render_facts(payload)


def _routing(payload: dict[str, Any]) -> _Text:
    to = payload.get("agent") or "a direct answer"
    steps = payload.get("steps") or ()
    return f"{to}: {payload.get('summary', '')}", tuple(map(str, steps if isinstance(steps, list) else ()))


def _policy_decision(payload: dict[str, Any]) -> _Text:
    text = f"{payload.pop('about', '')} of {payload.pop('tool', '')}: {payload.pop('state', '')}"
    reason = payload.pop("reason", "")
    return (f"{text}: {reason}" if reason else text), _render_facts(payload)


def _run_ended(payload: dict[str, Any]) -> _Text:
    text = str(payload.pop("outcome", "")) + (f" ({payload.pop('limit')})" if payload.get("limit") else "")
    error = hint(str(payload.pop("error", "")))
    seconds = float(payload.get("elapsed_ms", 0)) / 1000
    used = f"{numbers.format_plural(int(payload.get('steps', 0)), 'step')}, {payload.get('tokens', 0)} tokens"
    used += f", {numbers.format_cost(float(payload['cost']))}" if payload.get("cost") else ""
    return (f"{text}: {error}" if error else f"{text}: {used}, {seconds:.1f} s"), (
        (f"{used}, {seconds:.1f} s",) if error else ()
    )


def _plain_payload(payload: dict[str, Any]) -> _Text:
    return "".join(_render_facts(payload)), ()


def _render_facts(payload: dict[str, Any]) -> tuple[str, ...]:
    """The remaining fields on one line."""
    data = {key: value for key, value in payload.items() if value not in ("", None, [], {})}
    return (" · ".join(f"{key}: {_plain_value(value)}" for key, value in data.items()),) if data else ()


def _plain_value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_SAID = {
    "text": _text,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "delegation": _delegation,
    "delegation_return": _delegation_return,
    "routing": _routing,
    "policy_decision": _policy_decision,
    "outcome": _run_ended,
    "terminal_error": _run_ended,
}
