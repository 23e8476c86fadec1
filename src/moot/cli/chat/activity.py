"""The current activity of teammates in a chat, one row each, kept up to date from the subscription.

other_turns.py passes it the events; controller.py shows its rows above the input. No I/O.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from moot.cli.chat import lines
from moot.cli.markdown.styles import Line
from moot.cli.render import calls, preparation, sanitize
from moot.wire import moot_pb2 as pb

_MOST_ROWS = 6
_TAIL_COLUMNS = 200
_FOR_PERSON = "waiting for you"
_FOR_TEAMMATES = "waiting for teammates"
_WAITING_FOR_PERSON = ("blocked_waiting_approval", "blocked_waiting_message")


class _Teammate(Struct, eq=False):
    agent: str
    parent_id: str
    action: str
    since: float
    # The current line of streamed text.
    text: str = ""
    calls: dict[str, pb.ToolCallInfo] = field(default_factory=dict)


class Activity:
    """The active teammates by run id, in the order in which they were spawned."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._teammates: dict[str, _Teammate] = {}
        # A list requested before a run's end may arrive after it.
        self._ended: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._teammates)

    def clear(self) -> None:
        """Remove all rows before the list of teammates is fetched again."""
        self._teammates = {}

    def load(self, runs: Iterable[pb.RunInfo]) -> None:
        """Add the teammates of a fetched list. Events that arrived during the request are newer than the list."""
        now = self._clock()
        for info in runs:
            if info.run_id not in self._ended and info.run_id not in self._teammates:
                teammate = _Teammate(info.agent, info.parent, _condition(info), now - info.idle_seconds)
                self._teammates[info.run_id] = teammate

    def read(self, event: pb.AgentEventMsg) -> None:
        """Process an event of a teammate."""
        if event.kind == pb.DONE:
            self._ended.add(event.run_id)
            self._teammates.pop(event.run_id, None)
            return
        known = self._teammates.get(event.run_id)
        if known is None:
            known = _Teammate(event.agent, event.parent_id, "starting", self._clock())
            self._teammates[event.run_id] = known
        action = _action(known, event)
        if action and action != known.action:
            known.action, known.since = action, self._clock()

    def rows(self, primary: str, columns: int) -> list[Line]:
        shown = list(self._teammates.values())[:_MOST_ROWS]
        rows = [self._row(each, primary, columns) for each in shown]
        more = len(self._teammates) - len(shown)
        return [*rows, [("class:dim", f"  ↳ {more} more teammates at work")]] if more else rows

    def _row(self, teammate: _Teammate, primary: str, columns: int) -> Line:
        elapsed = self._clock() - teammate.since
        seconds = f" {elapsed:.0f}s" if elapsed >= 1 else ""
        head = f"{'  ' * (self._depth(teammate) + 1)}↳ "
        name = f"{sanitize.name(teammate.agent)} "
        room = max(10, columns - sanitize.columns(head) - sanitize.columns(name) - len(seconds))
        return [
            ("class:dim", head),
            (lines.name_style(teammate.agent, primary), name),
            ("class:dim", sanitize.fit(teammate.text or teammate.action, room) + seconds),
        ]

    def _depth(self, teammate: _Teammate) -> int:
        parent = self._teammates.get(teammate.parent_id)
        return 1 + self._depth(parent) if parent is not None else 0


def _condition(info: pb.RunInfo) -> str:
    """The state of a listed teammate, worded as its events would be."""
    if info.condition in _WAITING_FOR_PERSON:
        return _FOR_PERSON
    return _FOR_TEAMMATES if info.waiting_on else info.last_action or info.status


def _action(teammate: _Teammate, event: pb.AgentEventMsg) -> str:
    """The activity that this event starts; empty if the event does not change it."""
    if event.kind == pb.TEXT_DELTA:
        text = teammate.text + sanitize.clean(event.content)
        teammate.text = text.rstrip("\n").rpartition("\n")[2][-_TAIL_COLUMNS:]
        return "writing"
    if event.kind in (pb.TEXT_END, pb.DISCARDED):
        teammate.text = ""
    elif event.kind == pb.TOOL_START:
        teammate.calls = {call.call_id: call for call in event.tool_calls}
    elif event.kind == pb.TOOL_RESULT:
        for call in event.tool_calls:
            teammate.calls.pop(call.call_id, None)
    return _CONDITIONS.get(event.kind, _no_action)(teammate, event)


def _no_action(_teammate: _Teammate, _event: pb.AgentEventMsg) -> str:
    return ""


def _thinking(_teammate: _Teammate, _event: pb.AgentEventMsg) -> str:
    return "thinking"


def _calling(teammate: _Teammate, _event: pb.AgentEventMsg) -> str:
    return " · ".join(calls.render_call(call, 0) for call in teammate.calls.values()) or "thinking"


def _describe_queued(_teammate: _Teammate, event: pb.AgentEventMsg) -> str:
    return f"queued, position {event.content}"


def _describe_spawned(_teammate: _Teammate, event: pb.AgentEventMsg) -> str:
    return f"starting: {sanitize.line(event.content)}"


def _describe_blocked(_teammate: _Teammate, event: pb.AgentEventMsg) -> str:
    return _FOR_TEAMMATES if event.body.blocked.waiting_on else _FOR_PERSON


def _retrying(_teammate: _Teammate, _event: pb.AgentEventMsg) -> str:
    return "waiting to try again"


def _preparing(_teammate: _Teammate, event: pb.AgentEventMsg) -> str:
    return preparation.render_preparing(event.body.preparing)


_CONDITIONS: dict[int, Callable[[_Teammate, pb.AgentEventMsg], str]] = {
    pb.SPAWNED: _describe_spawned,
    pb.QUEUED: _describe_queued,
    pb.STARTED: _thinking,
    pb.THINKING_START: _thinking,
    pb.TEXT_END: _thinking,
    pb.TOOL_START: _calling,
    pb.TOOL_RESULT: _calling,
    pb.TOOLS_COMPLETE: _thinking,
    pb.BLOCKED: _describe_blocked,
    pb.UNBLOCKED: _calling,
    pb.RETRYING: _retrying,
    pb.PREPARING: _preparing,
}
