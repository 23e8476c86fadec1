"""The client against a server that answers as each test tells it to."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from moot.client.connection import connect
from moot.client.errors import Unreachable, error_from_wire
from moot.domain.errors import BadRequest, Busy, ConfigError, Forbidden, MootError, NotFound
from moot.wire import moot_pb2 as pb
from tests.frame_server import Caller, frame_server, said


def get(name: str) -> pb.ClientMessage:
    return pb.ClientMessage(get_agent=pb.GetAgentMsg(name=name))


async def test_answers_in_any_order_reach_the_request_they_belong_to(tmp_path: Path) -> None:
    held: list[pb.ClientMessage] = []

    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        held.append(message)
        if len(held) == 3:
            for each in reversed(held):
                caller.send(each.request_id, agent_info=pb.AgentInfo(name=each.get_agent.name))

    with frame_server(tmp_path / "s", answer):
        async with connect(tmp_path / "s") as connection, asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(connection.request(get(name))) for name in ("a", "b", "c")]

    assert [task.result().agent_info.name for task in asked] == ["a", "b", "c"]


async def test_an_error_comes_back_as_the_error_that_was_raised_with_its_fix(tmp_path: Path) -> None:
    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        error = pb.ErrorMsg(code=404, type="not_found", message="no agent", fix="make one")
        caller.send(message.request_id, error=error)

    with frame_server(tmp_path / "s", answer):
        async with connect(tmp_path / "s") as connection:
            with pytest.raises(NotFound) as raised:
                await connection.request(get("ghost"))

    assert (raised.value.message, raised.value.fix) == ("no agent", "make one")


async def test_a_stream_yields_every_event_and_stops_after_its_end(tmp_path: Path) -> None:
    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        caller.events(message.request_id, *said("one\ntwo"))

    with frame_server(tmp_path / "s", answer):
        async with connect(tmp_path / "s") as connection:
            stream = connection.stream(pb.StreamMsg(agent="ada", content="hi"))
            kinds = [event.WhichOneof("event") async for event in stream]

    assert kinds == ["start", "text_start", "chunk", "chunk", "text_end", "end"]


async def test_a_stream_that_is_left_early_does_not_disturb_the_next_request(tmp_path: Path) -> None:
    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        if message.HasField("stream"):
            caller.events(message.request_id, *said("one\ntwo"))
        else:
            caller.send(message.request_id, agent_info=pb.AgentInfo(name="ada"))

    with frame_server(tmp_path / "s", answer):
        async with connect(tmp_path / "s") as connection:
            async with aclosing(connection.stream(pb.StreamMsg(agent="ada", content="hi"))) as events:
                await anext(events)
            answered = await connection.request(get("ada"))

    assert answered.agent_info.name == "ada"


async def test_a_cancelled_request_is_forgotten_and_its_late_answer_dropped(tmp_path: Path) -> None:
    first: list[pb.ClientMessage] = []

    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        if not first:
            first.append(message)
            return
        caller.send(first[0].request_id, agent_info=pb.AgentInfo(name="late"))
        caller.send(message.request_id, agent_info=pb.AgentInfo(name="right"))

    with frame_server(tmp_path / "s", answer) as server:
        async with connect(tmp_path / "s") as connection:
            task = asyncio.get_running_loop().create_task(connection.request(get("slow")))
            await asyncio.to_thread(server.wait_for, "get_agent")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            answered = await connection.request(get("next"))

    assert answered.agent_info.name == "right"


async def test_every_waiter_learns_at_once_that_the_daemon_went_away(tmp_path: Path) -> None:
    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        if message.HasField("stream"):
            caller.events(message.request_id, said("x")[0])
        else:
            caller.hang_up()

    with frame_server(tmp_path / "s", answer):
        async with connect(tmp_path / "s") as connection:
            events = connection.stream(pb.StreamMsg(agent="ada", content="hi"))
            await anext(events)
            with pytest.raises(Unreachable):
                await connection.request(get("ada"))
            with pytest.raises(Unreachable):
                await anext(events)
            with pytest.raises(Unreachable):
                await connection.request(get("ada"))


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02\xff\xff", b"HTTP/1.1 400 Bad Request\r\n\r\n"]
)
async def test_garbage_from_the_other_side_is_one_clear_error(tmp_path: Path, data: bytes) -> None:
    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        caller.raw(data)

    with frame_server(tmp_path / "s", answer):
        async with connect(tmp_path / "s") as connection:
            with pytest.raises(Unreachable, match="does not speak"):
                await connection.request(get("ada"))


async def test_a_socket_path_longer_than_the_kernel_takes_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    short = tmp_path / "s"

    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        caller.send(message.request_id, agent_info=pb.AgentInfo(name="ada"))

    with frame_server(short, answer):
        short.rename(deep / "moot.sock")
        async with connect(deep / "moot.sock") as connection:
            answered = await connection.request(get("ada"))

    assert len(str(deep)) > 107
    assert answered.agent_info.name == "ada"


@pytest.mark.parametrize("place", ["absent.sock", "d" * 120 + "/absent.sock"])
async def test_no_daemon_at_the_address_is_unreachable_and_says_how_to_start_it(tmp_path: Path, place: str) -> None:
    with pytest.raises(Unreachable) as raised:
        async with connect(tmp_path / place):
            pass

    assert "moot up" in raised.value.fix


async def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BadRequest):
        async with connect("localhost"):
            pass


async def test_a_token_is_shown_over_tcp_before_anything_else() -> None:
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4))
        message = pb.ClientMessage.FromString(await reader.readexactly(length))
        seen.append(message.hello.token)
        refusal = pb.ServerMessage(error=pb.ErrorMsg(code=401, type="unauthorized", message="no"))
        body = refusal.SerializeToString()
        writer.write(len(body).to_bytes(4) + body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    with pytest.raises(MootError) as raised:
        async with connect(f"{host}:{port}", token="moot_x"):
            pass
    server.close()

    assert seen == ["moot_x"]
    assert raised.value.type == "unauthorized"


async def test_events_are_followed_once_the_daemon_confirmed(tmp_path: Path) -> None:
    async def answer(message: pb.ClientMessage, caller: Caller) -> None:
        caller.send(message.request_id, pong=pb.Pong())
        caller.send(message.request_id, agent_event=pb.AgentEventMsg(agent="ada", content="x"))

    with frame_server(tmp_path / "s", answer):
        async with connect(tmp_path / "s") as connection, aclosing(await connection.subscribe()) as feed:
            event = await anext(feed)

    assert (event.agent, event.content) == ("ada", "x")


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        (403, "forbidden", Forbidden),
        (429, "fell_behind", Busy),
        (503, "bad_config", ConfigError),
        (500, "internal_error", MootError),
        (599, "of tomorrow", MootError),
    ],
)
def test_wire_errors_are_classed_by_type_then_by_code(code: int, kind: str, expected: type[MootError]) -> None:
    error = error_from_wire(code, kind, "message", "fix")

    assert type(error) is expected
    assert error.type == kind


async def test_hanging_up_on_a_daemon_that_does_not_read_does_not_hang(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    server = await asyncio.start_unix_server(deaf, str(tmp_path / "s"), limit=1024)
    async with asyncio.timeout(30), connect(tmp_path / "s") as connection:
        connection.post(pb.ClientMessage(send=pb.SendMsg(agent="ada", content="x" * 8_000_000)))
    release.set()
    server.close()
