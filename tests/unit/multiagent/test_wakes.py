"""Runs that mail starts: what one could not begin with is kept for the next."""

import asyncio
from random import Random
from typing import Any, cast

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.agent import Agent
from moot.domain.config import PeersConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Unavailable
from moot.domain.mail import Mail
from moot.domain.ports.storage import Storage
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


async def have_goal(storage: Storage) -> Mail:
    """Have a conversation, and return mail for it."""
    await storage.store.begin(request("run-1", "hi", KEY), now=0.0)
    await storage.store.end(KEY, "run-1", DONE, [], now=0.0)
    goal = await storage.mail.find_goal_of(KEY)
    assert goal is not None
    return Mail(
        id="mail-1", goal_id=goal.id, from_agent="bob", from_goal="", to_agent=KEY.agent, body="hello", sent_at=0.0
    )


def build_wakes(storage: Storage, mailboxes: Mailboxes, runs: FailingRuns, supervisor: Supervisor) -> Wakes:
    return Wakes(
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


async def test_mail_of_a_run_that_never_began_is_given_to_the_next_one() -> None:
    storage = await open_memory_storage(SystemClock())
    mail = await have_goal(storage)
    await storage.mail.send([mail], now=0.0)
    mailboxes, runs = Mailboxes(storage.mail), FailingRuns()
    supervisor = Supervisor(SetClock())
    wakes = build_wakes(storage, mailboxes, runs, supervisor)
    mailboxes.add(KEY)
    wakes.consider(KEY)
    await asyncio.wait(supervisor._tasks)
    assert len(runs.submitted) == 1
    assert await mailboxes.collect(KEY, "run-2") == [mail]


async def test_mail_that_comes_while_a_run_is_being_prepared_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = await open_memory_storage(SystemClock())
    mail = await have_goal(storage)
    mailboxes, runs = Mailboxes(storage.mail), FailingRuns()
    supervisor = Supervisor(SetClock())
    wakes = build_wakes(storage, mailboxes, runs, supervisor)
    list_unread = storage.mail.list_unread

    async def list_late(key: ConversationKey) -> list[Mail]:
        """Return what was there before more arrived."""
        found = await list_unread(key)
        if not found:
            await storage.mail.send([mail], now=0.0)
            mailboxes.add(KEY)
            wakes.consider(KEY)
        return found

    monkeypatch.setattr(storage.mail, "list_unread", list_late)
    mailboxes.add(KEY)
    wakes.consider(KEY)
    await asyncio.wait(supervisor._tasks)
    assert [len(run.delivers) for run in runs.submitted] == [1]
