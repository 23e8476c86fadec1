"""Stopped before it has begun: a run that is being kept, or is on its way into its lane, does nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

from moot.domain.agent_config import AgentConfig
from moot.domain.agent_run import AgentRunStatus, Delivery
from moot.domain.errors import MootError
from moot.domain.events import Event, RunEnded
from moot.domain.run import Outcome, RunRequest
from moot.engine.approvals import Approvals
from moot.engine.supervisor import Supervisor
from moot.models.scripted import Rule
from moot.multiagent.crew import Crew, Wish
from moot.multiagent.partition import Partition
from moot.multiagent.teammates import Teammates
from moot.store.agent_runs import SqliteAgentRuns
from moot.store.approvals import StoredApprovals
from tests.daemon_process import eventually
from tests.unit.engine.engine_kit import Engine, engine
from tests.unit.shelves import ADA, SetClock

WISH = Wish(agent="ada", instruction="go")


def team(built: Engine) -> tuple[Teammates, SqliteAgentRuns, Supervisor]:
    clock, supervisor, shelf = SetClock(), Supervisor(), SqliteAgentRuns(built.store)
    crew = Crew(
        runs=built.runs,
        store=built.store,
        shelf=shelf,
        approvals=Approvals(store=StoredApprovals(built.store), clock=clock),
        partition=lambda: Partition((), {}),
        config=AgentConfig,
        repeatable=lambda _name: False,
        clock=clock,
        rng=Random(1),
        supervisor=supervisor,
        traces=built.notes,
        mirror=lambda _run: None,
    )
    return Teammates(crew), shelf, supervisor


@asynccontextmanager
async def hanging_team(folder: Path) -> AsyncIterator[tuple[Teammates, SqliteAgentRuns]]:
    """A team whose model never answers."""
    async with asyncio.timeout(30), engine(folder, Rule(hang=True)) as built:
        teammates, shelf, supervisor = team(built)
        await teammates.go_on()
        try:
            yield teammates, shelf
        finally:
            await supervisor.stop()


async def test_what_is_kept_for_one_that_was_stopped_meanwhile_is_ended_and_never_begins(tmp_path: Path) -> None:
    async with hanging_team(tmp_path) as (teammates, shelf):
        starting = asyncio.create_task(teammates.start(WISH, owner="user", cwd=""))
        # One step hands it to the writer; nobody waits for what the writer says.
        await asyncio.sleep(0)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        assert starting.cancelled()

        async def ended() -> bool:
            kept = await shelf.recent(limit=1)
            return [(run.status, run.delivery) for run in kept] == [(AgentRunStatus.CANCELLED, Delivery.NONE)]

        await eventually(ended)
        assert await shelf.not_ended() == teammates.live() == []


async def test_a_run_that_is_stopped_as_soon_as_it_is_kept_does_not_go_on(tmp_path: Path) -> None:
    async with hanging_team(tmp_path) as (teammates, _shelf):
        run = await teammates.start(WISH, owner="user", cwd="")
        stopped = await teammates.stop(run.id)
        assert stopped.end is not None
        assert stopped.end.outcome is Outcome.CANCELLED


async def test_a_message_that_is_killed_as_soon_as_it_is_sent_is_not_answered(tmp_path: Path) -> None:
    async with engine(tmp_path, Rule(hang=True)) as built:
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def follower(item: Event | MootError) -> None:
            if isinstance(item, RunEnded):
                ended.set_result(item.end.outcome)

        feed = await built.runs.submit(RunRequest(id="run-1", key=ADA, speaker="ada", content="go"))
        # Nothing has run since.
        assert built.runs.kill(ADA)
        feed.follow(follower)
        async with asyncio.timeout(30):
            assert await ended is Outcome.CANCELLED
