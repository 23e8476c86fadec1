"""Before a run has begun: stopped then it does nothing, and after a restart none begins before all are known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

from moot.domain.agent_run import AgentRun, AgentRunStatus, Condition, Delivery
from moot.domain.config import AgentConfig
from moot.domain.errors import MootError, StoreError
from moot.domain.events import Event, RunEnded
from moot.domain.run import Outcome, RunEnd, RunRequest
from moot.engine.supervisor import Supervisor
from moot.models.scripted import Rule
from moot.multiagent.partition import Partition
from moot.multiagent.teammates.run_factory import in_background, request_of
from moot.multiagent.teammates.spawn_request import Crew, Wish
from moot.multiagent.teammates.teammates import Teammates
from moot.store.agent_runs import SqliteAgentRuns
from tests.daemon_process import eventually
from tests.unit.engine.engine_kit import Engine, engine
from tests.unit.shelves import ADA, SetClock, asks_over

WISH = Wish(agent="ada", instruction="go")


class Shelf(SqliteAgentRuns):
    """Refuses so many ends first, as a full disk would."""

    refusals = 0

    async def end(self, run: AgentRun) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the disk is full")
        await super().end(run)


def team(built: Engine) -> tuple[Teammates, Shelf, Supervisor]:
    clock, supervisor, shelf = SetClock(), Supervisor(), Shelf(built.store)
    crew = Crew(
        runs=built.runs,
        store=built.store,
        shelf=shelf,
        asks=asks_over(built.store, clock=clock),
        partition=lambda: Partition((), {}),
        config=AgentConfig,
        repeatable=lambda _name: False,
        clock=clock,
        rng=Random(1),
        supervisor=supervisor,
        traces=built.notes,
        bus=built.bus,
        stop=lambda _key: None,
    )
    return Teammates(crew), shelf, supervisor


@asynccontextmanager
async def hanging_team(folder: Path) -> AsyncIterator[tuple[Teammates, Shelf]]:
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
            kept = await shelf.ended(lambda _sender: True, limit=1)
            return [(run.status, run.delivery) for run in kept] == [(AgentRunStatus.CANCELLED, Delivery.NONE)]

        await eventually(ended)
        assert await shelf.not_ended() == teammates.live() == []


async def test_a_run_that_is_stopped_as_soon_as_it_is_kept_does_not_go_on(tmp_path: Path) -> None:
    async with hanging_team(tmp_path) as (teammates, _shelf):
        run = await teammates.start(WISH, owner="user", cwd="")
        stopped = await teammates.stop(run.id)
        assert stopped.end is not None
        assert stopped.end.outcome is Outcome.CANCELLED


async def test_an_end_that_the_disk_refuses_is_kept_once_it_takes_it(tmp_path: Path) -> None:
    async with hanging_team(tmp_path) as (teammates, shelf):
        run = await teammates.start(WISH, owner="user", cwd="")
        shelf.refusals = 2
        await teammates.stop(run.id)
        await teammates.over([run.id], seconds=30, every=True)
        # Nobody waits for it in vain, and its place is free.
        assert teammates.live() == []
        kept = await shelf.get(run.id)
        assert kept is not None
        assert kept.status is AgentRunStatus.CANCELLED


async def test_a_message_that_is_killed_as_soon_as_it_is_sent_is_not_answered(tmp_path: Path) -> None:
    async with engine(tmp_path, Rule(hang=True)) as built:
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def read(item: Event | MootError) -> None:
            if isinstance(item, Event) and isinstance(item.body, RunEnded):
                ended.set_result(item.body.end.outcome)

        stream = await built.runs.submit(RunRequest(id="run-1", key=ADA, speaker="ada", content="go"))
        # Nothing has run since.
        assert built.runs.kill(ADA)
        stream.subscribe(read)
        async with asyncio.timeout(30):
            assert await ended is Outcome.CANCELLED


async def test_nothing_goes_on_before_all_that_was_left_has_been_looked_at(tmp_path: Path) -> None:
    async with asyncio.timeout(30), engine(tmp_path, Rule(hang=True)) as built:
        teammates, shelf, supervisor = team(built)
        waits = in_background(WISH, run_id="arun-1", owner="user", cwd="")
        ended = in_background(WISH, run_id="arun-2", owner="user", cwd="")
        for run in (waits, ended):
            await shelf.create(run)
        await built.store.begin(request_of(ended, Partition((), {}), is_first=True), now=1.0)
        await built.store.end(ended.key, ended.id, RunEnd(outcome=Outcome.COMPLETED), (), now=2.0)
        await teammates.recover()
        # The place of the one that has ended is free, and still nobody takes it.
        assert [run.block.condition for run in teammates.live()] == [Condition.QUEUED]
        await teammates.go_on()
        assert [run.status for run in teammates.live()] == [AgentRunStatus.RUNNING]
        await supervisor.stop()
