"""A message that is run again in its place, and steered before its run has written anything."""

import asyncio
from pathlib import Path

from moot.domain.message import Role
from moot.domain.run import Outcome, RunRequest
from moot.engine.turn import Briefing, Turn
from moot.models.scripted import Rule
from tests.unit.engine.engine_kit import CALLING, TALKING, engine
from tests.unit.shelves import ADA


def request(run_id: str, content: str, message_id: str = "") -> RunRequest:
    return RunRequest(id=run_id, key=ADA, speaker="ada", content=content, client_message_id=message_id)


async def test_the_later_message_is_shown_after_the_first_step_and_belongs_to_the_turn(tmp_path: Path) -> None:
    """Before that step, the entry in front of it would be of the earlier run, as in front of a turn of its own."""
    briefing, go_on = asyncio.Event(), asyncio.Event()

    async def brief(turn: Turn) -> Briefing:
        if turn.request.id == "run-2":
            briefing.set()
            await go_on.wait()
        return Briefing()

    failing = Rule(match="act", error="the model is on fire", times=1)
    async with engine(tmp_path, failing, CALLING, TALKING, brief=brief) as made:
        end = await made.follow(await made.runs.submit(request("run-1", "act", "m1")))
        assert getattr(end, "outcome", end) is Outcome.MODEL_ERROR
        again = await made.runs.submit(request("run-2", "act", "m1"))
        await briefing.wait()
        steered = await made.runs.submit(request("run-3", "and then"), steer=True)
        go_on.set()
        await made.follow(again)
        await made.follow(steered)
        entries = await made.store.list_entries(ADA)
        assert [(entry.message.role, entry.run_id) for entry in entries] == [
            (Role.USER, "run-1"),
            (Role.ASSISTANT, "run-2"),
            (Role.TOOL, "run-2"),
            (Role.USER, "run-2"),
            (Role.ASSISTANT, "run-2"),
        ]
