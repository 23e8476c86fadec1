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
