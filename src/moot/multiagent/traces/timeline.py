"""Assembles the trace of a run from stored messages, runs, spawned runs, asks and trace notes. Pure.

The order is causal: it follows message numbers and the order of spawning, not timestamps, because clocks may jump.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from moot.domain.ask import AskState
from moot.domain.ledger import LedgerEntry
from moot.domain.message import Entry, Role
from moot.domain.run import Run, RunKind
from moot.domain.trace import RecordedRun, TraceEvent, TraceKind, TraceNote, encode_payload, is_failure
from moot.multiagent.traces.ask_changes import AskChange, list_changes
from moot.multiagent.traces.ledger import list_ledger

_TEXT = 512
_END = 1 << 62
_DECIDED = (AskState.GRANTED, AskState.DENIED)
_ONCE = (TraceKind.ROUTING, TraceKind.POLICY_DECISION)


class Timeline(Struct, frozen=True, kw_only=True):
    events: list[TraceEvent]
    # The number of earlier events.
    left_out: int
    # Empty for a turn.
    ledger: list[LedgerEntry]
    # The number of the event that each ledger entry follows, 0 if that is left out.
    ledger_after: list[int]


class _Moment(NamedTuple):
    """An event that follows the message given by `place`. Events with the same place keep the order of the list."""

    place: tuple[int, int]
    at: float
    kind: TraceKind
    agent: str
    # The payload of a note is already encoded text.
    payload: Mapping[str, object] | str
    truncated: bool = False
    run_id: str = ""
    # The index of the change of an ask, -1 for other events.
    change: int = -1


def timeline(recorded: RecordedRun, clean: Callable[[str], str], most: int) -> Timeline:
    """Return the last `most` events of a run in order, and its ledger, with secrets removed.

    Earlier events cost little, because only the returned ones are searched for secrets.
    """
    changes, notes = list_changes(recorded), [_note_moment(note, recorded) for note in _facts(recorded.notes)]
    moments = [
        *_list_returns(recorded),
        *(moment for moment in notes if moment.place[1] == 0),
        *_list_messages(recorded),
        *_list_end(recorded.run),
        *(_change_moment(number, change) for number, change in enumerate(changes)),
        *(moment for moment in notes if moment.place[1]),
    ]
    moments.sort(key=lambda moment: moment.place)
    left_out = max(0, len(moments) - most)
    shown = list(enumerate(moments[left_out:], start=left_out + 1))
    numbers = {moment.change: number for number, moment in shown}
    is_turn = recorded.run.kind is RunKind.TURN
    ledger = [] if is_turn else list_ledger(changes, clean)
    return Timeline(
        events=[_event(number, moment, clean) for number, moment in shown],
        left_out=left_out,
        ledger=ledger,
        ledger_after=[numbers.get(entry.change, 0) for entry in ledger],
    )


def _event(number: int, moment: _Moment, clean: Callable[[str], str]) -> TraceEvent:
    payload = moment.payload
    text, cut = (payload, False) if isinstance(payload, str) else encode_payload(payload, clean)
    return TraceEvent(
        seq=number,
        at=moment.at,
        kind=moment.kind,
        agent=moment.agent,
        payload=text,
        truncated=moment.truncated or cut,
        run_id=moment.run_id,
    )


def _change_moment(number: int, change: AskChange) -> _Moment:
    attempt = change.attempt
    payload: dict[str, object] = {
        "about": attempt.kind,
        "tool": attempt.tool,
        "state": change.state,
        "attempt": attempt.attempt,
        "ask": attempt.ask_id,
        "reason": attempt.reason,
        "call": attempt.line,
    }
    if change.state in _DECIDED and attempt.decided_by:
        payload["by"] = attempt.decided_by
    place = change.after_seq, 1
    return _Moment(place, change.at, TraceKind.POLICY_DECISION, attempt.speaker, payload, change=number)


def _note_moment(note: TraceNote, recorded: RecordedRun) -> _Moment:
    shown = _find_failure_shown(note, recorded)
    place = (shown, 0) if shown else (note.after_seq, 1)
    return _Moment(place, note.at, note.kind, note.agent, note.payload, note.truncated)


def _find_failure_shown(note: TraceNote, recorded: RecordedRun) -> int:
    """Return the number of the message that showed the failure which led to this note; 0 if none did.

    The note was written while the call waited, so it names the message before; it stands behind the teammate's return.
    """
    if note.kind is not TraceKind.RECOVERY_ATTEMPT or note.truncated:
        return 0
    what: dict[str, str] = msgspec.json.decode(note.payload)
    shown = [
        run.delivered_seq
        for run in recorded.delegated
        if run.end is not None
        and (run.agent, str(run.end.outcome)) == (what.get("specialist"), what.get("cause"))
        and run.delivered_by == recorded.run.id
        and run.delivered_seq > note.after_seq
    ]
    return min(shown, default=0)


def _list_messages(recorded: RecordedRun) -> Iterator[_Moment]:
    speaker = recorded.run.request.speaker
    by_call = {run.spawn.parent_call: run for run in recorded.delegated}
    names: dict[str, str] = {}
    for entry in recorded.entries:
        message = entry.message
        if message.role is Role.ASSISTANT:
            names |= {call.id: call.name for call in message.tool_calls}
            yield from _step(entry, speaker, by_call)
        elif message.role is Role.TOOL:
            tool = names.get(message.tool_call_id, "")
            yield _result(entry, speaker, tool)


def _list_returns(recorded: RecordedRun) -> Iterator[_Moment]:
    """Yield the ends of spawned runs, each before the message that showed its result, in the order of spawning.

    If that message is not known, the end is placed before the end of the run itself. After it follow the results that
    later messages delivered, in the order of these messages, then the results that were never delivered.
    """
    own = recorded.run.id
    ended = [run for run in recorded.delegated if run.end is not None]
    for run in sorted(ended, key=lambda run: run.delivered_seq):
        afterwards = 2 if run.delivered_seq else 3
        place = (run.delivered_seq or _END, 0) if run.delivered_by == own else (_END, afterwards)
        yield _Moment(place, run.ended_at, *_return_of(run, recorded.run.request.speaker))


def _facts(notes: Iterable[TraceNote]) -> Iterator[TraceNote]:
    """Yield the notes without duplicates: a run that is resumed after a restart repeats its routing and refusals."""
    known: set[tuple[TraceKind, str]] = set()
    for note in notes:
        fact = note.kind, note.payload
        if note.kind not in _ONCE or fact not in known:
            known.add(fact)
            yield note


def _step(entry: Entry, speaker: str, by_call: dict[str, Run]) -> Iterator[_Moment]:
    message, place, at = entry.message, (entry.seq, 0), entry.created_at
    if message.content.strip():
        text = message.content
        yield _Moment(place, at, TraceKind.TEXT, speaker, {"text": text[:_TEXT]}, len(text) > _TEXT)
    for call in message.tool_calls:
        payload: dict[str, object] = {"id": call.id, "tool": call.name, "arguments": call.arguments}
        yield _Moment(place, at, TraceKind.TOOL_CALL, speaker, payload)
        run = by_call.get(call.id)
        if run is not None:
            details: dict[str, object] = {
                "to": run.agent,
                "run_id": run.id,
                "reason": run.spawn.reason,
                "allowed_tools": run.spawn.allowed_tools,
                "instruction": run.instruction,
            }
            payload = {key: value for key, value in details.items() if value}
            yield _Moment(place, run.created_at, TraceKind.DELEGATION, speaker, payload, run_id=run.id)


def _result(entry: Entry, speaker: str, tool: str) -> _Moment:
    message = entry.message
    payload: dict[str, object] = {"id": message.tool_call_id, "tool": tool, "is_error": message.is_error}
    if message.duration_ms:
        payload["duration_ms"] = message.duration_ms
    payload["response"] = message.content
    return _Moment((entry.seq, 0), entry.created_at, TraceKind.TOOL_RESULT, speaker, payload)


def _return_of(run: Run, speaker: str) -> tuple[TraceKind, str, dict[str, object], bool, str]:
    assert run.end is not None
    payload: dict[str, object] = {
        "from": run.agent,
        "run_id": run.id,
        "outcome": run.end.outcome,
        "delivery": run.delivery,
        "seconds": round(max(0.0, run.ended_at - run.created_at), 3),
    }
    if run.end.error:
        payload["error"] = run.end.error
    return TraceKind.DELEGATION_RETURN, speaker, payload, False, run.id


def _list_end(run: Run) -> Iterator[_Moment]:
    end = run.end
    if end is None:
        return
    payload: dict[str, object] = {
        "outcome": end.outcome,
        "steps": end.steps,
        "tokens": end.usage.total,
        "cost": end.cost,
        # A withdrawn run has no start time.
        "elapsed_ms": round(1000 * max(0.0, run.ended_at - run.started_at)) if run.started_at else 0,
    }
    if end.limit:
        payload["limit"] = end.limit
    if end.error:
        payload["error"] = end.error
    kind = TraceKind.TERMINAL_ERROR if is_failure(end.outcome) else TraceKind.OUTCOME
    yield _Moment((_END, 1), run.ended_at, kind, run.request.speaker, payload)
