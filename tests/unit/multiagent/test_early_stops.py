"""Before a run has begun: stopped then it does nothing, and after a restart none begins before all are known."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moot.domain.config import AgentConfig
from moot.domain.errors import MootError, StoreError
from moot.domain.events import Event, RunEnded
from moot.domain.run import Delivery, Outcome, RunEnd, RunRequest
from moot.domain.run_view import Condition, TeammateStatus
from moot.domain.senders import SenderSet
from moot.engine.supervisor import Supervisor
from moot.models.scripted import Rule
from moot.multiagent.partition import Partition
from moot.multiagent.teammates.dependencies import TeammateDependencies
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.multiagent.teammates.run_factory import SpawnRequest, build_background_run, build_request
from moot.multiagent.teammates.teammates import Teammates
from tests.daemon_process import eventually
from tests.unit.engine.engine_kit import Engine, engine
from tests.unit.shelves import ADA, SetClock, asks_over

ASKED = SpawnRequest(agent="ada", instruction="go")


def team(built: Engine) -> tuple[Teammates, Supervisor]:
    supervisor, clock = Supervisor(SetClock()), SetClock()
    dependencies = TeammateDependencies(
        runs=built.runs,
        live=LiveRuns(supervisor, clock),
        store=built.store,
        asks=asks_over(built.store, clock=clock),
        partition=lambda: Partition((), {}),
        is_coordinator=lambda _name: False,
        config=AgentConfig,
        is_repeatable=lambda _name: False,
        clock=clock,
        rng=Random(1),
        supervisor=supervisor,
        traces=built.notes,
        bus=built.bus,
        stop=lambda _key: None,
    )
    return Teammates(dependencies), supervisor


@asynccontextmanager
async def hanging_team(folder: Path) -> AsyncIterator[tuple[Teammates, Engine]]:
    """A team whose model never answers."""
    async with asyncio.timeout(30), engine(folder, Rule(hang=True)) as built:
        teammates, supervisor = team(built)
        teammates.resume()
        try:
            yield teammates, built
        finally:
            await supervisor.stop()


async def test_what_is_kept_for_one_that_was_stopped_meanwhile_is_ended_and_never_begins(tmp_path: Path) -> None:
    async with hanging_team(tmp_path) as (teammates, built):
        starting = asyncio.create_task(teammates.start(ASKED, owner="user", cwd=""))
        # One step hands it to the writer; nobody waits for what the writer says.
        await asyncio.sleep(0)
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        assert starting.cancelled()

        async def ended() -> bool:
            kept = await built.store.list_ended_runs(SenderSet(is_everyone=True), limit=1)
            return [(run.end.outcome, run.delivery) for run in kept if run.end] == [(Outcome.CANCELLED, Delivery.NONE)]

        await eventually(ended)
        assert await built.store.list_live_runs() == []
        assert teammates.local_runs() == []


async def test_a_run_that_is_stopped_as_soon_as_it_is_kept_does_not_go_on(tmp_path: Path) -> None:
    async with hanging_team(tmp_path) as (teammates, _built):
        run = await teammates.start(ASKED, owner="user", cwd="")
        stopped = await teammates.stop(run.id)
        assert stopped.end is not None
        assert stopped.end.outcome is Outcome.CANCELLED


async def test_an_end_that_the_disk_refuses_is_kept_once_it_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hanging_team(tmp_path) as (teammates, built):
        run = await teammates.start(ASKED, owner="user", cwd="")
        await eventually(lambda: built.runs.active(run.run.key) == run.id)
        end, refusals = built.store.end, iter(range(2))

        def refused(*given: Any, **more: Any) -> "asyncio.Future[Any]":
            if next(refusals, None) is None:
                return end(*given, **more)
            full: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            full.set_exception(StoreError("the disk is full"))
            return full

        monkeypatch.setattr(built.store, "end", refused)
        await teammates.stop(run.id)
        await teammates.wait_for_end([run.id], seconds=30, every=True)
        # Nobody waits for it in vain, its slot is free, and its end is on disk.
        assert teammates.local_runs() == []
        kept = await built.store.get_run(run.id)
        assert kept is not None
        assert kept.end is not None


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
        teammates, supervisor = team(built)
        waits = build_background_run(ASKED, run_id="arun-1", owner="user", cwd="", now=1.0)
        ended = build_background_run(ASKED, run_id="arun-2", owner="user", cwd="", now=1.0)
        for run in (waits, ended):
            await built.store.spawn(run)
        await built.store.begin(build_request(ended, Partition((), {})), now=1.0)
        await built.store.end(ended.key, ended.id, RunEnd(outcome=Outcome.COMPLETED), (), now=2.0)
        # As if the daemon before this one had left them.
        await built.store.write(lambda db: db.execute("UPDATE runs SET epoch = 0") and None)
        await teammates.recover(await built.store.recover())
        # The slot of the one that has ended is free, and still nobody takes it.
        assert [run.block.condition for run in teammates.local_runs()] == [Condition.QUEUED]
        teammates.resume()
        assert [run.status for run in teammates.local_runs()] == [TeammateStatus.RUNNING]
        await supervisor.stop()
