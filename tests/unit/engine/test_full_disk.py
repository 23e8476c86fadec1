"""A queued message that the disk refuses to begin: it waits, also for the next daemon."""

from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import StoreError
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
