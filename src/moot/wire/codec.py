"""Frames: a big-endian u32 length, then one protobuf message of at most 16 MiB. No I/O."""

import struct

from google.protobuf.message import DecodeError, Message

from moot.domain.errors import BadRequest, TooLarge
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import MAX_FRAME, check_fields, check_payload

PROTOCOL_VERSION = 1

_LENGTH = struct.Struct(">I")
# Field 200 of ServerMessage as a varint: what follows a message merges into it, so an event is
# encoded once and each reader's request id is appended to the same bytes.
_REQUEST_ID_TAG = b"\xc0\x0c"


class FrameDecoder:
    """Cuts a byte stream into frames. Feed it what arrived, then take frames until there is none."""

    __slots__ = ("_buffer", "max_frame")

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._buffer = bytearray()
        self.max_frame = max_frame

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> bytes | None:
        """The next whole frame's payload, or None until more arrives. TooLarge leaves the stream unusable."""
        buffer = self._buffer
        if len(buffer) < 4:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if length > self.max_frame:
            raise too_large_error(length, self.max_frame)
        end = 4 + length
        if len(buffer) < end:
            return None
        payload = bytes(memoryview(buffer)[4:end])
        del buffer[:end]
        return payload

    @property
    def pending(self) -> int:
        """Bytes of a frame that has begun and is not whole; the end of the stream here is a truncation."""
        return len(self._buffer)


def too_large_error(length: int, limit: int = MAX_FRAME) -> TooLarge:
    return TooLarge(
        f"the frame has {length} bytes; at most {limit} are accepted",
        fix="Send less in one message; each frame is a big-endian u32 length and one protobuf message.",
    )


def slow_error(seconds: float) -> BadRequest:
    return BadRequest(
        f"the rest of a message did not arrive within {seconds:.0f} seconds", fix="Send each message at once."
    )


def truncated_error(pending: int) -> BadRequest:
    return BadRequest(
        f"the connection ended inside a frame, after {pending} bytes of it",
        fix="Send the whole frame before closing.",
    )


def encode_frame(message: Message) -> bytes:
    """One message as a frame. TooLarge when no reader would take it."""
    payload = message.SerializeToString()
    if len(payload) > MAX_FRAME:
        raise too_large_error(len(payload))
    return _LENGTH.pack(len(payload)) + payload


def join_frame(payload: bytes, suffix: bytes) -> bytes:
    """A frame of an encoded message and the fields appended to it."""
    return b"".join((_LENGTH.pack(len(payload) + len(suffix)), payload, suffix))


def request_id_field(request_id: int) -> bytes:
    """The bytes that set ServerMessage.request_id when they follow an encoded message."""
    if request_id == 0:
        return b""
    digits = bytearray(_REQUEST_ID_TAG)
    while request_id > 0x7F:
        digits.append(request_id & 0x7F | 0x80)
        request_id >>= 7
    digits.append(request_id)
    return bytes(digits)


def decode_client(payload: bytes) -> pb.ClientMessage:
    """Parse a frame from a client. BadRequest says what is wrong with it, TooLarge what is too large."""
    check_payload(payload)
    try:
        return pb.ClientMessage.FromString(payload)
    except DecodeError as error:
        raise BadRequest(
            f"the frame is not a ClientMessage: {_parse_reason(error)}",
            fix="Encode strings as UTF-8 and follow docs/protocol.md.",
        ) from None


def decode_server(payload: bytes) -> pb.ServerMessage:
    """Parse a frame from a daemon."""
    try:
        return pb.ServerMessage.FromString(payload)
    except DecodeError as error:
        raise BadRequest(
            f"the frame is not a ServerMessage: {_parse_reason(error)}",
            fix="Check that a Moot daemon of the same version is listening there.",
        ) from None


def check_client(message: pb.ClientMessage) -> str:
    """Name the request inside the message. Raise if there is none, or one of its fields cannot be used."""
    kind: str | None = message.WhichOneof("message")
    if kind is None:
        raise BadRequest(
            "the message is empty or of a kind this daemon does not know",
            fix="Set exactly one request in ClientMessage; a newer client needs a newer daemon.",
        )
    check_fields(kind, getattr(message, kind))
    return kind


def _parse_reason(error: DecodeError) -> str:
    return str(error).rsplit(": ", 1)[-1]
