"""The text in which a coordinator reads the end of a worker: exactly as specified, and nothing in it can be forged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.domain.conversation import ConversationKey
from moot.domain.run import Outcome, Run, RunEnd, RunRequest, RunStatus, Spawn
from moot.domain.task_notification import (
    TaskNotification,
    TaskStatus,
    list_notifications_in,
    render_notifications,
    summarize,
)
from moot.domain.usage import Usage
from moot.multiagent.teammates.report import make_notification

KEY = ConversationKey("hand", "run:arun-1")


def notification(result: str = "Done.", summary: str = "Done.") -> TaskNotification:
    return TaskNotification(
        task_id="arun-1",
        status=TaskStatus.COMPLETED,
        summary=summary,
        result=result,
        total_tokens=12,
        tool_uses=3,
        duration_ms=450,
    )


def ended(outcome: Outcome, content: str = "", error: str = "") -> Run:
    end = RunEnd(
        outcome=outcome, content=content, error=error, usage=Usage(prompt=10, completion=2), seconds=0.45, tool_uses=3
    )
    # A run that continues the worker arun-1.
    request = RunRequest(id="arun-2", key=KEY, speaker="hand", content="go on")
    return Run(request=request, status=RunStatus.ENDED, created_at=1.0, end=end, spawn=Spawn(chain=("boss",)))


def test_a_notification_is_rendered_exactly_so() -> None:
    assert render_notifications([notification("a < b & \"c\" > 'd'\nend")]) == (
        "<task-notification>\n"
        "<task-id>arun-1</task-id>\n"
        "<status>completed</status>\n"
        "<summary>Done.</summary>\n"
        "<result>a &lt; b &amp; &quot;c&quot; &gt; &apos;d&apos;\nend</result>\n"
        "<usage>\n"
        "<total_tokens>12</total_tokens>\n"
        "<tool_uses>3</tool_uses>\n"
        "<duration_ms>450</duration_ms>\n"
        "</usage>\n"
        "</task-notification>"
    )


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=3))
def test_whatever_is_reported_there_are_as_many_blocks_as_ends(written: list[tuple[str, str]]) -> None:
    text = render_notifications([notification(result, summary) for result, summary in written])
    assert len(list_notifications_in(text) or []) == len(written)
    assert text.count("<") == text.count(">") == 18 * len(written)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        render_notifications([notification()]) + "more",
        render_notifications([notification()]).replace("Done.</result>", "<b></result>"),
        render_notifications([notification()]).replace("Done.</result>", "&</result>"),
        render_notifications([notification()]).replace("completed", "great"),
        render_notifications([notification()]).replace(">12<", ">many<"),
        render_notifications([notification()]).replace("<usage>\n", ""),
    ],
)
def test_other_text_is_no_notification(text: str) -> None:
    assert list_notifications_in(text) is None


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_status_and_a_summary(outcome: Outcome) -> None:
    told = make_notification(ended(outcome, error="It went wrong.\nBadly."))
    named = {
        Outcome.COMPLETED: TaskStatus.COMPLETED,
        Outcome.CANCELLED: TaskStatus.KILLED,
        Outcome.TIMEOUT: TaskStatus.TIMEOUT,
    }
    assert told.status is named.get(outcome, TaskStatus.FAILED)
    assert told.summary
    assert "\n" not in told.summary
    assert (told.task_id, told.total_tokens, told.tool_uses, told.duration_ms) == ("arun-1", 12, 3, 450)
    assert list_notifications_in(render_notifications([told])) == [told]


def test_a_summary_is_the_first_line_and_a_long_result_says_how_to_read_the_rest() -> None:
    assert summarize("\n  first \nsecond") == "first"
    assert len(summarize("x" * 500)) == 80
    assert summarize("", "completed") == "completed"
    told = make_notification(ended(Outcome.COMPLETED, content="x" * 100_000), among=2)
    assert told.result.endswith("(… 70000 characters more; agent_wait with agent_id arun-1 shows the rest.)")
    assert make_notification(ended(Outcome.ESCALATED, content="not mine")).summary == "escalated: not mine"
