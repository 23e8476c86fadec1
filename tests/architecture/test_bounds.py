"""Every text and list of every request has a bound, and the bounds hold in both encodings."""

import json
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from moot.domain.errors import TooLarge
from moot.wire import json_form
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import LIST_BOUNDS, MAX_FRAME, TEXT_BOUNDS, find_bounds, largest_request
from moot.wire.codec import check_client, decode_client

REQUESTS: dict[str, Any] = {
    field.name: field.message_type for field in pb.ClientMessage.DESCRIPTOR.oneofs_by_name["message"].fields
}
TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def _messages(message: Any) -> list[Any]:
    below = [each for field in message.fields if field.message_type for each in _messages(field.message_type)]
    return [message, *below]


@pytest.mark.parametrize("kind", REQUESTS)
def test_every_text_and_list_of_a_request_has_a_bound(kind: str) -> None:
    request = REQUESTS[kind]
    for message in _messages(request):
        wanted = {field.name for field in message.fields if field.is_repeated or field.type in TEXTS}
        assert find_bounds(message).keys() == wanted
    assert largest_request(request) <= MAX_FRAME


def test_no_bound_is_left_over() -> None:
    named = {field.name for request in REQUESTS.values() for each in _messages(request) for field in each.fields}
    assert {key.rpartition(".")[2] for key in (*TEXT_BOUNDS, *LIST_BOUNDS)} <= named


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_beyond_a_bound_is_rejected_in_both_encodings(kind: str) -> None:
    request = REQUESTS[kind]
    for name, bound in find_bounds(request).items():
        if bound.characters > 2_000_000 and kind != "send":
            # Large ones take a while, and are alike.
            continue
        values: list[Any] = ["x" * min(bound.characters + 1, MAX_FRAME + 1)]
        if bound.items > 1:
            values = [[each] for each in values] + [["x"] * (bound.items + 1)]
        for value in values:
            message = pb.ClientMessage()
            target = getattr(message, kind)
            if isinstance(value, list):
                getattr(target, name).extend(value)
            else:
                setattr(target, name, value)
            with pytest.raises(TooLarge):
                check_client(decode_client(message.SerializeToString()))
            with pytest.raises(TooLarge):
                check_client(json_form.decode_client(json.dumps({kind: {name: value}})))


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_large_json_request_means_the_same_as_a_small_one(kind: str) -> None:
    request = REQUESTS[kind]
    message = pb.ClientMessage(request_id=7)
    target = getattr(message, kind)
    target.SetInParent()
    for name, bound in find_bounds(request).items():
        text = 'é\n"\\x' * (min(bound.characters, 40_000) // 8)
        if bound.items > 1:
            getattr(target, name).extend([text] * bound.items)
        else:
            setattr(target, name, text)
    for field in request.fields:
        if field.type == FieldDescriptor.TYPE_UINT64:
            setattr(target, field.name, 2**60)
    assert json_form.decode_client(json_form.encode(message)) == message
