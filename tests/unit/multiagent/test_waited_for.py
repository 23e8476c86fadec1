"""What a parent was told of those it waited for: what an answer says counts, not when it was written."""

import json

import pytest

from moot.domain.message import Entry, Message, Role, ToolCall, tool_result
from moot.multiagent.teammates.delivery import waited_for

PARENT = "run-1"


def answered(content: str, *, is_error: bool = False) -> list[Entry]:
    call = ToolCall(id="c1", name="agent_wait", arguments=json.dumps({"agent_id": "arun-1, arun-2"}))
    asked = Message(role=Role.ASSISTANT, content="", tool_calls=(call,))
    result = tool_result("c1", content, is_error=is_error)
    return [
        Entry(seq=number, message=message, run_id=PARENT, created_at=10.0)
        for number, message in enumerate((asked, result), start=1)
    ]


def told(**statuses: str) -> str:
    views = [{"agent_id": run_id.replace("_", "-"), "status": status} for run_id, status in statuses.items()]
    return json.dumps({"runs": views})


def test_a_run_that_an_answer_tells_as_at_work_was_not_told_however_late_the_answer_was_written() -> None:
    waited = waited_for(answered(told(arun_1="completed", arun_2="running")), PARENT)
    assert waited.keys() == {"arun-1"}
    assert waited["arun-1"] > 1e12


def test_of_an_answer_that_was_cut_the_time_it_was_given_tells_what_was_in_it() -> None:
    assert waited_for(answered(told(arun_1="completed")[:30]), PARENT) == {"arun-1": 10.0, "arun-2": 10.0}


@pytest.mark.parametrize("parent", ["run-2", PARENT])
def test_an_error_and_what_another_run_was_told_tell_nothing(parent: str) -> None:
    assert waited_for(answered(told(arun_1="completed"), is_error=parent == PARENT), parent) == {}
