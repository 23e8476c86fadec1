"""Turns the content of a file or page into passages: text, without secrets, cut, with terms and vectors."""

import os
import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.errors import BadRequest, TooLarge
from moot.domain.rag import NewPassage
from moot.domain.rag_config import RagConfig
from moot.domain.text import clean
from moot.retrieval.embedders import Embedder
from moot.retrieval.reading.formats import EXTRACTED, UTF_16_MARKS, find_format
from moot.retrieval.reading.messages import SplitTask, Unpacked, UnpackTask
from moot.retrieval.reading.pieces import Section
from moot.retrieval.reading.process import DocumentReader
from moot.tools.threads import run_in_thread

_BYTE_ORDER_MARK = "\ufeff"
_HEADING = "# "
# A private key. JSON writes line ends as \n; in an encrypted key, and in one of PGP, headers come first. Each part is
# matched on its own: one expression would try headers that contain headers in millions of ways.
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE_END = re.compile(r"(?:\s|\\[nr])+")
_KEY_HEADER = re.compile(r"[A-Z][A-Za-z-]*: [^\n\\]{1,200}")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40}")
_MOST_KEY_HEADERS = 4
_MOST_TITLE = 200
# How much of a title that a document gives itself is looked at.
_READ_TITLE = 2_000
# The passages of one document are decoded at once and stored in one transaction, during which nothing else is stored.
_MOST_PASSAGES = 20_000


class Parsed(Struct, frozen=True, kw_only=True):
    format: str
    title: str
    passages: tuple[NewPassage, ...]
    note: str = ""


class Parser:
    """`redact` replaces secrets by marks; it is called in a thread."""

    def __init__(
        self, reader: DocumentReader, config: RagConfig, embedder: Embedder, redact: Callable[[str], str]
    ) -> None:
        self._reader = reader
        self._config = config
        self._embedder = embedder
        self._redact = redact

    async def parse_file(self, name: str, data: bytes, *, kind: str = "") -> Parsed:
        """Return the passages of a file; raises BadRequest with the reason if it is refused."""
        kind = kind or find_format(name, data)
        if kind in EXTRACTED:
            title, sections = await self._reader.extract(kind, data, most_characters=self._config.max_characters)
        else:
            title, sections = "", (Section(text=await run_in_thread(_decode, data), has_lines=True),)
        return await self.parse_text(name, kind, title, sections)

    async def unpack(self, kind: str, data: bytes, *, first: int, most_members: int) -> Unpacked:
        """Return members of an archive from a number on; raises BadRequest if it is refused."""
        return await self._reader.unpack(
            UnpackTask(
                kind=kind,
                data=data,
                first=first,
                most_members=most_members,
                most_bytes=self._config.max_unpacked_bytes,
                most_member_bytes=self._config.max_file_bytes,
            )
        )

    async def parse_text(self, name: str, kind: str, title: str, sections: tuple[Section, ...]) -> Parsed:
        if sum(len(section.text) for section in sections) > self._config.max_characters:
            raise TooLarge(f"it has more than {self._config.max_characters} characters", fix="Split it.")
        sections = await run_in_thread(lambda: tuple(map(self._clean_section, sections)))
        title = self._redact(clean(_join_words(title[:_READ_TITLE])))[:_MOST_TITLE]
        title = title or await run_in_thread(find_title, name, kind, sections)
        task = SplitTask(
            format=kind,
            name=name,
            title=title,
            sections=sections,
            embeds=self._embedder.is_local,
            most_passages=min(self._config.max_passages, _MOST_PASSAGES),
        )
        passages, note = await self._reader.split(task)
        return Parsed(format=kind, title=title, passages=passages, note=note)

    def _clean_section(self, section: Section) -> Section:
        """Remove secrets. One that spans lines cannot be removed without moving the lines behind it."""
        text = self._redact(clean(section.text))
        if text.count("\n") != section.text.count("\n") or has_private_key(text):
            raise BadRequest("it contains a private key, or another secret of several lines", fix="Remove it.")
        return replace(section, text=text)


def _decode(data: bytes) -> str:
    """Decode text as UTF-8, UTF-16 with a byte order mark, or Windows-1252; line ends become those of Unix."""
    if data.startswith(UTF_16_MARKS):
        text = data.decode("utf-16", "replace")
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("cp1252", "replace")
    return text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")


def has_private_key(text: str) -> bool:
    return any(_is_key_at(text, begin.end()) for begin in _KEY_BEGIN.finditer(text))


def _is_key_at(text: str, at: int) -> bool:
    for _ in range(_MOST_KEY_HEADERS + 1):
        if (gap := _KEY_LINE_END.match(text, at)) is None:
            return False
        at = gap.end()
        if _KEY_BODY.match(text, at):
            return True
        if (header := _KEY_HEADER.match(text, at)) is None:
            return False
        at = header.end()
    return False


def find_title(name: str, kind: str, sections: tuple[Section, ...]) -> str:
    """Return the first heading of Markdown, or the name of the file in words. It is one line."""
    heading = _find_heading(sections[0].text) if kind == "markdown" and sections else ""
    stem = os.path.splitext(os.path.basename(name.rstrip("/")))[0]
    return heading or _join_words(re.sub(r"[-_.]+", " ", stem))[:_MOST_TITLE]


def _find_heading(text: str) -> str:
    at = 0 if text.startswith(_HEADING) else text.find(f"\n{_HEADING}") + 1
    if not text.startswith(_HEADING, at):
        return ""
    line = text[at : at + _READ_TITLE].split("\n", 1)[0]
    return _join_words(line.removeprefix(_HEADING).rstrip(" #"))[:_MOST_TITLE]


def _join_words(text: str) -> str:
    return " ".join(text.split())
