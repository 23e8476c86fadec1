"""The order in which a chat sends messages and shows the runs of its conversation."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from moot.cli.chat.controller import ChatController
from moot.cli.chat.notification import Notifier
from moot.cli.chat.view import RunView
from moot.cli.markdown.styles import Line
from moot.client.errors import Unreachable
from moot.wire import moot_pb2 as pb


class FakeScreen:
    def __init__(self) -> None:
        self.rows: list[str] = []
        self.shown = 0
        self.notifier = Notifier("off", self.rows.append)

    def columns(self) -> int:
        return 80

    def show(self, *rows: Line) -> None:
        self.rows += ["".join(part[1] for part in row) for row in rows]

    def redraw(self) -> None:
        pass

    def add_to_history(self, _text: str) -> None:
        pass


class FakeConnection:
    """Streams by the message they belong to; each yields what the test puts into its queue."""

    def __init__(self) -> None:
        self.queues: dict[str, asyncio.Queue[pb.StreamEvent]] = {}

    def post(self, message: pb.ClientMessage) -> None:
        pass

    async def stream(self, message: pb.StreamMsg) -> AsyncGenerator[pb.StreamEvent, None]:
        queue = self.queues[message.content]
        while True:
            event = await queue.get()
            yield event
            if event.HasField("end"):
                return


async def let_tasks_run() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize("has_begun", [True, False])
async def test_an_answer_that_arrives_late_is_shown_before_the_next_message(has_begun: bool) -> None:
    """Also if even its start arrives late."""
    chat = ChatController("ada", "me")
    screen, connection = FakeScreen(), FakeConnection()
    chat.screen, chat._connection = cast(Any, screen), cast(Any, connection)
    connection.queues = {"second": asyncio.Queue(), "third": asyncio.Queue()}
    views = {name: RunView("ada", lambda: 0.0, echo=name) for name in connection.queues}
    second, third = (asyncio.create_task(chat.follow(view, pb.StreamMsg(content=name))) for name, view in views.items())

    def send(name: str, **event: Any) -> None:
        connection.queues[name].put_nowait(pb.StreamEvent(**event))

    start = pb.StreamStart(agent="ada", user_seq=3)
    if has_begun:
        send("second", start=start)
    await let_tasks_run()
    # The stream of the next run is faster than the rest of this one.
    send("third", start=pb.StreamStart(agent="ada", user_seq=5))
    send("third", chunk=pb.StreamChunk(content="to the third"))
    send("third", end=pb.StreamEnd(agent="ada"))
    await let_tasks_run()
    if not has_begun:
        send("second", start=start)
    send("second", chunk=pb.StreamChunk(content="to the second"))
    send("second", end=pb.StreamEnd(agent="ada"))
    await asyncio.gather(second, third)

    said = [row for row in screen.rows if row.strip()]
    assert [row.split("›")[1].strip() for row in said if "›" in row] == [
        "second",
        "to the second",
        "third",
        "to the third",
    ]


class LostConnection(FakeConnection):
    """A connection that is lost while the history is read."""

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        if message.HasField("get_history"):
            raise Unreachable("the connection is lost")
        return pb.ServerMessage(welcome=pb.Welcome(default_sender="me"))

    async def subscribe(self) -> AsyncGenerator[pb.AgentEventMsg, None]:
        return cast(Any, None)


async def test_what_waits_to_be_sent_waits_on_if_the_next_connection_is_lost_at_once() -> None:
    chat = ChatController("ada", "me")
    chat.screen = cast(Any, FakeScreen())
    chat.say("first", steer=False)
    chat._entered = True
    with pytest.raises(Unreachable):
        await chat.on_connected(cast(Any, LostConnection()))
    assert [outgoing.typed for outgoing in chat._messages.unsent] == ["first"]
