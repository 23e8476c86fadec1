"""A message is told as withdrawn only if it was waiting: one that the disk refuses was never there."""

import asyncio
from pathlib import Path

import pytest

from moot.domain.errors import NotFound, StoreError
from moot.domain.run import RunRequest
from moot.models.scripted import Rule
from tests.daemon_process import eventually
from tests.unit.engine.engine_kit import engine
from tests.unit.shelves import ADA


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_message_that_is_withdrawn_while_the_disk_refuses_it_is_not_told_as_withdrawn(
    tmp_path: Path, is_refused: bool
) -> None:
    async with engine(tmp_path, Rule(hang=True)) as desk:
        active = desk.start("hello", "one")
        await eventually(lambda: desk.runs.active(ADA) == "one")
        desk.disk.enqueues.clear()
        if is_refused:
            desk.disk.failing["enqueue"] = "before"
        waiting = desk.start("more", "two")
        await eventually(lambda: desk.runs.list_waiting(ADA))
        withdrawing = asyncio.ensure_future(desk.runs.withdraw(ADA))
        await eventually(lambda: not desk.runs.list_waiting(ADA))
        desk.disk.enqueues.set()
        if is_refused:
            with pytest.raises(NotFound, match="no message waits"):
                await withdrawing
            with pytest.raises(StoreError):
                await waiting
        else:
            assert (await withdrawing).id == "two"
            await waiting
        assert desk.runs.list_waiting(ADA) == []
        desk.runs.kill(ADA)
        await active


async def test_a_report_of_a_teammate_cannot_be_withdrawn(tmp_path: Path) -> None:
    async with engine(tmp_path, Rule(hang=True)) as desk:
        active = desk.start("hello", "one")
        await eventually(lambda: desk.runs.active(ADA) == "one")
        report = RunRequest(id="two", key=ADA, speaker="ada", content="It is done.", author="operator")
        await desk.runs.submit(report)
        with pytest.raises(NotFound, match="no message waits"):
            await desk.runs.withdraw(ADA)
        assert len(desk.runs.list_waiting(ADA)) == 1
        desk.runs.kill(ADA)
        await active
