"""Runs that mail starts: what one could not begin with is kept for the next."""

import asyncio
from random import Random
from typing import Any, cast

from moot.domain.agent import Agent
from moot.domain.config import PeersConfig
from moot.domain.errors import Unavailable
from moot.domain.mail import Mail
from moot.domain.run import RunRequest
from moot.engine.bus import Bus
from moot.engine.mailboxes import Mailboxes
from moot.engine.run_stream import RunStream
from moot.engine.supervisor import Supervisor
from moot.multiagent.peers.wakes import Wakes
from moot.store.memory.storage import open_memory_storage
from tests.contracts.store_kit import DONE, KEY, request
from tests.unit.events import SOURCE
from tests.unit.shelves import SetClock


class FailingRuns:
    """Accepts a run that then cannot begin."""

    def __init__(self) -> None:
        self.submitted: list[RunRequest] = []

    def has_local_work(self, key: object) -> bool:
        return False

    async def submit(self, submitted: RunRequest) -> RunStream:
        self.submitted.append(submitted)
        stream = RunStream(SOURCE)
        asyncio.get_running_loop().call_soon(stream.fail, Unavailable("the disk is full", fix="Free some space."))
        return stream


async def test_mail_of_a_run_that_never_began_is_given_to_the_next_one() -> None:
    storage = await open_memory_storage()
    await storage.store.begin(request("run-1", "hi", KEY), now=0.0)
    await storage.store.end(KEY, "run-1", DONE, [], now=0.0)
    goal = await storage.mail.find_goal_of(KEY)
    assert goal is not None
    mail = Mail(
        id="mail-1", goal_id=goal.id, from_agent="bob", from_goal="", to_agent=KEY.agent, body="hello", sent_at=0.0
    )
    await storage.mail.send([mail], now=0.0)
    mailboxes, runs = Mailboxes(storage.mail), FailingRuns()
    supervisor = Supervisor(SetClock())
    wakes = Wakes(
        mail=storage.mail,
        mailboxes=mailboxes,
        runs=cast(Any, runs),
        find_agent=lambda name: Agent(name=name, description="", instruction="", wake=True),
        config=PeersConfig,
        supervisor=supervisor,
        bus=Bus(clock=SetClock()),
        clock=SetClock(),
        rng=Random(1),
    )
    mailboxes.add(KEY)
    wakes.consider(KEY)
    await asyncio.wait(supervisor._tasks)
    assert len(runs.submitted) == 1
    assert await mailboxes.collect(KEY, "run-2") == [mail]
