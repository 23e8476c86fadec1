"""Workflow files: what is read from them, and every mistake with its line, column and the nearest right word."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.domain import workflow_file
from moot.domain.errors import BadRequest
from moot.domain.schedule import ScheduleKind
from moot.domain.workflow import DEFAULT_SECONDS, Retry
from moot.domain.workflow_file import (
    MAX_PROBLEMS,
    MAX_STEPS,
    BadWorkflow,
    check_name,
    parse_duration,
    parse_workflow,
)
from moot.domain.workflow_yaml import MAX_BYTES, WorkflowProblem

WHOLE = """\
name: nightly
description: Everything at once.
schedule: "0 3 * * *"
timezone: Europe/Berlin
deliver_to: moot
max_parallel: 2
steps:
  - id: report
    prompt: "Sum up {{fetch.result}} and {{ check.result }}; keep {{this}} and {{ that.thing }}"
    depends_on: [fetch, check]
    when: 'fetch.result contains "ok" and not check.status == skipped'
    deliver_to: [moot]
  - id: fetch
    agent: operator
    prompt: fetch it
    retry: {attempts: 3, delay: 5s}
    timeout: 1h30m
  - id: check
    prompt: check it
    depends_on: fetch
    retry: 2
"""


def find_problems(text: str, agents: list[str] | None = None) -> list[str]:
    with pytest.raises(BadWorkflow) as caught:
        parse_workflow(text, file="f", agents=agents)
    return caught.value.message.split("\n")


def test_every_key_is_read_and_the_steps_are_in_the_order_of_their_dependencies() -> None:
    workflow = parse_workflow(WHOLE, agents=["moot", "operator"])
    assert [step.id for step in workflow.steps] == ["fetch", "check", "report"]
    assert (workflow.name, workflow.deliver_to) == ("nightly", ("moot",))
    assert (workflow.schedule, workflow.zone) == ((ScheduleKind.CRON, "0 3 * * *"), "Europe/Berlin")
    assert workflow.max_parallel == 2
    fetch, check, report = workflow.steps
    assert (fetch.agent, fetch.timeout, fetch.retry) == ("operator", 5400.0, Retry(attempts=3, delay=5.0))
    assert (check.agent, check.timeout, check.retry) == ("", DEFAULT_SECONDS, Retry(attempts=2))
    assert report.when is not None
    assert report.when.steps == {"fetch", "check"}
    assert report.when.statuses == {"check"}
    assert (report.deliver_to, report.line) == (("moot",), 8)


def test_all_mistakes_of_a_file_are_told_at_once_each_with_its_place() -> None:
    bad = """\
nme: x
steps:
  - id: a
    promt: hi
    depends_on: [b, zz]
    agent: operatr
  - id: b
    prompt: "{{c.result}} {{aa.result}} {{a.reslt}}"
    depends_on: a
    timeout: soon
    when: "a.resul == 3"
  - id: b
    prompt: x
    retry: 99
  - id: c
    prompt: z
    id: d
