"""The protocol as proto3 JSON, used on the WebSocket. No I/O."""

from google.protobuf import json_format
from google.protobuf.message import Message

from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb


def encode(message: Message) -> str:
    """One message on one line. 64-bit integers are strings, as proto3 JSON has it."""
    return json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None, ensure_ascii=False)


def with_request_id(encoded: str, request_id: int) -> str:
    """An encoded ServerMessage that answers the given request."""
    if request_id == 0:
        return encoded
    head = f'{{"request_id": "{request_id}"'
    return head + "}" if encoded == "{}" else f"{head}, {encoded[1:]}"


def decode_client(text: str) -> pb.ClientMessage:
    """Parse one request. BadRequest says what is wrong with it, an unknown field included."""
    message = pb.ClientMessage()
    # Parse takes for granted that the document is an object.
    if not text.lstrip().startswith("{"):
        raise _refusal_error("it is not a JSON object")
    try:
        json_format.Parse(text, message)
    except json_format.ParseError as error:
        raise _refusal_error(str(error)) from None
    return message


def _refusal_error(reason: str) -> BadRequest:
    first_line = reason.partition("\n")[0]
    return BadRequest(
        f"not a ClientMessage in JSON: {first_line}",
        fix='Send one object such as {"ping": {}}; names and types are in docs/protocol.md.',
    )
