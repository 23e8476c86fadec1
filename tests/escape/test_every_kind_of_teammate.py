"""Runs that no person sits before × {in scope, out of scope, dangerous, unknown}: the same gate, the same outcomes.

TEAM_KINDS goes on with the table of `test_every_kind_of_run`: teammates, runs in the background, and the turns in which
an orchestrator is told what its teammates came to.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.escape.kinds import CALLS, HANDS, KINDS_CONFIG, TOLD, Case, Stage, call, cases_of, counted, deciding
from tests.fake_provider import Provider
from tests.journeys.test_roles import write
from tests.talking import Talking
from tests.teaming import eventually_idle

CONFIG = KINDS_CONFIG + "\n[agent]\nmultiAgent = true\n"

# What an operator does that is not dangerous and not asked about.
OPERATOR = CALLS | {"in scope": lambda _slug: call("fs_list", path=".")}
# The operator has its role and no more, also where a person starts it.
ITS_OWN = HANDS | {"out of scope": "no such tool"}
# An orchestrator has what it needs to lead; tools for the work are its teammates'.
TO_LEAD = dict.fromkeys(CALLS, "no such tool") | {"in scope": "ran"}


@dataclass(frozen=True, kw_only=True)
class TeamKind:
    """`tells` are what the models say before the step with the call, by the message they are asked; in `dies` the
    daemon is killed while the call's step is on its way, and started again."""

    through: tuple[str, ...]
    tells: Callable[[Case], list[dict[str, Any]]]
    # What stands in the message that the call answers.
    asked: str = "do {slug} now"
    calls: Mapping[str, Callable[[str], dict[str, Any]]] = field(default_factory=lambda: OPERATOR)
    expected: dict[str, str] = field(default_factory=lambda: ITS_OWN)
    background: bool = False
    scheduled: bool = False
    # The prompt of the one step of a workflow that is started; its report goes to an orchestrator if `reports`.
    step: str = ""
    reports: bool = False
    dies: bool = False
    # A coordinator starts a worker, and gives it the message that is answered with the call when it has ended.
    continues: bool = False


def _spawns(case: Case) -> list[dict[str, Any]]:
    return _led(case, f"do {case.slug} now")


def _is_told(case: Case) -> list[dict[str, Any]]:
    return [*_led(case, f"answer {case.slug}"), {"match": f"^answer {case.slug}", "text": f"result {case.slug}"}]


def _led(case: Case, instruction: str) -> list[dict[str, Any]]:
    lead = {"match": f"^lead {case.slug}"}
    return [
        {**lead, "calls": [call("agent_spawn", agent="operator", instruction=instruction)]},
        {**lead, "text": "set to work"},
    ]


def _held(case: Case) -> list[dict[str, Any]]:
    return [*_spawns(case), {"match": f"do {case.slug} now", "text": "never", "hold": True}]


def _directs(case: Case) -> list[dict[str, Any]]:
    directs = {"match": f"^lead {case.slug}"}
    return [
        {**directs, "calls": [call("agent_spawn", agent="operator", instruction=f"answer {case.slug}")]},
        {**directs, "text": "set to work"},
        {"match": f"^answer {case.slug}", "text": f"result {case.slug}"},
    ]


def _answers(case: Case) -> list[dict[str, Any]]:
    return [{"match": f"^answer {case.slug}", "text": f"result {case.slug}"}]


def _nothing(_case: Case) -> list[dict[str, Any]]:
    return []


_SPAWNED = ("multiagent/teammates/run_factory.py:build_spawned_run", "multiagent/teammates/teammates.py:_execute")
TEAM_KINDS = {
    "a teammate": TeamKind(through=_SPAWNED, tells=_spawns),
    "a teammate over a restart": TeamKind(
        through=("store/found_runs.py:_request", "engine/runs.py:resume"), tells=_held, dies=True
    ),
    "a run in the background": TeamKind(
        through=("daemon/requests/runs.py:start_run", "multiagent/teammates/run_factory.py:build_background_run"),
        tells=_nothing,
        background=True,
    ),
    "a run of a scheduled job": TeamKind(
        through=("domain/cron_job.py:make_job_run",), tells=_nothing, background=True, scheduled=True
    ),
    "a step of a workflow": TeamKind(
        through=("automation/workflow_executor.py:_start_run", "automation/workflow_start.py:make_step_run"),
        tells=_nothing,
        background=True,
        step="do {slug} now",
    ),
    "a report of a workflow": TeamKind(
        through=("automation/workflow_reports.py:deliver", "automation/workflow_reports.py:_send"),
        tells=_answers,
        asked="result {slug}",
        calls=CALLS,
        expected=TO_LEAD,
        background=True,
        step="answer {slug}",
        reports=True,
    ),
    "a continued worker": TeamKind(
        through=("multiagent/teammates/run_factory.py:build_continued_run",), tells=_directs, continues=True
    ),
    "a report to the orchestrator": TeamKind(
        through=("multiagent/teammates/delivery.py:_report", "multiagent/teammates/delivery.py:_request"),
        tells=_is_told,
        asked="result {slug}",
        calls=CALLS,
        expected=TO_LEAD,
    ),
}


