"""Renders runs as a table or a tree for the width of the terminal. Pure."""

from collections.abc import Mapping, Sequence

from moot.cli.program import hint
from moot.cli.render import colours, numbers, sanitize, terminal
from moot.domain.ids import shorten_ask_id
from moot.domain.senders import owner_of
from moot.wire import moot_pb2 as pb

# The usual length of an abbreviated id; any unique prefix is accepted.
_SHORT = 13
_PLAIN = {"completed": ("completed", "green"), "cancelled": ("cancelled", "yellow")}
_CONDITIONS = {
    "queued": ("in line", "bright_black"),
    "blocked_waiting_approval": ("needs you", "yellow"),
    "blocked_waiting_message": ("asks you", "yellow"),
    "resuming": ("resuming", "cyan"),
}
_WENT = {
    "owed": "not delivered yet",
    "waited": "fetched by its parent",
    "sent": "sent to its parent",
}


def render_outcome(outcome: str, error: str) -> str:
    """How a turn that did not complete ended, in words: `model error: …`."""
    words = outcome.replace("_", " ")
    if error.lower().startswith(f"{words}:"):
        error = error[len(words) + 1 :].lstrip()
    return f"{words}: {hint(error)}" if error else words


def describe_state(info: pb.RunInfo) -> tuple[str, str]:
    """The state of a run in a few words, and a colour for it; with its daemon if that is another one."""
    state, colour = _describe_state(info)
    state += f" on node {info.node}" if info.node else ""
    return (f"{state}, {info.unread} unread", colour) if info.unread else (state, colour)


def _describe_state(info: pb.RunInfo) -> tuple[str, str]:
    if info.outcome:
        limit = f" ({info.limit})" if info.limit else ""
        state, colour = _PLAIN.get(info.outcome, (info.outcome.replace("_", " "), "red"))
        return state + limit, colour
    if info.condition == "waiting_on_teammate":
        # Only the run that asks is shown as waiting for a person; its parents wait for it.
        return f"waits for {len(info.waiting_on)}", "yellow" if info.needs_person else "cyan"
    if info.condition == "queued" and info.position:
        return f"queued ({info.position})", "bright_black"
    return _CONDITIONS.get(info.condition, ("working", "green"))


def describe_wait(info: pb.RunInfo) -> str:
    """What a run waits for, with the command that resolves it if a person must act."""
    if info.ask_id:
        return f"{info.reason} ({_render_answer(info)})"
    if info.waiting_on:
        return f"runs {', '.join(info.waiting_on)}"
    if info.condition == "queued":
        return "earlier runs of its conversation" if info.position else "a free slot (concurrency limit reached)"
    return ""


def describe_delivery(info: pb.RunInfo) -> str:
    """Where the result of an ended run went; empty for runs that were not spawned."""
    return _WENT.get(info.delivery, "") if info.outcome and info.kind == "teammate" else ""


