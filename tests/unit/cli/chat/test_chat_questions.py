"""Which question the chat shows as open while lists and events of the daemon arrive in any order."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from moot.cli.chat.controller import ChatController
from moot.cli.chat.view import RunView
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb
from tests.unit.cli.chat.test_chat_order import FakeScreen, let_tasks_run

QUESTION = pb.AskQuestion(question="Which?", options=[pb.AskOption(label="Red"), pb.AskOption(label="Blue")])
ASKED = pb.AskUserEvent(ask_id="q1", attempt=1, questions=[QUESTION])


class AskingConnection:
    """A run whose events the test puts into a queue, and a list of open asks that comes when the test says so."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.events: asyncio.Queue[pb.StreamEvent] = asyncio.Queue()
        self.listed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.attempt = 1
        self._refuses = refuses

    def post(self, message: pb.ClientMessage) -> None:
        pass

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        if message.HasField("list_asks"):
            await self.listed
            info = pb.AskInfo(ask_id="q1", attempt=self.attempt, kind="question", agent="ada", sender="me")
            info.questions.append(QUESTION)
            return pb.ServerMessage(ask_list=pb.AskList(asks=[info]))
        if self._refuses:
            raise BadRequest("the reply is too long", fix="Shorten it.")
        return pb.ServerMessage(pong=pb.Pong())

    async def stream(self, message: pb.StreamMsg) -> AsyncGenerator[pb.StreamEvent, None]:
        while True:
            event = await self.events.get()
            yield event
            if event.HasField("end"):
                return


def start_chat(connection: AskingConnection, tasks: asyncio.TaskGroup) -> ChatController:
    """A chat that follows a run which asks a question."""
    chat = ChatController("ada", "me")
    chat.screen, chat.tasks, chat._connection = cast(Any, FakeScreen()), tasks, cast(Any, connection)
    chat._entered = True
    tasks.create_task(chat.follow(RunView("ada", lambda: 0.0, echo="ask me"), pb.StreamMsg(content="ask me")))
    connection.events.put_nowait(pb.StreamEvent(start=pb.StreamStart(agent="ada", user_seq=3)))
    connection.events.put_nowait(pb.StreamEvent(ask_user=ASKED))
    return chat


def is_asking(chat: ChatController) -> bool:
    return "answer" in "".join(part[1] for part in chat.prompt())


async def test_a_list_that_was_requested_before_the_answer_does_not_show_the_question_again() -> None:
    connection = AskingConnection()
    async with asyncio.TaskGroup() as tasks:
        chat = start_chat(connection, tasks)
        await let_tasks_run()
        assert is_asking(chat)
        listing = tasks.create_task(chat.refresh_asks())
        await let_tasks_run()
        chat.submit("1")
        await let_tasks_run()
        connection.events.put_nowait(
            pb.StreamEvent(ask_closed=pb.AskClosedEvent(ask_id="q1", answered=True, attempt=1))
        )
        connection.events.put_nowait(pb.StreamEvent(end=pb.StreamEnd(agent="ada")))
        await let_tasks_run()
        connection.listed.set_result(None)
        await listing
        assert not is_asking(chat)
        # Asked again under the same id, it is shown.
        connection.attempt = 2
        await chat.refresh_asks()
        assert is_asking(chat)


async def test_a_question_whose_answer_is_refused_is_asked_again() -> None:
    connection = AskingConnection(refuses=True)
    async with asyncio.TaskGroup() as tasks:
        chat = start_chat(connection, tasks)
        await let_tasks_run()
        chat.submit("1")
        assert not is_asking(chat)
        await let_tasks_run()
        assert is_asking(chat)
        connection.events.put_nowait(pb.StreamEvent(end=pb.StreamEnd(agent="ada")))


async def test_long_options_go_on_below_themselves() -> None:
    described = " ".join(["It", "has", "a", "very", "long", "description."] * 5)
    option = pb.AskOption(label="Red", description=described)
    asked = pb.AskUserEvent(
        ask_id="q1", attempt=1, questions=[pb.AskQuestion(question="Which?", options=[option, option])]
    )
    connection = AskingConnection()
    async with asyncio.TaskGroup() as tasks:
        chat = start_chat(connection, tasks)
        connection.events.put_nowait(pb.StreamEvent(ask_user=asked))
        await let_tasks_run()
        rows = "".join(part[1] for part in chat.live()).split("\n")
        connection.events.put_nowait(pb.StreamEvent(end=pb.StreamEnd(agent="ada")))
    first = next(index for index, row in enumerate(rows) if row.startswith("  1. Red"))
    under = rows[first + 1 : next(index for index, row in enumerate(rows) if row.startswith("  2. Red"))]
    assert under
    assert all(row.startswith("    ") for row in under), rows
