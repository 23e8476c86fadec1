"""Following a run: what is noticed when several answers of the daemon come at once."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from moot.client.errors import WaitingForPerson
from moot.client.link import Link
from moot.client.turn import Turn
from moot.client.values import Approval
from moot.wire import moot_pb2 as pb


class AnsweredOnce:
    """A request whose answer is there at once, for the first who takes it."""

    def __init__(self) -> None:
        self._is_taken = False

    async def answer(self) -> pb.ServerMessage:
        assert not self._is_taken, "nothing more comes"
        self._is_taken = True
        return pb.ServerMessage(run_list=pb.RunList(runs=[pb.RunInfo(run_id="run-1")]))

    def forget(self) -> None:
        return


class TwoAsks:
    """A connection to a run that opens two asks and then waits."""

    async def open(self) -> "TwoAsks":
        return self

    def send(self, _message: pb.ClientMessage) -> AnsweredOnce:
        return AnsweredOnce()

    async def stream(self, _message: Any) -> AsyncGenerator[pb.StreamEvent, None]:
        yield pb.StreamEvent(start=pb.StreamStart(run_id="run-1"))
        for ask_id in ("ask-1", "ask-2"):
            yield pb.StreamEvent(approval_opened=pb.ApprovalEvent(ask_id=ask_id, attempt=1, tool="exec", line="ls"))
        await asyncio.Event().wait()


async def leave_all(turn: Turn) -> None:
    async for item in turn.items(cast("Link", TwoAsks())):
        if isinstance(item, Approval):
            turn.leave(item)


async def test_an_ask_that_comes_together_with_the_end_of_the_wait_does_not_hide_it() -> None:
    with pytest.raises(WaitingForPerson):
        await leave_all(Turn(pb.StreamMsg(), detach=True))