"""
    assert find_problems(bad, ["operator", "moot"]) == [
        "f:1:1: a workflow has no key `nme`. Did you mean 'name'?",
        "f:1:1: the workflow has no name: add `name: …`",
        "f:3:5: step 'a' has no prompt",
        "f:4:5: a step has no key `promt`. Did you mean 'prompt'?",
        "f:5:21: step 'a' depends on a step 'zz' that does not exist.",
        "f:6:12: there is no agent 'operatr'. Did you mean 'operator'?",
        "f:8:13: a prompt can refer to `a.result`, not to `a.reslt`",
        "f:8:13: {{aa.result}} of step 'b' refers to a step 'aa' that does not exist. Did you mean 'a'?",
        "f:9:17: the steps depend on each other in a circle: b → a → b",
        "f:10:14: `timeout` must be a duration such as 90s, 10m or 1h30m, up to 24h",
        "f:11:12: `when`: a step has no `resul`, only result and status. Did you mean 'result'?",
        "f:12:9: the step id 'b' is used twice; the first is in line 7",
        "f:14:12: `retry` must be a whole number from 1 to 10",
        "f:17:5: `id` is given twice",
    ]


@pytest.mark.parametrize(
    "written",
    ["a", " a ", "a.output", "a.Result", "a .result", "a.result | upper", "steps.a.result", "trim(a.result)"],
)
def test_what_is_meant_as_a_reference_is_no_ordinary_text(written: str) -> None:
    text = f"name: x\nsteps:\n  - {{id: a, prompt: x}}\n  - {{id: b, prompt: 'say {{{{{written}}}}}', depends_on: a}}\n"
    expected = f"f:4:21: a prompt can refer to `a.result`, not to `{written.strip()}`"
    assert find_problems(text, ["moot"]) == [expected]


@pytest.mark.parametrize("prompt", ["{{user}}", "{{ a b }}", "{a}", "{{ba.x}} {{}} {{{}}}", "{{a-result}}", "${a}"])
def test_other_double_braces_are_ordinary_text(prompt: str) -> None:
    text = f"name: x\nsteps:\n  - {{id: a, prompt: x}}\n  - {{id: b, prompt: '{prompt}', depends_on: a}}\n"
    assert parse_workflow(text).steps[1].prompt == prompt


def test_a_long_circle_is_not_written_out() -> None:
    steps = "".join(f"  - {{id: s{at}, prompt: p, depends_on: [s{(at + 1) % 300}]}}\n" for at in range(300))
    (problem,) = find_problems(f"name: x\nsteps:\n{steps}", ["moot"])
    assert problem.count("→") == 10
    assert problem.partition(" → … → ")[2] in ("s299 → s0", "s298 → s299")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f:1:1: the file is empty"),
        ("- a", "f:1:1: a workflow must consist of `key: value` lines"),
        ("name: x\nsteps: []", "f:2:8: the workflow has no steps: `steps` must be a list of at least one"),
        ("name: x\nsteps: [a]", "f:2:9: a step must consist of `key: value` lines"),
        ("name: ../x\nsteps: [{id: a, prompt: p}]", "f:1:7: the name '../x' must have"),
        ("name: x\nsteps: [{prompt: p}]", "f:2:9: a step has no id: add `id: …`"),
        ("name: x\nsteps: [{id: a b, prompt: p}]", "f:2:14: the id 'a b' must have"),
        ("name: x\nsteps: [{id: a, prompt: p, depends_on: a}]", "f:2:40: the steps depend on each other in a circle"),
        ("name: x\nsteps: [{id: a, prompt: p, depends_on: [[a]]}]", "`depends_on` must be a list of names"),
        ("name: x\nsteps: [{id: a, prompt: p, agent: [b, c]}]", "a step has one agent"),
        ("name: x\nsteps: [{id: a, prompt: p, agent: ''}]", "f:2:35: `agent` must be the name of an agent"),
        ("name: x\nmax_parallel: many\nsteps: [{id: a, prompt: p}]", "f:2:15: `max_parallel` must be a whole number"),
        ("name: x\nsteps: [{id: a, prompt: p, timeout: 25h}]", "`timeout` must be a duration"),
        (
            "name: x\nsteps: [{id: a, prompt: p}, {id: b, prompt: '{{a.result}}'}]",
            "{{a.result}} needs the result of 'a', which may not be there yet. Add it to `depends_on` of 'b'.",
        ),
        ("name: x\nschedule: '61 * * * *'\nsteps: [{id: a, prompt: p}]", "f:2:11: the minute of the cron expression"),
        (
            "name: x\nschedule: '0 0 31 2 *'\nsteps: [{id: a, prompt: p}]",
            "f:2:11: the day-of-month of the cron expression '0 0 31 2 *' does not exist",
        ),
        ("name: x\nschedule: every 1s\nsteps: [{id: a, prompt: p}]", "f:2:11: the interval 1s is too short"),
        (
            "name: x\nschedule: at noon\ntimezone: Europe/Berln\nsteps: [{id: a, prompt: p}]",
            "f:3:11: there is no time zone 'Europe/Berln'. Did you mean 'Europe/Berlin'?",
        ),
        ("name: x\nschedule: at noon\nsteps: [{id: a, prompt: p}]", "f:2:11: 'noon' is not a date and time"),
        ("a: &x [1]\nb: [*x]", "f:2:5: aliases such as *x are not allowed"),
        ("[" * 100, "it is nested too deeply"),
        ("name: [", "this is not YAML"),
        ("---\na: 1\n---\nb: 2", "f:3:1: a file contains one workflow, not several documents"),
        ("name: x\x00", "f:1:1: the file contains NUL"),
        ("#" * (MAX_BYTES + 1), "f:1:1: the file is larger than 1024 KiB"),
        ("a: [" + "1, " * 150_000 + "1]", "it has more than 100000 values"),
        ("name: x\nsteps: [" + ", ".join(["{id: a}"] * (MAX_STEPS + 1)) + "]", "at most 2000 are allowed"),
    ],
)
def test_what_is_no_workflow_is_refused_with_its_place(text: str, problem: str) -> None:
    assert any(problem in each for each in find_problems(text))


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{after}: &{after} [*{before}, *{before}]\n" for before, after in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert find_problems(bomb) == ["f:2:8: aliases such as *a are not allowed"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1h30m", 5400), ("45", 45), ("1.5s", 1.5), ("", None), ("h", None), ("-3s", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", ".hidden", "a" * 65, "name\n", "ü", "a.b"])
def test_a_name_of_a_saved_workflow_has_no_parts_of_a_path(name: str) -> None:
    with pytest.raises(BadRequest, match="cannot be the name of a workflow"):
        check_name(name)
    assert check_name("daily-report.flow.yaml") == "daily-report"


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_workflow_or_a_list_of_problems(text: str) -> None:
    problems: tuple[WorkflowProblem, ...] = ()
    try:
        parse_workflow(text)
    except BadWorkflow as error:
        problems = error.problems
    assert all(problem.line >= 1 and problem.column >= 1 and problem.reason for problem in problems)


def test_many_mistakes_cost_no_more_than_those_that_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def suggest(name: str, known: Iterable[str]) -> str:
        compared.append(name)
        return ""

    monkeypatch.setattr(workflow_file, "suggest_name", suggest)
    steps = "".join(f"- {{id: s{number}, prompt: x, wrong: 1, depends_on: [t{number}]}}\n" for number in range(500))
    wrong = "".join(f"key{number}: 1\n" for number in range(500))
    with pytest.raises(BadWorkflow):
        parse_workflow(f"name: demo\n{wrong}steps:\n{steps}", agents=["moot"])
    assert len(compared) <= MAX_PROBLEMS


def test_comparisons_of_all_conditions_are_bounded() -> None:
    when = " or ".join(["a.result == x"] * 100)
    steps = "".join(f"- {{id: s{number}, prompt: x, depends_on: [a], when: {when}}}\n" for number in range(41))
    with pytest.raises(BadWorkflow, match="more than 4000 comparisons"):
        parse_workflow(f"name: demo\nsteps:\n- {{id: a, prompt: x}}\n{steps}")
