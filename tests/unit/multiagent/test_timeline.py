"""A trace is put together from what is stored anyway, in the order in which it happened, and holds no secret."""

import json
from typing import Any

from msgspec.structs import replace

from moot.domain.ask import AskAttempt, AskKind, AskState
from moot.domain.ledger import replay
from moot.domain.message import Entry, Message, Role, ToolCall, assistant, tool_result
from moot.domain.run import Delivery, Outcome, Run, RunEnd, RunRequest, RunStatus
from moot.domain.trace import PAYLOAD_LENGTH, RecordedRun, TraceEvent, TraceKind, TraceNote, encode_payload
from moot.multiagent.traces.recorder import Traces
from moot.multiagent.traces.timeline import timeline
from moot.redaction.redactor import Redactor
from tests.unit.shelves import ADA, SetClock, teammate_run


def run(end: RunEnd | None) -> Run:
    return Run(
        request=RunRequest(id="run-1", key=ADA, speaker="ada", content="go"),
        status=RunStatus.ENDED if end else RunStatus.RUNNING,
        created_at=1.0,
        started_at=2.0,
        ended_at=4.5 if end else 0.0,
        user_seq=1,
        end=end,
    )


def child(outcome: Outcome = Outcome.COMPLETED, *, call: str = "c1", run_id: str = "arun-1", shown_in: int = 0) -> Run:
    """A teammate that has ended; `shown_in` is the message of its parent that showed the result."""
    made = teammate_run(run_id, instruction="list the files", at=2.5, outcome=outcome, parent_call=call, reason="files")
    return replace(
        made,
        end=RunEnd(outcome=outcome, content="three"),
        delivery=Delivery.WAITED,
        delivered_by="run-1" if shown_in else "",
        delivered_seq=shown_in,
        ended_at=3.5,
    )


def entries(*messages: Message) -> list[Entry]:
    return [
        Entry(seq=seq, message=message, run_id="run-1", created_at=float(seq))
        for seq, message in enumerate(messages, start=2)
    ]


def calling(*calls: tuple[str, str]) -> Message:
    return Message(
        role=Role.ASSISTANT,
        content="",
        tool_calls=tuple(ToolCall(id=call, name=name, arguments="{}") for call, name in calls),
    )


def note(kind: TraceKind, after: int, **payload: Any) -> TraceNote:
    return TraceNote(run_id="run-1", at=9.0, kind=kind, agent="ada", payload=json.dumps(payload), after_seq=after)


def kinds(events: list[TraceEvent]) -> list[str]:
    return [event.kind.value for event in events]


def same(text: str) -> str:
    return text


def test_everything_a_turn_did_stands_in_its_order() -> None:
    done = json.dumps({"agent_id": "arun-1", "status": "completed", "result": "three"})
    recorded = RecordedRun(
        run=run(RunEnd(outcome=Outcome.COMPLETED, content="Three files.", steps=3, cost=0.5)),
        entries=entries(
            calling(("c1", "agent_spawn")),
            tool_result("c1", '{"agent_id": "arun-1"}'),
            calling(("c2", "agent_wait")),
            tool_result("c2", done),
            assistant("Three files."),
        ),
        notes=[
            note(TraceKind.ROUTING, 1, agent="operator", summary="keyword file"),
            note(TraceKind.BUDGET_WARNING, 3, share=0.8),
            note(TraceKind.RECOVERY_ATTEMPT, 5, action="nudge"),
        ],
        delegated=[child(shown_in=5)],
    )

    events = timeline(recorded, same, 100).events

    assert kinds(events) == [
        "routing",
        "tool_call",
        "delegation",
        "tool_result",
        "budget_warning",
        "tool_call",
        "delegation_return",
        "tool_result",
        "recovery_attempt",
        "text",
        "outcome",
    ]
    assert [event.seq for event in events] == list(range(1, 12))
    assert json.loads(events[2].payload) == {
        "to": "operator",
        "run_id": "arun-1",
        "reason": "files",
        "instruction": "list the files",
    }
    assert (events[2].run_id, events[6].run_id) == ("arun-1", "arun-1")
    assert json.loads(events[6].payload)["outcome"] == "completed"
    assert json.loads(events[-1].payload) == {
        "outcome": "completed",
        "steps": 3,
        "tokens": 0,
        "cost": 0.5,
        "elapsed_ms": 2500,
    }


