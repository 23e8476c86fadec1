"""Continuing a worker: of several calls at the same time, one does it."""

import asyncio
from typing import Any, cast

from msgspec.structs import replace

from moot.domain.run import Outcome, Run, RunEnd, RunStatus
from moot.domain.run_view import RunView
from moot.engine.history import Histories
from moot.engine.supervisor import Supervisor
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.multiagent.teammates.teammates import Teammates
from moot.multiagent.teammates.workers import Workers
from tests.unit.shelves import SetClock, context, teammate_run


class Team:
    """Store, histories and teammates, each of which lets others go first."""

    def __init__(self, first: Run) -> None:
        self.runs = [first]

    async def list_runs(self, _key: object) -> list[Run]:
        await asyncio.sleep(0)
        return list(self.runs)

    async def load(self, _key: object) -> None:
        await asyncio.sleep(0)

    async def count_delegation(self, *_given: object) -> None:
        await asyncio.sleep(0)

    def new_id(self) -> str:
        return f"arun-{len(self.runs) + 1}"

    async def keep(self, run: Run) -> RunView:
        await asyncio.sleep(0)
        self.runs.append(run)
        return RunView(run)


async def test_of_two_calls_for_one_worker_only_one_continues_it() -> None:
    end = RunEnd(outcome=Outcome.COMPLETED, content="done")
    first = replace(teammate_run(), status=RunStatus.ENDED, end=end)
    team: Any = Team(first)
    clock = SetClock()
    workers = Workers(
        teammates=cast(Teammates, team),
        live=LiveRuns(Supervisor(clock), clock),
        store=team,
        histories=cast(Histories, team),
        clock=clock,
    )
    calls = [replace(context(), call_id=call) for call in ("one", "two")]
    made = await asyncio.gather(*(workers.go_on(each, first, "more") for each in calls))

    assert [each is None for each in made] == [False, True]
    assert len(team.runs) == 2
    # The same call, repeated after a crash, finds what it has made.
    again = await workers.go_on(calls[0], first, "more")
    assert again is not None
    assert again.prior.id == first.id
