"""The protocol as proto3 JSON, used on the WebSocket and by HTTP. No I/O.

A large message is taken apart without making objects of its content first: each field as its JSON, the large texts
alone, and the rest by the ordinary parser.
"""

from typing import Any

import msgspec
from google.protobuf import json_format
from google.protobuf.message import Message
from msgspec import Raw

from moot.domain.errors import BadRequest, TooLarge
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import SMALL, FieldBound, find_bounds

# The most bytes of JSON for one character of a text.
_ESCAPED = 6
_texts = msgspec.json.Decoder(list[str])
_text = msgspec.json.Decoder(str)


class _FieldName:
    """A key of a JSON object. Of a type that msgspec does not know, so that each is passed to a function."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def encode(message: Message) -> str:
    """One message on one line. 64-bit integers are strings, as proto3 JSON has it."""
    return json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)


def with_request_id(encoded: str, request_id: int) -> str:
    """An encoded ServerMessage that answers the given request."""
    if request_id == 0:
        return encoded
    head = f'{{"request_id": "{request_id}"'
    return head + "}" if encoded == "{}" else f"{head}, {encoded[1:]}"


def is_large(text: str) -> bool:
    """Whether decoding the text takes so long that it should not hold up an event loop."""
    return len(text) > SMALL


def decode_client(text: str) -> pb.ClientMessage:
    """Parse one request. BadRequest says what is wrong with it, an unknown field included."""
    # Parse takes for granted that the document is an object.
    if not text[:SMALL].lstrip().startswith("{"):
        raise _refusal_error("it is not a JSON object")
    return _decode_large(text) if is_large(text) else _decode_small(text)


def _decode_small(text: str) -> pb.ClientMessage:
    message = pb.ClientMessage()
    try:
        json_format.Parse(text, message)
    except (json_format.ParseError, RecursionError) as error:
        raise _refusal_error(str(error)) from None
    return message


def _decode_large(text: str) -> pb.ClientMessage:
    try:
        outer = _take_apart(pb.ClientMessage.DESCRIPTOR, text)
        fields = pb.ClientMessage.DESCRIPTOR.fields_by_name
        kinds = [name for name in outer if fields[name].message_type is not None]
        if len(kinds) != 1:
            raise _refusal_error("it has not exactly one request")
        kind = kinds[0]
        request = fields[kind].message_type
        assert request is not None
        inner = _take_apart(request, outer[kind])
        texts = _decode_texts(kind, find_bounds(request), inner)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _refusal_error(str(error)) from None
    rest = b",".join(b'"%b":%b' % (name.encode(), raw) for name, raw in inner.items() if name not in texts)
    head = b'"request_id":%b,' % outer["request_id"] if "request_id" in outer else b""
    document = b'{%b"%b":{%b}}' % (head, kind.encode(), rest)
    if len(document) > SMALL:
        raise TooLarge(f"{kind} is too large", fix="Only texts can be this large.")
    message = _decode_small(document.decode())
    for name, value in texts.items():
        if isinstance(value, str):
            setattr(getattr(message, kind), name, value)
        else:
            getattr(getattr(message, kind), name).extend(value)
    return message


def _take_apart(message: Any, text: str | bytes) -> dict[str, bytes]:
    """Return the JSON of each field of a type of message, by its name in the protocol.

    An unknown field is an error, and so is a second one of the same name, as for the ordinary parser.
    """
    names = {written: field.name for field in message.fields for written in (field.camelcase_name, field.name)}
    known: set[str] = set()

    def read_key(_type: type, written: str) -> _FieldName:
        name = names.get(written)
        if name is None:
            raise ValueError(f"there is no field named {written[:100]!r}")
        if name in known:
            raise ValueError(f"duplicate key {name}")
        known.add(name)
        return _FieldName(name)

    found = msgspec.json.Decoder(dict[_FieldName, Raw], dec_hook=read_key).decode(text)
    return {key.name: bytes(raw) for key, raw in found.items() if bytes(raw) != b"null"}


def _decode_texts(kind: str, bounds: dict[str, FieldBound], inner: dict[str, bytes]) -> dict[str, str | list[str]]:
    """Decode the texts and lists of texts of a request that are large."""
    found: dict[str, str | list[str]] = {}
    for name, raw in inner.items():
        bound = bounds.get(name)
        if bound is None or not bound.characters or len(raw) <= SMALL // 8:
            continue
        if len(raw) > bound.items * (bound.characters * _ESCAPED + 3) + 2:
            raise TooLarge(f"{kind}.{name} has {len(raw)} bytes of JSON", fix="Send less.")
        found[name] = _text.decode(raw) if raw.lstrip().startswith(b'"') else _texts.decode(raw)
    return found


def _refusal_error(reason: str) -> BadRequest:
    first_line = reason.partition("\n")[0]
    return BadRequest(
        f"not a ClientMessage in JSON: {first_line[:500]}",
        fix='Send one object such as {"ping": {}}; names and types are in docs/protocol.md.',
    )
