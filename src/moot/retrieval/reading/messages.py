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


class UnpackTask(Struct, frozen=True, kw_only=True, tag=True):
    """Return the members of an archive, from the number `first` on. `kind` is zip or tar."""

    kind: str
    data: bytes
    first: int
    most_members: int
    most_bytes: int
    most_member_bytes: int


class Extracted(Struct, frozen=True, kw_only=True, tag=True):
    title: str
    sections: tuple[Section, ...]


class Split(Struct, frozen=True, kw_only=True, tag=True):
    passages: tuple[NewPassage, ...]
    note: str = ""


class Member(Struct, frozen=True, kw_only=True):
    """A file in an archive; one with a `problem` could not be read."""

    name: str
    data: bytes = b""
    problem: str = ""


class Unpacked(Struct, frozen=True, kw_only=True, tag=True):
    """Members of an archive. `next` is the number of the first that is not among them, 0 if there is none."""

    members: tuple[Member, ...]
    next: int = 0
    # Links and devices, which were left out.
    links: int = 0


class Failed(Struct, frozen=True, kw_only=True, tag=True):
    """The document was refused. `is_missing`: something has to be installed."""

    reason: str
    fix: str = ""
    is_missing: bool = False


Task = ExtractTask | SplitTask | UnpackTask
Answer = Extracted | Split | Unpacked | Failed

encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode
