"""The largest size of every text, list and number in a request. Used by codec.py and json_form.py; a test checks that
no field is left out. No I/O.

Sizes are checked before a message becomes Python objects where that would take long, and again for every field after.
"""

from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from msgspec import Struct

from moot.domain.errors import BadRequest, TooLarge
from moot.wire import moot_pb2 as pb

MAX_FRAME = 16 * 1024 * 1024
# Below this size a payload is decoded without looking at its fields first.
SMALL = 16 * 1024

_NAME = 1024
_PATH = 16 * 1024
# `max_content_bytes` decides; this is the most it can be set to.
_CONTENT = 15 * 1024 * 1024
_SECRET = 1024 * 1024
_PROMPT = 64 * 1024
# A workflow file may have 1 MiB; a text that is a little longer gets the error that says so.
_WORKFLOW = 1024 * 1024 + 64 * 1024
_LIST = 256

# Characters in each text, by name of the field, or of message and field where it differs.
TEXT_BOUNDS: dict[str, int] = {
    "action": _NAME,
    "agent": _NAME,
    "after": _NAME,
    "agents": _NAME,
    "api_key": _NAME,
    "ask_id": _NAME,
    "at": _NAME,
    "base_url": _PATH,
    "category": _NAME,
    "change": _NAME,
    "client": _NAME,
    "client_message_id": _NAME,
    "conflict_id": _NAME,
    "content": _CONTENT,
    # `moot graph import` sends a file in parts.
    "ImportGraphMsg.content": 2 * 1024 * 1024,
    "correlation_id": _NAME,
    "cursor": _NAME,
    "cwd": _PATH,
    "decision": _NAME,
    "deliver_to": _NAME,
    "description": _PATH,
    "digests": _NAME,
    "file": _PATH,
    "forget": _NAME,
    "goal_id": _NAME,
    "guest": _NAME,
    "hosts": _NAME,
    "inquiry_id": _NAME,
    "job": _NAME,
    "job_id": _NAME,
    "jsonl": MAX_FRAME,
    "key": _PATH,
    "learning_id": _NAME,
    "missed": _NAME,
    "kind": _NAME,
    "mode": _NAME,
    "auto_approve": _NAME,
    "mail_id": _NAME,
    "model": _NAME,
    "name": _NAME,
    "node": _NAME,
    "object": _NAME,
    "owner": _NAME,
    "path": _PATH,
    "pattern": _PATH,
    "place": _PATH,
    "predicate": _NAME,
    "prefix": _NAME,
    "prompt": _PROMPT,
    "provider": _NAME,
    "query": _PATH,
    "question": _PATH,
    "reason": _PATH,
    "report_to": _NAME,
    "run_id": _NAME,
    "run_ids": _NAME,
    "schedule": _NAME,
    "schedule_type": _NAME,
    "search_path": _PATH,
    "seen": _NAME,
    "sender": _NAME,
    "senders": _NAME,
    "session_mode": _NAME,
    "source": _WORKFLOW,
    "ChangeGraphMsg.source": _PATH,
    "ChangeKnowledgeMsg.source": _PATH,
    "SearchDocumentsMsg.source": _PATH,
    "AnswerQuestionMsg.source": _PATH,
    "ForgetSourceMsg.source": _PATH,
    "source_class": _NAME,
    "status": _NAME,
    "subject": _NAME,
    "subject_type": _NAME,
    "object_type": _NAME,
    "valid_from": _NAME,
    "valid_to": _NAME,
    "tags": _NAME,
    "task_id": _NAME,
    "timeout": _NAME,
    "timezone": _NAME,
    "title": _NAME,
    "token": _PATH,
    "tools": _NAME,
    "type": _NAME,
    "value": _SECRET,
    "variable": _NAME,
    "view": _NAME,
    "workflow": _WORKFLOW,
}
# The largest whole number that the store can hold.
_LARGEST_NUMBER = 2**63 - 1
# Items in each list.
LIST_BOUNDS: dict[str, int] = {
    "agents": _LIST,
    "deliver_to": 4,
    # One for each tool of an MCP server.
    "digests": 4096,
    "hosts": _LIST,
    "run_ids": _LIST,
    "senders": _LIST,
    "tags": _LIST,
    "tools": _LIST,
}

# What a field takes besides its value: its tag and its length.
_FIELD_OVERHEAD = 8
# UTF-8 takes at most this much for a character.
_CHARACTER = 4
# More fields than any request has, so that fields of newer clients are not an error.
_MOST_FIELDS = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class FieldBound(Struct, frozen=True):
    """The most characters of a text, and the most items if it is a list."""

    characters: int
    items: int = 1

    @property
    def bytes(self) -> int:
        return self.items * (self.characters * _CHARACTER + _FIELD_OVERHEAD)


