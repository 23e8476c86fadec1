"""What came of teammates is told in words; any other result is left as it is."""

import json

import pytest

from moot.cli.chat import lines
from moot.cli.commands.memory import render_transcript
from moot.cli.render import teammate_lines
from moot.domain.task_notification import TASK_AUTHOR, TaskNotification, TaskStatus, render_notifications
from moot.wire import moot_pb2 as pb

RUN = "arun-deedda0912345678"
SPAWNED = {"agent_id": RUN, "status": "spawned", "requested_agent": "operator", "spawn_reason": "it has hands"}
DONE = {"agent_id": RUN, "agent": "operator", "status": "completed", "outcome": "completed", "result": "Three files."}
FAILED = {"agent_id": RUN, "agent": "operator", "status": "failed", "outcome": "loop_detected", "error": "Circles."}
BLOCKED = {
    "agent_id": RUN,
    "agent": "operator",
    "status": "running",
    "condition": "blocked_waiting_approval",
    "blocked_reason": "fs_write waits for approval: it is dangerous",
    "timeout": True,
}


def test_the_end_of_a_worker_is_told_on_one_line() -> None:
    end = TaskNotification(task_id=RUN, status=TaskStatus.FAILED, summary="timeout: \x1b[31mlate", result="")
    entry = pb.HistoryMessage(role="user", content=render_notifications([end]), agent=TASK_AUTHOR)
    shown = lines.render_history([entry], "boss")

    told = "worker arun-deedda09 failed: timeout: "
    assert teammate_lines.describe_teammates(render_notifications([end, end])).count(told) == 2
    assert [piece for line in shown for _, piece in line] == [f"⚑ {told}⟨U+001B⟩[31mlate"]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (SPAWNED, "operator (arun-deedda09) started: it has hands"),
        (DONE, "operator (arun-deedda09) completed: Three files."),
        (FAILED, "operator (arun-deedda09) loop detected: Circles."),
        (BLOCKED, "operator (arun-deedda09) is still working: fs_write waits for approval: it is dangerous"),
        ({"agent_id": RUN, "status": "cancelled"}, "arun-deedda09 cancelled"),
        (
            {"runs": [DONE, FAILED]},
            "operator (arun-deedda09) completed: Three files. · operator (arun-deedda09) loop detected: Circles.",
        ),
    ],
)
def test_a_result_that_tells_of_teammates_says_who_and_what_came_of_it(told: dict[str, object], said: str) -> None:
    assert teammate_lines.render_result(json.dumps(told)) == said


@pytest.mark.parametrize(
    "output",
    ["plain words", '{"status": "completed"}', '{"runs": []}', '{"runs": 3}', "[1]", "{broken", '{"agent_id": 1}'],
)
def test_any_other_result_is_left_as_it_is(output: str) -> None:
    assert teammate_lines.describe_teammates(output) == ""
    assert teammate_lines.render_result(output) == output


def test_the_chat_its_past_and_the_logs_tell_it_in_the_same_words() -> None:
    call = pb.ToolCallInfo(name="agent_wait", line="wait")
    live = lines.render_tool_call(call, pb.ToolResultEvent(name="agent_wait", output=json.dumps(DONE)))
    entry = pb.HistoryMessage(role="tool", content=json.dumps(DONE))
    said = "operator (arun-deedda09) completed: Three"

    assert said in live[0][1]
    assert said in lines.render_history([entry], "moot")[0][0][1]
    assert said in render_transcript([entry], "moot")
