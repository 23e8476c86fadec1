"""Waiting again for others who still work is no circle; looking again at once is."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from moot.domain.ports.tool import ToolResult
from moot.domain.run import Outcome, RunEnd
from moot.domain.run_view import RunView
from moot.engine.outcome import REPEATS
from moot.models.scripted import Rule, RuleCall, RuleStep
from moot.multiagent.teammates.control import AgentWait
from moot.multiagent.teammates.teammate_text import TeammateText
from moot.multiagent.teammates.teammates import Teammates
from tests.unit.engine.engine_kit import engine
from tests.unit.shelves import context, teammate_run

AGAIN = tuple(RuleStep(calls=(RuleCall(name="act"),)) for _ in range(2 * REPEATS))


@pytest.mark.parametrize(("waited", "outcome"), [(True, Outcome.COMPLETED), (False, Outcome.LOOP_DETECTED)])
async def test_a_run_may_wait_as_often_as_it_takes_but_not_look_again_and_again(
    tmp_path: Path, waited: bool, outcome: Outcome
) -> None:
    async with engine(tmp_path, Rule(steps=(*AGAIN, RuleStep(reply="Done.")))) as built:
        built.act.result = ToolResult(content="still at work", waited=waited)
        end = await built.say("go", "run-1")
    assert isinstance(end, RunEnd)
    assert end.outcome is outcome


class StillAtWork:
    """Teammates whose one run does not end."""

    run = RunView(teammate_run())

    @property
    def texts(self) -> "StillAtWork":
        return self

    async def join(self, seen: Sequence[RunView], render: Callable[[Sequence[RunView]], str]) -> TeammateText:
        return TeammateText(content=render(seen), taint=frozenset())

    async def wait(self, *_asked: object, **_how: object) -> list[RunView]:
        return [self.run]

    def streak(self, _run: object) -> int:
        return 0


async def find_newest(run_id: str) -> str:
    return run_id


@pytest.mark.parametrize(("seconds", "waited"), [(0, False), (1, False), (10, True), (300, True)])
async def test_only_a_wait_that_lasts_counts_as_one(seconds: int, waited: bool) -> None:
    tool = AgentWait(cast(Teammates, StillAtWork()), lambda _name: False, find_newest)
    result = await tool({"agent_id": "arun-1", "timeout": seconds}, context())
    assert result.waited is waited
