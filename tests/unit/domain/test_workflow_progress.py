"""Which steps of a workflow are ready: conditions, skipped and failed steps, and what is passed on."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.domain.conversation import ConversationKey
from moot.domain.run import Outcome, Run, RunEnd, RunRequest, RunStatus
from moot.domain.workflow import (
    LONGEST_RESULT,
    LONGEST_RESULTS,
    Progress,
    Retry,
    StepResult,
    StepState,
    Workflow,
    WorkflowStep,
    has_another_attempt,
    read_result,
    render_prompt,
)
from moot.domain.workflow_condition import BadCondition, fold, parse_condition
from moot.domain.workflow_file import parse_workflow

WEB, MCP = frozenset({"web"}), frozenset({"mcp"})


def step(name: str, *after: str, when: str = "", prompt: str = "go") -> WorkflowStep:
    return WorkflowStep(
        id=name, prompt=prompt, depends_on=after, when=parse_condition(when) if when else None, retry=Retry(attempts=2)
    )


def begin(*steps: WorkflowStep) -> Progress:
    return Progress(Workflow(name="x", steps=steps))


def done(text: str = "", taint: frozenset[str] = frozenset()) -> StepResult:
    return StepResult(state=StepState.COMPLETED, text=text, taint=taint)


def take_all(progress: Progress) -> list[str]:
    found = []
    while progress.has_ready():
        found.append(progress.take_ready().id)
    return found


def test_steps_are_ready_once_all_they_depend_on_have_ended() -> None:
    progress = begin(step("a"), step("b"), step("c", "a", "b"))
    assert take_all(progress) == ["a", "b"]
    progress.finish("a", done())
    assert take_all(progress) == []
    progress.finish("b", done())
    assert take_all(progress) == ["c"]
    assert not progress.is_done
    progress.finish("c", done())
    assert progress.is_done


def test_after_a_failure_nothing_is_started_and_dependents_have_no_result() -> None:
    progress = begin(step("a"), step("b"), step("c", "a"), step("d", "b"))
    take_all(progress)
    progress.finish("a", StepResult(state=StepState.FAILED, error="x"))
    progress.finish("b", done())
    assert (progress.has_failed, progress.has_ready()) == (True, False)
    assert set(progress.results) == {"a", "b"}


def test_a_skipped_step_skips_those_that_depend_on_it_unless_they_look_at_its_status() -> None:
    progress = begin(
        step("ask"),
        step("yes", "ask", when='ask.result starts_with "yes"'),
        step("no", "ask", when='not ask.result starts_with "yes"'),
        step("after", "yes"),
        step("join", "yes", "no", when="yes.status == completed or no.status == completed"),
    )
    take_all(progress)
    progress.finish("ask", done(" NO, never"))
    assert take_all(progress) == ["no"]
    assert progress.results["after"].state is StepState.SKIPPED
    progress.finish("no", done())
    assert take_all(progress) == ["join"]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("a.result == yes", True),
        ("a.result == ' YES '", True),
        ("a.result != yes", False),
        ("a.result contains e", True),
        ("a.result ends_with 'es'", True),
        ("not a.result == yes or a.status == completed", True),
        ("not (a.result == yes or a.status == skipped)", False),
        ("a.result == yes and a.result == no", False),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    fields = {("a", "result"): "Yes\n", ("a", "status"): "completed"}
    assert parse_condition(condition).holds(lambda name, field: fold(fields[name, field])) is holds


@pytest.mark.parametrize(
    ("condition", "reason", "at"),
    [
        ("", "a step's field such as `check.result` is expected, not the end", 0),
        ("a", "a step's field such as `check.result` is expected, not `a`", 0),
        ("a.result = b", "'=' is not expected", 9),
        ("{{a.result}} contains b", "a condition has no braces: write step.result", 0),
        ("a.result contain b", "not `contain`. Did you mean 'contains'?", 9),
        ("a.status == complete", "not 'complete'. Did you mean 'completed'?", 12),
        ("a.result == b c.result == d", "`and` or `or` is expected", 14),
        ("(a.result == b", "`)` is expected, not the end", 14),
        ("a.result == 'b", "the text has no closing quotation mark", 12),
        ("__import__('os')", "not `__import__`", 0),
        ("not " * 50 + "a.result == b", "it is nested too deeply", 128),
        ("a.result == " + "b" * 3000, "it is longer than 2000 characters", 0),
    ],
)
def test_a_condition_that_cannot_be_read_says_where_and_why(condition: str, reason: str, at: int) -> None:
    with pytest.raises(BadCondition) as caught:
        parse_condition(condition)
    assert reason in caught.value.reason
    assert caught.value.at == at


def test_results_are_inserted_once_with_their_taint() -> None:
    asked = step("c", "a", "b", when="b.status == completed", prompt="[{{a.result}}] {{ a.result }} {{other}}")
    results = {"a": done("{{b.result}}", WEB), "b": done("secret", MCP)}
    text, taint = render_prompt(asked, results)
    assert text == "[{{b.result}}] {{b.result}} {{other}}"
    assert taint == WEB | MCP
    long, _ = render_prompt(step("c", "a", prompt="{{a.result}}"), {"a": done("x" * (LONGEST_RESULT + 5))})
    assert long.endswith("x\n(… 5 characters more)")


@pytest.mark.parametrize(
    ("outcome", "is_retried"),
    [
        (Outcome.MODEL_ERROR, True),
        (Outcome.TIMEOUT, True),
        (Outcome.INTERRUPTED, False),
        (Outcome.CANCELLED, False),
        (Outcome.DENIED, False),
        (Outcome.COMPLETED, False),
    ],
)
def test_only_a_failure_whose_effects_are_known_is_tried_again(outcome: Outcome, is_retried: bool) -> None:
    run = Run(
        request=RunRequest(id="arun-1", key=ConversationKey("a", "s"), speaker="a", content="x"),
        status=RunStatus.ENDED,
        created_at=0.0,
        end=RunEnd(outcome=outcome, error="why"),
    )
    assert has_another_attempt(step("a"), 1, run) is is_retried
    assert not has_another_attempt(step("a"), 2, run)
    result = read_result(run, WEB)
    assert (result.state is StepState.COMPLETED) is (outcome is Outcome.COMPLETED)
    assert result.taint == WEB


@pytest.mark.parametrize(
    ("error", "content", "expected"),
    [
        ("", "", "denied"),
        ("Not called: exec.", "", "denied: Not called: exec."),
        ("Not called: exec.", "I may not do that.", "denied: Not called: exec. I may not do that."),
    ],
)
def test_the_error_of_a_step_is_how_its_run_ended_and_why(error: str, content: str, expected: str) -> None:
    run = Run(
        request=RunRequest(id="arun-1", key=ConversationKey("a", "s"), speaker="a", content="x"),
        status=RunStatus.ENDED,
        created_at=0.0,
        end=RunEnd(outcome=Outcome.DENIED, error=error, content=content),
    )
    assert read_result(run, WEB).error == expected


@st.composite
def graphs(draw: Callable[..., Any]) -> tuple[WorkflowStep, ...]:
    count = draw(st.integers(1, 12))
    steps = []
    for number in range(count):
        after: set[int] = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        steps.append(step(f"s{number}", *(f"s{each}" for each in sorted(after))))
    return tuple(steps)


@given(graphs(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_every_step_runs_once_and_never_before_those_it_depends_on(
    steps: tuple[WorkflowStep, ...], rng: Random
) -> None:
    progress = begin(*steps)
    running: list[str] = []
    started: list[str] = []
    while not progress.is_done:
        for name in take_all(progress):
            assert all(each in progress.results for each in progress.steps[name].depends_on)
            running.append(name)
            started.append(name)
        ended = running.pop(rng.randrange(len(running)))
        progress.finish(ended, done())
    assert sorted(started) == sorted(progress.steps)


def test_results_in_a_prompt_are_bounded_together() -> None:
    step = WorkflowStep(id="b", prompt="{{a.result}}" * 8_000, depends_on=("a",))
    text, _ = render_prompt(step, {"a": StepResult(state=StepState.COMPLETED, text="x" * 50_000)})
    assert text.count("x") == LONGEST_RESULTS
    assert text.endswith("(… 50000 characters more)")


def test_a_skipped_step_has_the_taint_of_what_decided_it() -> None:
    source = """
name: demo
steps:
  - {id: a, prompt: x}
  - {id: b, prompt: x, depends_on: [a], when: a.result == no}
  - {id: c, prompt: x, depends_on: [b]}
  - {id: d, prompt: x, depends_on: [c], when: c.status == skipped}
"""
    progress = Progress(parse_workflow(source))
    progress.finish(
        progress.take_ready().id, StepResult(state=StepState.COMPLETED, text="yes", taint=frozenset({"web"}))
    )
    assert {name: set(progress.results[name].taint) for name in "bc"} == {"b": {"web"}, "c": {"web"}}
    assert render_prompt(progress.take_ready(), progress.results) == ("x", WEB)