@cache
def find_bounds(message: Descriptor) -> dict[str, FieldBound]:
    """Return the bounds of the texts and lists of a request. Raise KeyError if one is missing in the tables."""
    found: dict[str, FieldBound] = {}
    for field in message.fields:
        key = f"{message.name}.{field.name}"
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            characters = TEXT_BOUNDS.get(key) or TEXT_BOUNDS[field.name]
            items = (LIST_BOUNDS.get(key) or LIST_BOUNDS[field.name]) if field.is_repeated else 1
            found[field.name] = FieldBound(characters, items)
        elif field.is_repeated:
            found[field.name] = FieldBound(0, LIST_BOUNDS.get(key) or LIST_BOUNDS[field.name])
    return found


@cache
def largest_request(message: Descriptor) -> int:
    """Return the most bytes that a request of this type can take."""
    size = _MOST_FIELDS * _FIELD_OVERHEAD + sum(bound.bytes for bound in find_bounds(message).values())
    for field in message.fields:
        if field.message_type is not None:
            size += largest_request(field.message_type)
    return min(size, MAX_FRAME)


def check_fields(kind: str, message: Message) -> None:
    """Raise if a text, a list or a number of the request is too large, or a text holds a NUL character."""
    bounds = find_bounds(message.DESCRIPTOR)
    for field, value in message.ListFields():
        name = field.name
        if isinstance(value, str):
            _check_text(kind, name, value, bounds[name].characters)
        elif isinstance(value, Message):
            check_fields(f"{kind}.{name}", value)
        elif name in bounds:
            if len(value) > bounds[name].items:
                raise TooLarge(f"{kind}.{name} has {len(value)} items; at most {bounds[name].items} are accepted")
            for item in value:
                _check_text(kind, name, item, bounds[name].characters)
        elif value > _LARGEST_NUMBER and isinstance(value, int):
            raise BadRequest(f"{kind}.{name} is too large: {value}", fix="Use a smaller number.")


def _check_text(kind: str, name: str, text: str, most: int) -> None:
    if len(text) > most:
        raise TooLarge(
            f"{kind}.{name} has {len(text)} characters; at most {most} are accepted", fix="Send a shorter text."
        )
    if "\0" in text:
        raise BadRequest(f"{kind}.{name} holds a NUL character", fix="Remove it; text is UTF-8 without NUL.")


# ---- encoded messages -----------------------------------------------------------------------------


def check_payload(payload: bytes) -> None:
    """Raise if an encoded ClientMessage is larger than its type of request can be, or has very many fields.

    Only large payloads are examined. What is malformed is left to the decoder.
    """
    if len(payload) <= SMALL:
        return
    kinds = pb.ClientMessage.DESCRIPTOR.fields_by_number
    sizes: dict[int, int] = {}
    for number, start, end in _scan_fields(payload, 0, len(payload), _MOST_FIELDS):
        sizes[number] = sizes.get(number, 0) + end - start
        field = kinds.get(number)
        request = field.message_type if field is not None else None
        most = largest_request(request) if request is not None else SMALL
        if sizes[number] > most:
            name = field.name if field is not None else f"field {number}"
            raise TooLarge(f"{name} has {sizes[number]} bytes; at most {most} are accepted", fix="Send less.")
        if request is not None:
            lists = sum(bound.items for bound in find_bounds(request).values() if bound.items > 1)
            for _ in _scan_fields(payload, start, end, _MOST_FIELDS + lists):
                pass


def _scan_fields(data: bytes, place: int, end: int, most: int) -> list[tuple[int, int, int]]:
    """Return the number, start and end of each field of a message, until something is not understood."""
    found: list[tuple[int, int, int]] = []
    while place < end:
        if len(found) >= most:
            raise TooLarge(f"a message has more than {most} fields", fix="Send several messages.")
        tag, place = _read_varint(data, place, end)
        start, wire_type = place, tag & 7
        if wire_type == _VARINT:
            _, place = _read_varint(data, place, end)
        elif wire_type == _BYTES:
            length, start = _read_varint(data, place, end)
            place = start + length
        elif wire_type in (_FIXED32, _FIXED64):
            place += 4 if wire_type == _FIXED32 else 8
        else:
            # Groups, which this protocol does not have: the decoder must not skip them either.
            raise BadRequest("the frame is not a ClientMessage", fix="Follow docs/protocol.md.")
        found.append((tag >> 3, start, min(place, end)))
    return found


def _read_varint(data: bytes, place: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while place < end and shift < 64:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise BadRequest("the frame is not a ClientMessage: it ends early", fix="Follow docs/protocol.md.")