def format_duration(seconds: float) -> str:
    """A compact duration: 8s, 2m05s, 3h10m, 2d04h."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def render_summary(infos: Sequence[pb.RunInfo]) -> str:
    """The number of runs of each kind, those that need a person first."""
    live = [info for info in infos if not info.outcome]
    asking = sum(bool(info.ask_id) for info in live)
    waiting = sum(info.condition == "waiting_on_teammate" for info in live)
    line = sum(info.condition == "queued" for info in live)
    ended = len(infos) - len(live)
    counted = [
        (asking, "need you" if asking != 1 else "needs you", "yellow"),
        (waiting, "waiting", "cyan"),
        (len(live) - asking - waiting - line, "working", "green"),
        (line, "in line", "bright_black"),
        (ended, "ended", "bright_black"),
    ]
    return " · ".join(terminal.paint(f"{count} {what}", fg=colour) for count, what, colour in counted if count)


def render_table(infos: Sequence[pb.RunInfo], beside: Sequence[Sequence[str]] = ()) -> str:
    """One row per run with full ids, for a pipe or a file; `beside` are additional rows."""
    headers = ["RUN", "PARENT", "AGENT", "STATE", "LAST", "SINCE", "TIME", "STEPS", "TOKENS", "COST", "WAITS FOR"]
    rows = [
        [
            info.run_id,
            info.parent or "-",
            info.agent,
            describe_state(info)[0],
            info.last_action or "-",
            format_duration(info.idle_seconds) if not info.outcome else "-",
            format_duration(info.seconds),
            str(info.steps),
            str(info.tokens),
            numbers.format_cost(info.cost),
            describe_wait(info) or describe_delivery(info) or "-",
        ]
        for info in infos
    ]
    return terminal.render_table(headers, [*rows, *beside])


# Of the columns time, steps, tokens and cost.
_CELL_WIDTHS = (7, 6, 7, 9)
# The columns that the name of an agent has at least.
_LEAST_OWNER = 12


class RunTree:
    """Renders runs as a tree for a terminal of the given width: one row each, with dim details below."""

    def __init__(self, infos: Sequence[pb.RunInfo], width: int, *, nested: bool) -> None:
        self._infos = infos
        self._width = max(40, width)
        self._ids = short_ids([info.run_id for info in infos])
        self._below: dict[str, list[pb.RunInfo]] = {}
        known = {info.run_id for info in infos}
        for info in infos:
            self._below.setdefault(info.parent if nested and info.parent in known else "", []).append(info)
        # Each level of the tree takes three columns.
        self._widest = max((sanitize.columns(render_owner(info)) + 3 * len(info.chain) for info in infos), default=0)

    def rows(self) -> list[str]:
        if not self._infos:
            return []
        rows = [terminal.paint(self._columns("WHO", "RUN", "STATE", ("TIME", "STEPS", "TOKENS", "COST")), bold=True)]
        for info in self._below.get("", []):
            rows += self._draw(info, "", "")
        return rows

    def _draw(self, info: pb.RunInfo, lead: str, under: str) -> list[str]:
        """Render a run prefixed by `lead`, and its details and children prefixed by `under`."""
        below = self._below.get(info.run_id, [])
        rows = [self._render_row(info, lead)]
        rows += self._render_notes(info, f"{under}{'│' if below else ' '} ")
        for number, child in enumerate(below):
            last = number == len(below) - 1
            rows += self._draw(child, f"{under}{'└' if last else '├'}─ ", f"{under}{'   ' if last else '│  '}")
        return rows

    def _render_row(self, info: pb.RunInfo, lead: str) -> str:
        state, colour = describe_state(info)
        cells = (
            format_duration(info.seconds),
            str(info.steps),
            numbers.format_count(info.tokens),
            numbers.format_cost(info.cost),
        )
        return self._columns(
            f"{lead}{render_owner(info)}", self._ids[info.run_id], state, cells, colour=colour, name=(lead, info.agent)
        )

    def _columns(
        self,
        first: str,
        run_id: str,
        state: str,
        cells: Sequence[str],
        *,
        colour: str = "",
        name: tuple[str, str] = ("", ""),
    ) -> str:
        id_width = max(map(len, self._ids.values()))
        state_width = max(8, *(len(describe_state(info)[0]) for info in self._infos))
        free = self._width - id_width - state_width - 4
        right = _render_cells(cells, free - min(_LEAST_OWNER, self._widest))
        room = max(_LEAST_OWNER, free - len(right))
        shown = _pad(_cut_line(first, room), min(room, self._widest))
        if name[1]:
            shown = shown.replace(name[1], terminal.paint(name[1], fg=colours.name_colour(name[1]), bold=True), 1)
        state = _pad(sanitize.line(state), state_width)
        return f"{shown}  {_pad(run_id, id_width)}  {terminal.paint(state, fg=colour) if colour else state}{right}"

    def _render_notes(self, info: pb.RunInfo, under: str) -> list[str]:
        room = self._width - sanitize.columns(under) - 1
        rows = (
            [terminal.paint(f"{under} {sanitize.exact_line(_render_note(info), room)}", dim=True)]
            if _render_note(info)
            else []
        )
        if info.ask_id:
            rows.append(f"{under} {terminal.paint(sanitize.line(_render_answer(info), room), fg='yellow')}")
        return rows


def _render_cells(cells: Sequence[str], room: int) -> str:
    """The numbers of a row. In a narrow window steps, then tokens, then the cost are left out."""
    shown = dict(enumerate(cells))
    for spare in (1, 2, 3):
        if sum(_CELL_WIDTHS[number] for number in shown) > room:
            del shown[spare]
    return "".join(f"{cell:>{_CELL_WIDTHS[number]}}" for number, cell in shown.items())


def render_owner(info: pb.RunInfo) -> str:
    """The agent, and for turns and background runs also whom it works for."""
    if info.kind == "teammate":
        return info.agent
    if info.kind == "background":
        return f"{info.agent} as {owner_of(info.sender)} &"
    return f"{info.agent} as {info.sender}"


def short_ids(run_ids: Sequence[str]) -> Mapping[str, str]:
    """The shortest distinguishing prefixes of the ids."""
    length = _SHORT
    while len({run_id[:length] for run_id in run_ids}) < len(set(run_ids)):
        length += 1
    return {run_id: run_id[:length] for run_id in run_ids}


def _render_note(info: pb.RunInfo) -> str:
    """The last action or the result, and the task."""
    parts: list[str] = []
    if info.outcome:
        parts += [hint(info.error), f"result {describe_delivery(info)}" if describe_delivery(info) else ""]
    elif info.last_action:
        parts.append(f"{info.last_action}, {format_duration(info.idle_seconds)} ago")
    if info.waiting_on and not info.outcome:
        parts.append(f"waits for {', '.join(run_id[:_SHORT] for run_id in info.waiting_on)}")
    parts.append(info.spawn_reason or f"“{sanitize.cut_at_word(info.instruction, 60)}”")
    return " · ".join(part for part in parts if part)


def _render_answer(info: pb.RunInfo) -> str:
    how = "approve" if info.condition == "blocked_waiting_approval" else "reply"
    return hint(f"moot inbox {how} {shorten_ask_id(info.ask_id)}")


def _cut_line(text: str, width: int) -> str:
    """Cut to one line, keeping the indentation of the tree."""
    return sanitize.fit(sanitize.clean(text).replace("\n", " "), width)


def _pad(text: str, width: int) -> str:
    text = sanitize.fit(text, width)
    return text + " " * (width - sanitize.columns(text))
