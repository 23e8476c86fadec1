"""Messages between the daemon and the reading process: one task, one answer, each preceded by its length."""

import struct

import msgspec
from msgspec import Struct

from moot.domain.rag import NewPassage
from moot.retrieval.reading.pieces import Section

LENGTH = struct.Struct(">I")


class ExtractTask(Struct, frozen=True, kw_only=True, tag=True):
    """Extract the text of a document."""

    format: str
    data: bytes
    most_characters: int


class SplitTask(Struct, frozen=True, kw_only=True, tag=True):
    """Cut text into passages and analyse them."""

    format: str
    name: str
    title: str
    sections: tuple[Section, ...]
    embeds: bool
    most_passages: int


class Extracted(Struct, frozen=True, kw_only=True, tag=True):
    title: str
    sections: tuple[Section, ...]


class Split(Struct, frozen=True, kw_only=True, tag=True):
    passages: tuple[NewPassage, ...]
    note: str = ""


class Failed(Struct, frozen=True, kw_only=True, tag=True):
    """The document was refused. `is_missing`: something has to be installed."""

    reason: str
    fix: str = ""
    is_missing: bool = False


Task = ExtractTask | SplitTask
Answer = Extracted | Split | Failed

encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