def test_a_reroute_stands_behind_the_failure_that_led_to_it() -> None:
    recorded = RecordedRun(
        run=run(RunEnd(outcome=Outcome.COMPLETED, content="Three files.")),
        entries=entries(
            calling(("c1", "agent_spawn"), ("c2", "agent_spawn")),
            tool_result("c1", "{}"),
            tool_result("c2", "{}"),
            calling(("w1", "agent_wait"), ("w2", "agent_wait")),
            tool_result("w1", "{}"),
            tool_result("w2", "{}"),
        ),
        notes=[note(TraceKind.RECOVERY_ATTEMPT, 5, action="reroute", specialist="operator", cause="empty")],
        delegated=[child(Outcome.EMPTY, shown_in=6), child(call="c2", run_id="arun-2", shown_in=7)],
    )

    assert kinds(timeline(recorded, same, 100).events)[6:] == [
        "tool_call",
        "tool_call",
        "delegation_return",
        "recovery_attempt",
        "tool_result",
        "delegation_return",
        "tool_result",
        "outcome",
    ]


def test_a_turn_that_failed_ends_with_its_error_and_one_that_goes_on_with_nothing() -> None:
    failed = RunEnd(outcome=Outcome.LIMIT, limit="steps", error="It took too many steps.")
    (event,) = timeline(RecordedRun(run=run(failed)), same, 100).events
    assert event.kind is TraceKind.TERMINAL_ERROR
    told = json.loads(event.payload)
    assert (told["outcome"], told["limit"], told["error"]) == ("limit", "steps", "It took too many steps.")
    empty = timeline(RecordedRun(run=run(None)), same, 100)
    assert (empty.events, empty.left_out, empty.ledger) == ([], 0, [])


def test_a_result_shown_in_an_unknown_message_of_the_run_returns_before_its_end_and_once() -> None:
    recorded = RecordedRun(
        run=run(RunEnd(outcome=Outcome.COMPLETED)),
        entries=entries(calling(("c1", "agent_spawn")), tool_result("c1", '{"agent_id": "arun-1"}')),
        delegated=[replace(child(Outcome.LOOP_DETECTED), delivered_by="run-1")],
    )
    events = timeline(recorded, same, 100).events
    assert kinds(events) == ["tool_call", "delegation", "tool_result", "delegation_return", "outcome"]
    assert json.loads(events[3].payload)["outcome"] == "loop_detected"


def test_results_the_run_was_not_shown_come_after_its_end_as_they_were_delivered_whatever_the_clock_says() -> None:
    ends = {"arun-1": 20.0, "arun-2": 3.2, "arun-3": 9.0, "arun-4": 0.5}
    delivered = {"arun-1": 12, "arun-2": 0, "arun-3": 9, "arun-4": 12}
    recorded = RecordedRun(
        run=run(RunEnd(outcome=Outcome.COMPLETED)),
        entries=entries(
            calling(("c1", "agent_spawn")), tool_result("c1", '{"agent_id": "arun-1"}'), assistant("Begun.")
        ),
        delegated=[
            replace(child(run_id=run_id, call=""), ended_at=at, delivered_by="run-2", delivered_seq=delivered[run_id])
            for run_id, at in ends.items()
        ],
    )

    events = timeline(recorded, same, 100).events

    told = [(event.kind.value, event.run_id) for event in events[1:]]
    assert told == [
        ("tool_result", ""),
        ("text", ""),
        ("outcome", ""),
        ("delegation_return", "arun-3"),
        ("delegation_return", "arun-1"),
        ("delegation_return", "arun-4"),
        ("delegation_return", "arun-2"),
    ]


def test_results_of_one_message_stand_in_the_order_of_spawning_whatever_the_clock_says() -> None:
    ids = ("arun-1", "arun-2", "arun-3")
    done = json.dumps({"runs": [{"agent_id": run_id, "status": "completed"} for run_id in ids]})
    ends = dict(zip(ids, (3.9, 3.1, 0.5), strict=True))
    ended = [replace(child(run_id=run_id, shown_in=3), ended_at=at) for run_id, at in ends.items()]
    recorded = RecordedRun(
        run=run(None), entries=entries(calling(("c1", "agent_wait")), tool_result("c1", done)), delegated=ended
    )

    events = timeline(recorded, same, 100).events

    assert [(event.kind.value, event.run_id) for event in events[-4:]] == [
        *(("delegation_return", run_id) for run_id in ids),
        ("tool_result", ""),
    ]


