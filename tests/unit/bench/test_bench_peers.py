"""The benchmark's server answers peers as it answers us, and the comparison's ratios are to the raw client."""

import asyncio
import json

from bench.beside import rows, table
from bench.mock import Mock, reply_text
from bench.work import Tally

LEAD = {"role": "system", "content": "You lead a team."}
MATE = {"role": "system", "content": "You work as a teammate."}
USER = {"role": "user", "content": "Begin."}
RESULT = {"role": "tool", "tool_call_id": "call_0", "content": "done"}


async def ask(options: str, *messages: dict[str, str], stream: bool = False) -> str:
    """The body of the server's answer to one request."""
    server = await asyncio.get_running_loop().create_server(Mock, "127.0.0.1", 0)
    async with server, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        body = json.dumps({"stream": stream, "messages": messages}, separators=(",", ":")).encode()
        writer.write(b"POST %s/v1/chat/completions HTTP/1.1\r\n" % options.encode())
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        head = await reader.readuntil(b"\r\n\r\n")
        if b"chunked" in head:
            answer = await reader.readuntil(b"0\r\n\r\n")
        else:
            answer = await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
        writer.close()
        await writer.wait_closed()
        return answer.decode()


def message(answer: str) -> dict[str, object]:
    told: dict[str, object] = json.loads(answer)["choices"][0]["message"]
    return told


def calls(answer: str) -> list[tuple[str, dict[str, str]]]:
    made = message(answer)["tool_calls"]
    assert isinstance(made, list)
    return [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in made]


def test_a_client_that_does_not_stream_is_told_to_call_the_tool_and_then_the_words() -> None:
    assert calls(asyncio.run(ask("/t1", USER))) == [("echo", {"text": "as it is"})]
    assert message(asyncio.run(ask("/t1", USER, RESULT)))["content"] == reply_text()


def test_who_leads_is_told_to_spawn_and_speaks_once_what_the_teammates_said_is_there() -> None:
    wanted = [("agent_spawn", {"instruction": f"Part {part}.", "agent": "planner"}) for part in range(3)]
    assert calls(asyncio.run(ask("/d3", LEAD, USER))) == wanted
    assert message(asyncio.run(ask("/d3", LEAD, USER, RESULT)))["content"] == reply_text()


def test_a_teammate_only_speaks() -> None:
    assert message(asyncio.run(ask("/d3", MATE, USER)))["content"] == reply_text()


def test_who_leads_and_streams_is_told_the_spawns_as_a_stream() -> None:
    streamed = asyncio.run(ask("/d3", LEAD, USER, stream=True))
    assert streamed.count("agent_spawn") == 3
    assert "chat.completion.chunk" in streamed


def test_a_row_tells_every_column_in_its_unit_and_as_a_multiple_of_raw() -> None:
    tally = Tally()
    for series, seconds in (("raw.team", 0.1), ("moot.team", 0.2), ("langgraph.team", 0.8), ("langgraph.rate", 5.0)):
        tally.add(series, seconds)
    [team] = [row for row in rows(tally) if row["name"] == "team"]
    assert team["measured"] == {"raw": 100.0, "moot": 200.0, "openai_agents": None, "langgraph": 800.0}
    assert team["times_raw"] == {"moot": 2.0, "openai_agents": None, "langgraph": 8.0}
    [line] = [line for line in table(tally).splitlines() if line.startswith("spawn and finish 100")]
    assert line.split()[4:] == ["100", "ms", "200", "ms", "2.00", "800", "ms", "8.00"]
