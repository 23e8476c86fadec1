"""A decision is never lost, also when it comes between reading what was asked and waiting for it."""

import asyncio
from pathlib import Path

import pytest

from moot.daemon.clock import ManualClock, SystemClock
from moot.domain.approval import Decision
from moot.domain.ask import Ask, AskKind, AskReply, AskState, Question
from moot.domain.errors import Fenced
from moot.domain.events import EventBody
from moot.domain.ports.clock import Timeout
from moot.domain.run import RunRequest
from moot.store.asks import SqliteAsks
from moot.store.connection import Tuning
from moot.store.sqlite import SqliteStore, open_store
from tests.unit.shelves import ADA, SetClock, approval, asks_over, talk


async def test_a_no_said_before_the_run_takes_up_its_question_is_heard(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        rows = SqliteAsks(store)
        await rows.open(approval(expires_at=1e12))
        asks = asks_over(store)
        await asks.start()
        await asks.decide("ask-run-1-c1", attempt=1, decision=Decision.DENY, by="owner")
        async with asyncio.timeout(30):
            assert await asks.request_approval(approval(), unheard, seconds=1e9) is AskState.DENIED
        assert await asks.list_pending() == []
    finally:
        await store.close()


async def test_what_was_granted_and_not_used_in_its_time_is_asked_again(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        rows = SqliteAsks(store)
        clock = SetClock()
        await rows.open(approval(expires_at=clock.now() + 60))
        await rows.decide("ask-run-1-c1", attempt=1, decision=Decision.ONCE, by="owner", now=clock.now())
        # The daemon was away for longer than the question would have stood.
        clock.at += 61
        asked = asyncio.Event()
        asks = asks_over(store, clock=clock)
        await asks.start()
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            waits = group.create_task(asks.request_approval(approval(), lambda _: asked.set(), seconds=1e9))
            await asked.wait()
            assert not waits.done()
            (again,) = await asks.list_pending()
            assert (again.id, again.attempt) == ("ask-run-1-c1", 2)
            await asks.decide("ask-run-1-c1", attempt=2, decision=Decision.DENY, by="owner")
        assert waits.result() is AskState.DENIED
    finally:
        await store.close()


class NotedClock(ManualClock):
    """Notes that somebody waits with a time limit."""

    def __init__(self) -> None:
        super().__init__()
        self.is_used = asyncio.Event()

    def timeout(self, seconds: float | None) -> Timeout:
        self.is_used.set()
        return super().timeout(seconds)


async def test_what_waits_expires_after_the_clock_was_set_forward_or_the_computer_slept(tmp_path: Path) -> None:
    """It can no longer be decided by then, so its run would wait for nothing."""
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        clock = NotedClock()
        asks = asks_over(store, clock=clock)
        await asks.start()
        waits = asyncio.create_task(asks.request_approval(approval(), unheard, seconds=86_400))
        async with asyncio.timeout(30):
            await clock.is_used.wait()
        clock._start += 100_000
        await clock.advance(60)
        async with asyncio.timeout(30):
            assert await waits is AskState.EXPIRED
        assert await asks.list_pending() == []
    finally:
        await store.close()


async def test_what_waits_lasts_no_longer_because_the_clock_was_set_back(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        clock = NotedClock()
        asks = asks_over(store, clock=clock)
        await asks.start()
        waits = asyncio.create_task(asks.request_approval(approval(), unheard, seconds=150))
        async with asyncio.timeout(30):
            await clock.is_used.wait()
        clock._start -= 100_000
        await clock.advance(149)
        assert not waits.done()
        await clock.advance(1)
        async with asyncio.timeout(30):
            assert await waits is AskState.EXPIRED
    finally:
        await store.close()


def unheard(_event: EventBody) -> None:
    """Nobody looks."""


async def test_a_run_that_takes_up_its_ask_after_a_restart_hears_what_was_decided_meanwhile(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)
        await SqliteAsks(store).open(approval(expires_at=1e12))
        asks = asks_over(store)
        await asks.start()
        await asks.decide("ask-run-1-c1", attempt=1, decision=Decision.ONCE, by="owner")
        async with asyncio.timeout(30):
            assert await asks.request_approval(approval(), unheard, seconds=1e9) is AskState.GRANTED
            # It was used with that: the same call is not approved twice.
            asked = asyncio.Event()
            again = asyncio.create_task(asks.request_approval(approval(), lambda _: asked.set(), seconds=1e9))
            await asked.wait()
            again.cancel()
    finally:
        await store.close()


async def test_an_answer_that_comes_as_the_time_is_up_counts(tmp_path: Path) -> None:
    """Who answered was told that it counts, so it does."""
    store = await open_store(tmp_path / "moot.db", SystemClock())
    try:
        await talk(store)

        class AnsweredInTheLastMoment(SqliteAsks):
            async def close(self, ask_id: str, state: AskState, *, now: float) -> Ask | None:
                await self.answer(ADA, AskReply(content="blue", by="owner"), now=clock.now())
                return await super().close(ask_id, state, now=now)

        clock = SetClock()
        asks = asks_over(store, rows=AnsweredInTheLastMoment(store), clock=clock)
        async with asyncio.timeout(30):
            assert await asks.ask_question(question(), unheard, seconds=0.01) == "blue"
    finally:
        await store.close()


def question() -> Ask:
    return approval(kind=AskKind.QUESTION, questions=(Question(question="Which colour?"),))


async def open_second_handle(store: SqliteStore) -> SqliteStore:
    """Another holder of the store that writes for the same node."""
    return SqliteStore(store.path, Tuning(), store.node, SystemClock())


async def test_an_answer_that_another_holder_of_the_store_commits_wakes_the_waiting_run(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    other = await open_second_handle(store)
    try:
        await talk(store)
        asks, asked = asks_over(store), asyncio.Event()
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            waits = group.create_task(asks.ask_question(question(), lambda _: asked.set(), seconds=1e9))
            await asked.wait()
            await asks.refresh(question().id)
            assert not waits.done()
            answered = await SqliteAsks(other).answer(ADA, AskReply(content="blue", by="owner"), now=1_000_001.0)
            await asks.refresh(answered.id)
        assert waits.result() == "blue"
    finally:
        await other.close()
        await store.close()


async def test_an_answer_before_the_run_waits_is_not_missed(tmp_path: Path) -> None:
    """The row can be seen and answered as soon as it is stored."""
    store = await open_store(tmp_path / "moot.db", SystemClock())

    class AnsweredAtOnce(SqliteAsks):
        async def open(self, ask: Ask) -> Ask:
            opened = await super().open(ask)
            await self.answer(ADA, AskReply(content="blue", by="owner"), now=1_000_001.0)
            return opened

    try:
        await talk(store)
        asks = asks_over(store, rows=AnsweredAtOnce(store))
        async with asyncio.timeout(30):
            assert await asks.ask_question(question(), unheard, seconds=1e9) == "blue"
    finally:
        await store.close()


async def test_a_run_that_waits_learns_that_another_daemon_has_taken_it_over(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db", SystemClock())
    asks, asked = asks_over(store), asyncio.Event()
    await store.begin(RunRequest(id="run-1", key=ADA, speaker="ada", content="hi"), now=1.0)
    async with asyncio.timeout(30):
        waits = asyncio.create_task(asks.ask_question(question(), lambda _: asked.set(), seconds=1e9))
        await asked.wait()
        other = await open_store(tmp_path / "moot.db", SystemClock())
        try:
            await other.recover()
            await asks.refresh_all()
            with pytest.raises(Fenced, match=f"node {other.node}"):
                await waits
            # The question stays open for the daemon that has it.
            assert [ask.id for ask in await SqliteAsks(other).list_open(here=True)] == [question().id]
        finally:
            await other.close()
            await store.close()