def test_what_is_noted_again_after_a_restart_is_shown_once() -> None:
    route = note(TraceKind.ROUTING, 1, agent="operator", summary="keyword file")
    refused = note(TraceKind.POLICY_DECISION, 2, state="refused", tool="exec")
    retry = note(TraceKind.MODEL_RETRY, 2, attempt=1)
    recorded = RecordedRun(run=run(None), notes=[route, refused, retry, route, refused, retry])

    events = timeline(recorded, same, 100).events

    assert kinds(events) == ["routing", "policy_decision", "model_retry", "model_retry"]


def attempt(ask_id: str = "ask-1", **changes: Any) -> AskAttempt:
    made = AskAttempt(
        ask_id=ask_id,
        kind=AskKind.APPROVAL,
        speaker="ada",
        tool="exec",
        call_id="c1",
        line="$ ls",
        reason="it is dangerous",
        attempt=1,
        decided_attempts=0,
        state=AskState.PENDING,
        opened_at=3.0,
    )
    return replace(made, **changes)


def list_decisions(recorded: RecordedRun) -> list[tuple[str, int, str]]:
    events = timeline(recorded, same, 100).events
    payloads = [json.loads(event.payload) for event in events if event.kind is TraceKind.POLICY_DECISION]
    return [(payload["ask"], payload["attempt"], payload["state"]) for payload in payloads]


def test_decisions_stand_between_their_call_and_its_result_whatever_the_clock_says() -> None:
    first = attempt("ask-1", state=AskState.DENIED, opened_at=90.0, decided_at=1.0, closed_at=1.0)
    later = attempt("ask-2", call_id="c2", state=AskState.USED, opened_at=0.5, decided_at=0.6, closed_at=0.7)
    recorded = RecordedRun(
        run=run(RunEnd(outcome=Outcome.COMPLETED)),
        entries=entries(
            calling(("c1", "exec")), tool_result("c1", "no"), calling(("c2", "exec")), tool_result("c2", "x")
        ),
        attempts=[first, later],
    )

    found = timeline(recorded, same, 100)

    decided = ["tool_call", "policy_decision", "policy_decision", "tool_result"]
    assert kinds(found.events) == [*decided, *decided, "outcome"]
    assert list_decisions(recorded) == [
        ("ask-1", 1, "pending"),
        ("ask-1", 1, "denied"),
        ("ask-2", 1, "pending"),
        ("ask-2", 1, "granted"),
    ]
    assert found.ledger == []


def test_every_attempt_is_shown_and_who_decided() -> None:
    attempts = [
        attempt(state=AskState.EXPIRED, closed_at=4.0),
        attempt(attempt=2, state=AskState.CANCELLED, opened_at=5.0, decided_at=6.0, decided_by="owner", closed_at=7.0),
    ]
    recorded = RecordedRun(run=run(None), entries=entries(calling(("c1", "exec"))), attempts=attempts)

    assert list_decisions(recorded) == [
        ("ask-1", 1, "pending"),
        ("ask-1", 1, "expired"),
        ("ask-1", 2, "pending"),
        ("ask-1", 2, "granted"),
        ("ask-1", 2, "cancelled"),
    ]
    payloads = [json.loads(event.payload) for event in timeline(recorded, same, 100).events[1:]]
    assert [payload.get("by", "") for payload in payloads] == ["", "", "", "owner", ""]


