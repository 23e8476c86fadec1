"""The clock of a wait stands while a person is all that is waited for, and goes on when something else is."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext, suppress

from msgspec.structs import replace

from moot.domain.events import EventBody
from moot.domain.ports.tool import RunContext
from moot.domain.run_view import Block, Condition, RunView
from moot.engine.deadline import Deadline
from moot.multiagent.teammates.waits import Waits
from tests.daemon_process import PATIENCE
from tests.simulation.clock import VirtualClock
from tests.unit.shelves import ADA, teammate_run

_BLOCKED = Block(condition=Condition.BLOCKED)
VIRTUAL_TIME = True
_SHORT = 0.05


def _ignored(_event: EventBody) -> None:
    return


async def _nobody(_questions: object) -> str:
    raise AssertionError("nobody is asked")


CONTEXT = RunContext(
    run_id="run-1",
    key=ADA,
    speaker="ada",
    cwd="",
    emit=_ignored,
    ask=_nobody,
    waiting=nullcontext,
    attending=nullcontext,
)


class Team:
    """Two that are waited for."""

    def __init__(self) -> None:
        self.runs = {name: _run(name) for name in ("arun-1", "arun-2")}
        self.waits = Waits(self.runs.get)

    def stands(self, name: str, block: Block) -> None:
        self.runs[name] = replace(self.runs[name], block=block)
        self.waits.update(name)


def _run(name: str) -> RunView:
    return RunView(teammate_run(name))


async def test_the_clock_of_a_wait_stands_while_all_it_waits_for_wait_for_a_person() -> None:
    team = Team()
    for name in team.runs:
        team.stands(name, _BLOCKED)
    async with Deadline(VirtualClock(), _SHORT) as clock:
        with team.waits.waiting(CONTEXT, list(team.runs), clock):
            # Many times as long as it has.
            await asyncio.sleep(_SHORT * 10)
            assert not clock.expired


async def test_the_clock_of_a_wait_goes_on_once_one_works_again() -> None:
    team = Team()
    for name in team.runs:
        team.stands(name, _BLOCKED)
    assert await _runs_out(team, lambda: team.stands("arun-2", Block()))


async def test_the_clock_of_a_wait_goes_on_while_one_of_those_works() -> None:
    team = Team()
    team.stands("arun-1", _BLOCKED)
    assert await _runs_out(team, lambda: None)


async def _runs_out(team: Team, then: Callable[[], None]) -> bool:
    """Wait for both, let something happen meanwhile, and see the time of the wait come to its end."""
    clock = Deadline(VirtualClock(), _SHORT)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE), clock:
            with team.waits.waiting(CONTEXT, list(team.runs), clock):
                then()
                await asyncio.Event().wait()
    return clock.expired
