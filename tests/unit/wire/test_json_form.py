"""The protocol as JSON: the names of the .proto file, and a reason for what cannot be read."""

import json

import pytest

from moot.domain.errors import BadRequest
from moot.wire import json_form
from moot.wire import moot_pb2 as pb


def test_messages_use_the_names_of_the_proto_file() -> None:
    message = pb.ServerMessage(request_id=5, stream=pb.StreamEvent(text_start=pb.TextStartEvent(agent="é")))

    assert json.loads(json_form.encode(message)) == {"request_id": "5", "stream": {"text_start": {"agent": "é"}}}


@pytest.mark.parametrize("request_id", [0, 1, 2**64 - 1])
def test_a_request_id_is_added_to_encoded_text(request_id: int) -> None:
    encoded = json_form.encode(pb.ServerMessage(pong=pb.Pong()))

    document = json.loads(json_form.with_request_id(encoded, request_id))

    assert document.pop("request_id", "0") == str(request_id)
    assert document == {"pong": {}}


def test_a_request_is_read() -> None:
    text = '{"request_id": "3", "stream": {"agent": "crab", "content": "h\\u00e9", "limits": {"steps": 2}}}'

    message = json_form.decode_client(text)

    limits = pb.RunLimits(steps=2)
    assert message == pb.ClientMessage(request_id=3, stream=pb.StreamMsg(agent="crab", content="hé", limits=limits))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "null",
        "[]",
        "{",
        '{"nope": {}}',
        '{"send": {"contents": "x"}}',
        '{"send": {"content": 5}}',
        '{"send": {"content": "\\ud800"}}',
        '{"send": {}, "kill": {}}',
        '{"request_id": -1}',
        '{"request_id": ' + "9" * 5000 + "}",
        '{"send":' * 5000,
        '{"a":' + "[" * 100_000,
    ],
    ids=range(14),
)
def test_what_is_not_a_request_is_refused_on_one_line(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        json_form.decode_client(text)
    assert "\n" not in refused.value.message
    assert refused.value.fix


_TWICE = {
    "requests": '{"get_history": {"agent": "ada"}, "get_history": {"agent": "bob"}}',
    "names": '{"get_history": {"agent": "ada"}, "getHistory": {"agent": "bob"}}',
    "escapes": '{"get_history": {"agent": "ada"}, "get\\u005fhistory": {"agent": "bob"}}',
    "request ids": '{"request_id": 1, "request_id": 2, "ping": {}}',
    "fields": '{"send": {"agent": "ada", "content": "x", "agent": "bob"}}',
    "texts": '{"send": {"agent": "ada", "content": "x", "content": "y"}}',
    "inner fields": '{"send": {"agent": "ada", "limits": {"steps": 1, "steps": 2}}}',
}


@pytest.mark.parametrize("text", _TWICE.values(), ids=list(_TWICE))
@pytest.mark.parametrize("padding", ["", " " * 40_000], ids=["small", "large"])
def test_a_key_that_is_given_twice_is_refused_whatever_the_size(text: str, padding: str) -> None:
    with pytest.raises(BadRequest):
        json_form.decode_client(text[0] + padding + text[1:])


def test_a_large_request_is_read_with_either_spelling_of_its_fields() -> None:
    content = "é" * 20_000
    given = json.dumps({"request_id": "4", "send": {"agent": "ada", "content": content, "clientMessageId": "one"}})
    send = pb.SendMsg(agent="ada", content=content, client_message_id="one")
    assert json_form.decode_client(given) == pb.ClientMessage(request_id=4, send=send)