def test_the_ledger_of_a_teammate_follows_the_newest_of_its_pending_asks() -> None:
    attempts = [
        attempt("grant-1", kind=AskKind.GRANT, state=AskState.USED, opened_at=3.0, decided_at=6.0, closed_at=6.0),
        attempt("ask-2", call_id="c2", state=AskState.EXPIRED, opened_at=4.0, closed_at=5.0),
        attempt("ask-2", call_id="c2", attempt=2, opened_at=7.0),
    ]
    calls = calling(("c1", "exec"), ("c2", "exec"))
    recorded = RecordedRun(run=replace(child(), end=None), entries=entries(calls), attempts=attempts)

    found = timeline(recorded, same, 100)

    kinds_and_ids = [
        (entry.seq, entry.type.value, entry.payload.get("grant_request_id"), entry.payload.get("grant_attempt"))
        for entry in found.ledger
    ]
    assert kinds_and_ids == [
        (1, "teammate_approval_blocked", "grant-1", 1),
        (2, "teammate_approval_blocked", "ask-2", 1),
        (3, "teammate_approval_blocked", "grant-1", 1),
        (4, "teammate_approval_unblocked", None, None),
        (5, "teammate_approval_blocked", "ask-2", 2),
    ]
    assert found.ledger[3].payload == {"previous_grant_request_id": "grant-1"}
    # Each entry names the event it follows.
    assert found.ledger_after == [3, 4, 5, 6, 7]
    assert replay(found.ledger).request_id == "ask-2"
    assert timeline(recorded, same, 1).ledger_after == [0, 0, 0, 0, 7]


def test_of_too_many_events_the_last_are_told_under_their_own_numbers() -> None:
    recorded = RecordedRun(
        run=run(RunEnd(outcome=Outcome.COMPLETED)), entries=entries(*(assistant(f"word {n}") for n in range(9)))
    )
    found = timeline(recorded, same, 3)
    assert ([event.seq for event in found.events], found.left_out) == ([8, 9, 10], 7)
    assert kinds(found.events) == ["text", "text", "outcome"]
    nothing = timeline(recorded, same, 0)
    assert (nothing.events, nothing.left_out) == ([], 10)


def test_secrets_and_personal_data_are_in_no_event() -> None:
    redactor = Redactor()
    redactor.register("api", "s3cr3t-of-the-house")
    recorded = RecordedRun(
        run=replace(child(), end=RunEnd(outcome=Outcome.MODEL_ERROR, error="refused s3cr3t-of-the-house")),
        entries=entries(assistant("Write to ada@example.org."), tool_result("c9", "s3cr3t-of-the-house")),
        attempts=[attempt(reason="it writes to ada@example.org", line="mail s3cr3t-of-the-house")],
    )
    found = timeline(recorded, redactor.for_log, 100)
    shown = "".join(event.payload for event in found.events) + repr([entry.payload for entry in found.ledger])
    assert "s3cr3t" not in shown
    assert "example.org" not in shown
    assert "[SECRET:api]" in shown
    assert len(found.ledger) == 1


def test_a_payload_is_cut_to_its_length_and_stays_json() -> None:
    for payload in (
        {"response": '"' * 60_000},
        {"many": [f"reason {number}" for number in range(500)]},
        {"a": "x" * 700, "b": "y" * 700},
    ):
        text, truncated = encode_payload(payload, same)
        assert truncated
        assert len(text) <= PAYLOAD_LENGTH
        assert isinstance(json.loads(text), dict)
    assert encode_payload({"a": 1, "b": None, "c": Outcome.EMPTY}, same) == ('{"a": 1, "b": null, "c": "empty"}', False)


def test_a_secret_is_taken_out_before_anything_is_cut() -> None:
    redactor = Redactor()
    redactor.register("api", "s3cr3t-of-the-house")
    text, _ = encode_payload({"response": "x" * 890 + "s3cr3t-of-the-house" * 9}, redactor.for_log)
    assert "s3cr" not in text


def test_a_note_is_redacted_where_it_is_written() -> None:
    kept: list[TraceNote] = []

    class Shelf:
        def add(self, note: TraceNote) -> None:
            kept.append(note)

    redactor = Redactor()
    redactor.register("api", "s3cr3t-of-the-house")
    traces = Traces(store=Shelf(), redact=redactor.for_log, clock=SetClock(7.0))
    traces.note("run-1", TraceKind.MODEL_RETRY, "ada", reason="key s3cr3t-of-the-house", attempt=2)
    (written,) = kept
    assert json.loads(written.payload) == {"reason": "key [SECRET:api]", "attempt": 2}
    assert (written.run_id, written.at, written.agent, written.truncated) == ("run-1", 7.0, "ada", False)