@pytest.mark.parametrize("name", TEAM_KINDS)
async def test_each_call_gets_the_outcome_its_scope_and_danger_ask_for(
    home: Home, provider: Provider, name: str
) -> None:
    kind, cases = TEAM_KINDS[name], cases_of(name.replace(" ", "-"))
    for case in cases:
        # What a coordinator is told about its workers repeats their tasks.
        asked = {"match": ("^" if kind.continues else "") + kind.asked.format(slug=case.slug)}
        for answer in (
            *kind.tells(case),
            {**asked, "calls": [kind.calls[case.column](case.slug)]},
            {**asked, "text": f"done {case.slug}"},
        ):
            provider.program(answer)
    if kind.continues:
        write(home, "boss", "role: coordinator\n")
        provider.program(*[{"match": "task-notification", "text": "heard"}] * 2 * len(cases))
    stage = Stage(home=home, provider=provider)
    if kind.dies:
        with running(home) as process:
            for case in cases:
                await _until_held(stage, case)
            process.kill_9()
        provider.release()
    with daemon_thread(home):
        async with deciding(stage):
            for case in cases:
                async with asyncio.timeout(30):
                    await _driven(stage, kind, case)
        seen = {case.column: _seen(stage, kind, case) for case in cases}
        assert seen == kind.expected
        # Those that were spawned before the daemon died were counted by that one.
        spawned = 0 if kind.background or kind.dies else len(cases) * (2 if kind.continues else 1)
        assert await stage.hook_counts() == counted(kind.expected, spawned=spawned)


async def _until_held(stage: Stage, case: Case) -> None:
    async with stage.client() as talk:
        await talk.say("moot", f"lead {case.slug}", case.sender)
    await eventually(lambda: bool(_bodies(stage, f"do {case.slug} now")))


async def _driven(stage: Stage, kind: TeamKind, case: Case) -> None:
    async with stage.client() as talk:
        if kind.scheduled:
            job = pb.SaveCronJobMsg(
                agent="operator",
                name=case.slug,
                prompt=case.content,
                sender=case.sender,
                schedule_type="every",
                schedule="1h",
            )
            await talk.ask(save_cron_job=job)
            await talk.ask(change_cron_job=pb.ChangeCronJobMsg(job=case.slug, sender=case.sender, action="run"))
        elif kind.step:
            await _start_workflow(talk, kind, case)
        elif kind.background:
            await talk.ask(start_run=pb.StartRunMsg(agent="operator", content=case.content, sender=case.sender))
        elif kind.continues:
            await _continued(stage, talk, case)
        elif not kind.dies:
            await talk.say("moot", f"lead {case.slug}", case.sender)
        await eventually(lambda: bool(_results(stage, kind, case)))
        await eventually_idle(stage.home, talk)


async def _start_workflow(talk: Talking, kind: TeamKind, case: Case) -> None:
    step = f"{{id: only, agent: operator, prompt: {json.dumps(kind.step.format(slug=case.slug))}}}"
    report = "deliver_to: [moot]\n" if kind.reports else ""
    source = f"name: once\n{report}steps: [{step}]\n"
    await talk.ask(start_workflow=pb.StartWorkflowMsg(source=source, sender=case.sender))


async def _continued(stage: Stage, talk: Talking, case: Case) -> None:
    await talk.say("boss", f"lead {case.slug}", case.sender)
    await eventually_idle(stage.home, talk)
    (worker,) = stage.home.query("SELECT id FROM runs WHERE kind = 'teammate' ORDER BY number DESC LIMIT 1")[0]
    message = call("send_message_to_worker", worker_id=worker, message=f"do {case.slug} now")
    go_on = {"match": f"^go on {case.slug}"}
    stage.provider.program({**go_on, "calls": [message]}, {**go_on, "text": "set to work"})
    await talk.say("boss", f"go on {case.slug}", case.sender)


def _seen(stage: Stage, kind: TeamKind, case: Case) -> str:
    """What came of a case, by what its model was told of its call and by what it changed."""
    (told,) = _results(stage, kind, case)
    asked = sum(count for sender, count in stage.asked.items() if sender.endswith(case.sender))
    made = [*stage.home.path.rglob(f"{case.slug}.txt")]
    assert bool(made) is (kind.expected[case.column] == "asked, ran")
    said = next((outcome for words, outcome in TOLD.items() if words in told), "ran")
    return f"asked, {said}" if asked else said


def _results(stage: Stage, kind: TeamKind, case: Case) -> list[str]:
    """The results of the call under test, as the last request of its run has them."""
    bodies = _bodies(stage, kind.asked.format(slug=case.slug))
    if kind.continues:
        # What a coordinator is told about its workers repeats their tasks.
        bodies = [each for each in bodies if "COORDINATOR ROLE" not in str(each[0]["content"])]
    return [str(each["content"]) for each in bodies[-1] if each["role"] == "tool"][-1:] if bodies else []


def _bodies(stage: Stage, words: str) -> list[list[dict[str, Any]]]:
    """The messages of every request that was asked so."""
    found = [list(body["messages"]) for body in stage.provider.bodies()]
    return [each for each in found if words in str([said for said in each if said["role"] == "user"][-1:])]
