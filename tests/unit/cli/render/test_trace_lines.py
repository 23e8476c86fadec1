"""A trace on a terminal: it fits, says each event in words, and breaks lines between words."""

import json
from typing import Any

import pytest

from moot.cli.commands import trace
from moot.cli.render import sanitize, trace_lines
from moot.wire import moot_pb2 as pb

START = 1000.0


def event(at: float, kind: str, run_id: str = "", /, **payload: Any) -> pb.TraceEventInfo:
    return pb.TraceEventInfo(at=START + at, kind=kind, agent="moot", payload=json.dumps(payload), run_id=run_id)


def child() -> pb.TraceInfo:
    info = pb.TraceInfo(
        run_id="arun-deedda0912345678",
        agent="operator",
        key_agent="operator",
        sender="run:arun-deedda0912345678",
        parent="run-01m7g120s5dj3mksdwx1",
        request="write the plan of the trip down into a file " * 3,
        started_at=START + 1,
        seconds=75.0,
        outcome="loop_detected",
        error="The same tool calls came 5 times in a row; the run was stopped before it could do any harm.",
        steps=1,
        tokens=900,
        events=[
            event(1.5, "tool_call", tool="fs_write", arguments='{"path": "plan.txt", "content": "one\\ntwo"}'),
            event(70.0, "tool_result", tool="fs_write", is_error=True, response="No space is left."),
            event(76.0, "terminal_error", outcome="loop_detected", error="Too often.", steps=1, tokens=900),
        ],
        ledger=[
            pb.LedgerEntryInfo(
                seq=1,
                at=START + 2,
                type="teammate_approval_blocked",
                payload='{"blocked_reason": "it asks"}',
                after_event=1,
            ),
            pb.LedgerEntryInfo(seq=2, at=START + 77, type="teammate_approval_unblocked", payload="{}", after_event=2),
        ],
    )
    for number, each in enumerate(info.events, start=1):
        each.seq = number
    return info


def turn() -> pb.TraceInfo:
    spawned = json.dumps({"agent_id": "arun-deedda0912345678", "status": "spawned", "requested_agent": "operator"})
    return pb.TraceInfo(
        run_id="run-01m7g120s5dj3mksdwx1",
        agent="moot",
        key_agent="moot",
        sender="user",
        request="plan a trip to Rome for three people who have never been there before, by train, in spring",
        started_at=START,
        seconds=3700.0,
        outcome="completed",
        steps=3,
        tokens=4683,
        tree_tokens=5605,
        events=[
            event(0.0, "routing", agent="operator", summary="keyword file", steps=["CLASSIFY: work", "MATCH: file"]),
            event(0.5, "delegation", "arun-deedda0912345678", to="operator", run_id="arun-deedda0912345678"),
            event(0.6, "tool_result", tool="agent_spawn", response=spawned),
            event(0.7, "text", text="There is much to see in Rome, which was not built in a day. " * 4),
            event(3700.0, "outcome", outcome="completed", steps=3, tokens=4683, elapsed_ms=3_700_000),
        ],
        children=[child()],
    )


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_of_a_trace_is_wider_than_the_terminal_and_none_breaks_in_a_word(width: int) -> None:
    shown = trace_lines.render_trace(turn(), width)

    assert all(sanitize.columns(line) <= width for line in shown)
    whole = " ".join(" ".join(trace_lines.render_trace(turn(), 0)).split())
    assert " ".join(" ".join(shown).split()) == whole


def test_each_event_stands_on_a_line_with_the_time_since_the_trace_began() -> None:
    shown = trace_lines.render_trace(turn(), 0)

    assert shown[0].startswith("run-01m7g120s5dj3mksdwx1 moot as user · ")
    assert "3 steps · 4.7k tokens" in shown[0]
    assert "  +0.000s  routing           operator: keyword file" in shown
    assert " " * 29 + "CLASSIFY: work" in shown
    assert "  +0.600s  tool_result       agent_spawn: operator (arun-deedda09) started" in shown
    assert "   +1h01m  outcome           completed: 3 steps, 4683 tokens, 3700.0 s" in shown
    below = [line for line in shown if line.startswith("    ") and "arun-deedda0912345678 operator ·" in line]
    assert below[0].endswith("1 step · 900 tokens")
    assert "      +1.500s  tool_call         fs_write" in shown
    assert " " * 33 + "path: plan.txt · content: one ⏎ two" in shown
    assert "       +1m10s  tool_result       fs_write: ✗ No space is left." in shown


def test_the_ledger_stands_behind_the_events_it_follows() -> None:
    kinds = [line.split()[1] for line in trace_lines.render_trace(child(), 0) if line.lstrip().startswith(("+", "-"))]

    assert kinds == ["tool_call", "ledger", "tool_result", "ledger", "terminal_error"]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_list_fits_and_says_what_was_asked_and_what_went_wrong_apart(width: int) -> None:
    shown = trace.render_rows([turn()], width, tree=True)

    assert all(sanitize.columns(line) <= width for line in shown)
    head, first, asked, mate, task, error = shown
    assert head.split() == ["WHO", "RUN", "WHEN", "OUTCOME", "TIME", "SPENT"]
    assert first.startswith("moot as user  run-01m7g120s  ")
    assert asked.startswith("   1 teammate · “plan a trip to Rome")
    assert mate.startswith("└─ operator   arun-deedda09  ")
    assert "loop detected" in mate
    assert task.startswith("      “write the plan")
    assert error.startswith("      The same tool calls came 5 times")


def test_in_a_pipe_a_longer_line_stands_before_a_deeper_run() -> None:
    top, mid = turn(), pb.TraceInfo(run_id="arun-mid", agent="operator")
    mid.children.add(run_id="arun-leaf", agent="librarian")
    top.children.append(mid)

    rows = trace.render_table([top], tree=True).splitlines()[1:]

    assert [row.split("arun-")[0] for row in rows[1:]] == ["└─ ", "└─ ", "└──── "]


def test_nothing_raw_of_a_trace_reaches_the_terminal() -> None:
    hostile = pb.TraceInfo(
        run_id="run-1",
        agent="a\x1b[2J",
        key_agent="a\x1b[2J",
        sender="user",
        request="\x1b]0;x\x07",
        outcome="limit",
        limit="\x1b[1m",
        error="\x1b[3m",
        events=[event(0, "text", text="\x1b[2J"), event(0, "odd", **{"\x1b[2J": "\x9b2J"})],
    )
    for line in [*trace_lines.render_trace(hostile, 80), *trace.render_rows([hostile], 80, tree=True)]:
        assert sanitize.clean(line) == line
