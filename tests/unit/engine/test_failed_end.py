"""An end the disk refuses: what is remembered of the conversation is what the disk holds, and the end is owed."""

from pathlib import Path

import pytest

from moot.domain.errors import MootError
from moot.domain.run import Outcome, RunEnd, RunStatus
from tests.unit.engine.engine_kit import Engine, engine
from tests.unit.shelves import ADA


async def remembered(desk: Engine) -> list[str]:
    history = await desk.runs.histories.load(ADA)
    assert history is not None
    return [entry.message.content for entry in history.entries]


async def stored(desk: Engine) -> list[str]:
    return [entry.message.content for entry in await desk.store.list_entries(ADA)]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("content", ["hello", "act"])
async def test_after_a_failed_end_the_history_is_read_from_the_disk_again(
    tmp_path: Path, when: str, content: str
) -> None:
    async with engine(tmp_path) as desk:
        desk.disk.failing["end"] = when
        end = await desk.say(content, "r")
        assert isinstance(end, RunEnd)
        assert (end.outcome, end.content) == (Outcome.INTERNAL_ERROR, "")
        assert "could not be saved" in end.error
        # Whether the disk took it or not, memory says what the disk says: nothing is said twice, nothing is lost.
        assert await remembered(desk) == await stored(desk)


async def test_the_end_is_written_with_the_next_turn_and_both_agree(tmp_path: Path) -> None:
    async with engine(tmp_path) as desk:
        desk.disk.failing["end"] = "before"
        await desk.say("hello", "r")
        assert [run.status for run in await desk.store.list_runs(ADA)] == [RunStatus.RUNNING]
        end = await desk.say("again", "s")
        assert isinstance(end, RunEnd)
        assert end.outcome is Outcome.COMPLETED
        ended = [run.end.outcome for run in await desk.store.list_runs(ADA) if run.end is not None]
        assert ended == [Outcome.INTERNAL_ERROR, Outcome.COMPLETED]
        assert await remembered(desk) == await stored(desk) == ["hello", "again", "You said: again"]


async def test_a_message_the_disk_refused_is_not_remembered_either(tmp_path: Path) -> None:
    async with engine(tmp_path) as desk:
        await desk.say("hello", "r")
        desk.disk.failing["begin"] = "before"
        assert isinstance(await desk.say("lost", "s"), MootError)
        assert await remembered(desk) == await stored(desk) == ["hello", "You said: hello"]
