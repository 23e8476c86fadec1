"""A queued message that the disk refuses to begin: it waits, also for the next daemon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import Conflict, StoreError
from moot.domain.run import RunRequest
from moot.engine import turns
from moot.models.scripted import Rule
from tests.daemon_process import eventually
from tests.queued_runs import list_queued_runs
from tests.unit.engine.engine_kit import engine
from tests.unit.shelves import ADA


class FullDisk(dict[str, str]):
    """Every message that is to begin is refused."""

    def pop(self, name: str, default: Any = "") -> Any:
        return "before" if name == "begin" else default


async def test_a_message_that_the_disk_refuses_to_begin_stays_queued_when_the_daemon_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_DISK_SECONDS", 0.0)
    async with engine(tmp_path, Rule(hang=True)) as desk:
        active = desk.start("hello", "one")
        await eventually(lambda: desk.runs.active(ADA) == "one")
        waiting = desk.start("more", "two")
        await eventually(lambda: any(ticket.is_stored for ticket in desk.runs.list_waiting(ADA)))
        desk.disk.failing = FullDisk()
        desk.runs.kill(ADA)
        await active
        await eventually(lambda: desk.runs.active(ADA) == "two")

        await desk.runs.stop(grace=0.0)

        assert isinstance(await waiting, StoreError)
        assert [run.request.id for run in await list_queued_runs(desk.store)] == ["two"]


async def test_a_report_that_is_not_owed_any_more_is_refused_as_such(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with engine(tmp_path, Rule(hang=True)) as desk:
        active = desk.start("hello", "one")
        await eventually(lambda: desk.runs.active(ADA) == "one")
        desk.disk.enqueues.clear()
        report = RunRequest(id="two", key=ADA, speaker="ada", content="Done.", author="operator", delivers=("gone",))
        submitting = asyncio.ensure_future(desk.runs.submit(report))
        await eventually(lambda: desk.runs.list_waiting(ADA))
        desk.runs.kill(ADA)
        await active
        # Its turn has come before it is known whether it is stored.
        await eventually(lambda: desk.runs.active(ADA) == "two")
        desk.disk.enqueues.set()
        with pytest.raises(Conflict, match="was deleted"):
            await (await submitting).wait_end()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
