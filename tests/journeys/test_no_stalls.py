"""No request holds the daemon's event loop, however large it is: every type of request at its largest."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import product

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME, find_bounds
from moot.wire.codec import encode_frame
from tests.daemon_process import CONFIG as SCRIPTED
from tests.daemon_process import Home
from tests.daemon_thread import DaemonThread, daemon_thread
from tests.raw_client import Raw, tcp_address
from tests.scripting import call, say, script
from tests.stall_watchdog import watched

CONFIG = SCRIPTED.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
# Hello is the beginning of a connection, and a subscription has many answers.
KINDS = [
    field.name
    for field in pb.ClientMessage.DESCRIPTOR.oneofs_by_name["message"].fields
    if field.name not in ("subscribe_events", "hello")
]
# Calls of functions in one callback of the event loop. To register the longest secret takes half of them; to read one
# of these documents or texts value by value takes many times as many.
MOST_CALLS = 200_000
# Texts that may be anything; every other one has to name something.
VALID_SIZES = {"content": 1_048_576, "jsonl": MAX_FRAME - 600_000, "value": 64_000, "query": 4_000}
# Texts that were made to be slow to read, and requests that read the whole text.
HOSTILE = ("< ", "<from ", "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}from ", "4 ", "a@b.c ", "\\u0041")
READERS = ("send", "start_run", "list_runs", "get_history", "list_traces", "export", "compact")


def _request(kind: str, text: str, *, is_valid: bool) -> pb.ClientMessage:
    message = pb.ClientMessage()
    _fill(getattr(message, kind), text, is_valid=is_valid)
    return message


def _fill(message: Message, text: str, *, is_valid: bool) -> None:
    """Make every text and list of a request as large as it may be; for a valid one only those that may be anything."""
    bounds = find_bounds(message.DESCRIPTOR)
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_STRING:
            value = _text_for(field.name, text, bounds[field.name].characters, is_valid=is_valid)
            if value and field.is_repeated:
                getattr(message, field.name).extend([value] * bounds[field.name].items)
            elif value:
                setattr(message, field.name, value)
        elif field.message_type is not None and not is_valid:
            _fill(getattr(message, field.name), text, is_valid=False)


def _text_for(name: str, text: str, most: int, *, is_valid: bool) -> str:
    if name in ("agent", "name"):
        return "ada"
    if is_valid and name not in VALID_SIZES:
        return ""
    size = min(most, VALID_SIZES.get(name, most))
    if name in ("value", "key"):
        # A secret that does not occur in the other texts.
        return "".join(map(str, range(size)))[:size]
    if name == "jsonl":
        line = json.dumps({"role": "user", "content": text * (1_000_000 // len(text))})
        return "\n".join([line] * (size // len(line) - 1))
    return text * (size // len(text))


@pytest.fixture
def daemon(home: Home) -> Iterator[DaemonThread]:
    with daemon_thread(home) as daemon:
        yield daemon


@asynccontextmanager
async def _clients(daemon: DaemonThread) -> AsyncIterator[dict[str, Raw]]:
    async with daemon.client() as owner:
        token = (await owner.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
    host, _, port = tcp_address(daemon).rpartition(":")
    clients = {
        "owner": Raw(*await asyncio.open_unix_connection(str(daemon.home.socket))),
        "token": Raw(*await asyncio.open_connection(host, int(port))),
    }
    await clients["token"].ask(pb.ClientMessage(hello=pb.Hello(version=1, token=token)))
    try:
        yield clients
    finally:
        for client in clients.values():
            client.writer.close()


async def _answer(client: Raw, message: pb.ClientMessage) -> pb.ServerMessage:
    client.writer.write(encode_frame(message))
    answer = await client.receive()
    while answer.HasField("stream") and not answer.stream.HasField("end"):
        answer = await client.receive()
    return answer


async def _find_stalls(daemon: DaemonThread, requests: Sequence[tuple[str, str, pb.ClientMessage]]) -> list[str]:
    """Send requests one after the other; what held the loop, and where."""
    slow = []
    loop = daemon.loop
    async with _clients(daemon) as clients:
        with watched(loop) as watchdog:
            for who, kind, message in requests:
                watchdog.take_most()
                try:
                    answer = await _answer(clients[who], message)
                except TimeoutError:
                    raise AssertionError(f"no answer to {kind} of the {who}") from None
                calls, stack = watchdog.take_most()
                if calls > MOST_CALLS:
                    slow.append(f"{who} {kind} {answer.WhichOneof('message')}: {calls} calls\n{stack}")
    return slow


async def test_no_request_of_the_largest_size_holds_the_loop(daemon: DaemonThread) -> None:
    requests = [
        (who, kind, _request(kind, "x", is_valid=is_valid))
        for who, kind, is_valid in product(("owner", "token"), KINDS, (False, True))
    ]
    assert await _find_stalls(daemon, requests) == []


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_holds_the_loop(daemon: DaemonThread, text: str) -> None:
    requests = [("owner", kind, _request(kind, text, is_valid=True)) for kind in READERS]
    assert await _find_stalls(daemon, requests) == []


async def test_requests_beyond_their_bounds_are_rejected_before_they_are_read(daemon: DaemonThread) -> None:
    many = [""] * 3_000_000
    for message in (
        pb.ClientMessage(new_token=pb.NewTokenMsg(name="x", senders=many)),
        pb.ClientMessage(wait_runs=pb.WaitRunsMsg(run_ids=many)),
        pb.ClientMessage(kill=pb.KillMsg(agent="x" * 15_000_000)),
        pb.ClientMessage(send=pb.SendMsg(agent="ada", content="x" * 15_000_000)),
    ):
        async with _clients(daemon) as clients:
            with watched(daemon.loop) as watchdog:
                assert (await _answer(clients["owner"], message)).error.code == 413
                calls, stack = watchdog.take_most()
            assert calls < MOST_CALLS, stack
        async with daemon.client() as owner:
            await owner.ask(revoke_token=pb.RevokeTokenMsg(name="phone"))


# Documents that are slow to read: very many values, names or columns, and names that are nearly right.
DOCUMENTS = (
    "[" + "{}," * 690_000 + "{}]",
    '[{"id": "a", "relations": [' + ",".join(['{"predicate": "p", "object": "o"}'] * 60_000) + "]}]",
    '{"entities": [], "types": [' + ",".join(f'"kind{number}"' for number in range(150_000)) + "]}",
    '[{"id": "a", "properties": {' + ",".join(f'"k{number}": 1' for number in range(130_000)) + "}}]",
)


async def test_no_document_for_the_graph_holds_the_loop(daemon: DaemonThread) -> None:
    requests = [
        ("token", "import_graph", pb.ClientMessage(import_graph=pb.ImportGraphMsg(content=text))) for text in DOCUMENTS
    ]
    assert await _find_stalls(daemon, requests) == []


_STEPS = "".join(f"- {{id: step{number}, prompt: x, depends_on: [stop{number}]}}\n" for number in range(1_999))
HOSTILE_CALLS = {
    "workflow_run": {"yaml_content": f"name: a\nsteps:\n{_STEPS}"},
    "workflow_save": {"name": "a", "yaml_content": "name: a\n" + "".join(f"naem{n}: 1\n" for n in range(45_000))},
    "ontology_import_csv": {"type": "thing", "data": ",".join(f"c{number}" for number in range(100_000))},
    "ontology_import_json": {"data": "[" + "{}," * 300_000 + "{}]"},
    "ontology_from_mcp": {
        "tool_name": "t",
        "entity_type": "thing",
        "predicate": "made_by",
        "result_json": json.dumps({f"key{number}": "x" for number in range(40_000)}),
    },
}


@pytest.mark.parametrize("tool", HOSTILE_CALLS)
async def test_no_call_of_a_tool_holds_the_loop(home: Home, tool: str) -> None:
    steps = [call(tool, json.dumps(HOSTILE_CALLS[tool])), say("done")]
    home.write_script(script({"match": "^go", "steps": steps}, {"reply": "hello"}))
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            # The script is read with the first message.
            await talk.say("moot", "hi")
            with watched(daemon.loop) as watchdog:
                (result,) = (await talk.say("moot", "go")).of("tool_result")
                calls, stack = watchdog.take_most()
        assert result.is_error
        assert calls < MOST_CALLS, stack
