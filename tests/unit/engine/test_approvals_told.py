"""A decision is never lost, also when it comes between reading what was asked and waiting for it."""

import asyncio
from dataclasses import replace
from pathlib import Path

from moot.domain.approval import Approval, AskState, Decision
from moot.domain.events import EventBody
from moot.engine.approvals import Approvals
from moot.store.approvals import StoredApprovals
from moot.store.sqlite import open_store
from tests.unit.shelves import SetClock, context, talk


class SlowToTell(StoredApprovals):
    """What it reads is told only after somebody has decided on it."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.has_read = asyncio.Event()
        self.is_decided = asyncio.Event()

    async def of_call(self, run_id: str, call_id: str) -> Approval | None:
        found = await super().of_call(run_id, call_id)
        if found is not None:
            self.has_read.set()
            await self.is_decided.wait()
        return found


def asked_for() -> Approval:
    return Approval(
        id="ask-run-1-c1", key=context().key, run_id="run-1", call_id="c1", speaker="ada", tool="exec",
        arguments="{}", subject="true", line="true", preview="", reason="it is dangerous", digest="d",
        opened_at=0.0, expires_at=1e12,
    )  # fmt: skip


async def test_a_no_said_before_the_run_takes_up_its_question_is_heard(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db")
    try:
        await talk(store)
        rows = StoredApprovals(store)
        await rows.open(asked_for())
        approvals = Approvals(store=rows, clock=SetClock(), redact=str)
        await approvals.take_up()
        await approvals.decide("ask-run-1-c1", attempt=1, decision=Decision.DENY, by="owner")
        async with asyncio.timeout(30):
            assert await approvals.request(asked_for(), unheard, seconds=1e9) is AskState.DENIED
        assert await rows.pending() == []
    finally:
        await store.close()


async def test_what_was_granted_and_not_used_in_its_time_is_asked_again(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "moot.db")
    try:
        await talk(store)
        rows = StoredApprovals(store)
        clock = SetClock()
        await rows.open(replace(asked_for(), expires_at=clock.now() + 60))
        await rows.decide("ask-run-1-c1", attempt=1, decision=Decision.ONCE, by="owner", now=clock.now())
        # The daemon was away for longer than the question would have stood.
        clock.at += 61
        asked = asyncio.Event()
        approvals = Approvals(store=rows, clock=clock, redact=str)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            waits = group.create_task(approvals.request(asked_for(), lambda _: asked.set(), seconds=1e9))
            await asked.wait()
            assert not waits.done()
            (again,) = await rows.pending()
            assert (again.id, again.attempt) == ("ask-run-1-c1", 2)
            await approvals.decide("ask-run-1-c1", attempt=2, decision=Decision.DENY, by="owner")
        assert waits.result() is AskState.DENIED
    finally:
        await store.close()


def unheard(_event: EventBody) -> None:
    """Nobody looks."""


async def test_a_run_that_takes_up_its_question_after_a_restart_hears_what_was_decided_meanwhile(
    tmp_path: Path,
) -> None:
    store = await open_store(tmp_path / "moot.db")
    try:
        await talk(store)
        rows = SlowToTell(store)
        await rows.open(asked_for())
        approvals = Approvals(store=rows, clock=SetClock(), redact=str)
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            waits = group.create_task(approvals.request(asked_for(), unheard, seconds=1e9))
            await rows.has_read.wait()
            await approvals.decide("ask-run-1-c1", attempt=1, decision=Decision.ONCE, by="owner")
            rows.is_decided.set()
        assert waits.result() is AskState.GRANTED
    finally:
        await store.close()
