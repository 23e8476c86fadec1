"""Extracts the text of DOCX files: a zip archive with XML, read within limits and without entities."""

import zipfile
from io import BytesIO
from xml.parsers import expat

from moot.domain.errors import BadRequest, TooLarge
from moot.retrieval.reading.pieces import Section

_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main "
_MAIN = "word/document.xml"
_TITLE = "docProps/core.xml"
_MOST_ENTRIES = 10_000
_MOST_PAGES = 5_000
_CHUNK = 65_536


def extract_docx(data: bytes, most_characters: int) -> tuple[str, list[Section]]:
    """Return the title and the text of each page. Pages are those that the program that wrote it has broken."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            if len(archive.infolist()) > _MOST_ENTRIES:
                raise TooLarge("it has too many parts", fix="Save it again with a word processor.")
            # The marks around a text are much longer than the text.
            body = _read_part(archive, _MAIN, 8 * most_characters)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise BadRequest("it is damaged", fix="Save it again with a word processor.") from error
    pages = _Pages(most_characters)
    pages.parse(body)
    return "", [Section(text=text, page=number) for number, text in enumerate(pages.texts, start=1) if text.strip()]


def _read_part(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    with archive.open(name) as part:
        body = part.read(most + 1)
    if len(body) > most:
        raise TooLarge("it unpacks to too much text", fix="Split it into several files.")
    return body


class _Pages:
    """Collects paragraphs by page."""

    def __init__(self, most_characters: int) -> None:
        self.texts = [""]
        self._left = most_characters
        self._paragraph: list[str] = []
        self._heading = 0
        self._in_text = False

    def parse(self, body: bytes) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        # There is no such declaration in a document; in a hostile one it expands without end.
        parser.StartDoctypeDeclHandler = _refuse
        parser.EntityDeclHandler = _refuse
        try:
            parser.Parse(body, True)
        except expat.ExpatError as error:
            raise BadRequest("it is damaged", fix="Save it again with a word processor.") from error

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.removeprefix(_NAMESPACE)
        value = attributes.get(f"{_NAMESPACE}val", "")
        if name == "t":
            self._in_text = True
        elif name in ("tab", "br", "cr"):
            if attributes.get(f"{_NAMESPACE}type") == "page":
                self._break_page()
            self._paragraph.append("\t" if name == "tab" else "\n")
        elif name == "lastRenderedPageBreak":
            self._break_page()
        elif name == "pStyle" and value.lower().startswith("heading") and value[-1:].isdigit():
            self._heading = min(6, int(value[-1]))

    def _end(self, tag: str) -> None:
        name = tag.removeprefix(_NAMESPACE)
        if name == "t":
            self._in_text = False
        elif name == "p":
            self._end_paragraph()
        elif name == "tc":
            self.texts[-1] = self.texts[-1].rstrip("\n") + " | "
        elif name == "tr":
            self.texts[-1] += "\n\n"

    def _text(self, text: str) -> None:
        if self._in_text:
            self._left -= len(text)
            if self._left < 0:
                raise TooLarge("it has too much text", fix="Split it into several files.")
            self._paragraph.append(text)

    def _break_page(self) -> None:
        if len(self.texts) >= _MOST_PAGES:
            raise TooLarge("it has too many pages", fix="Split it into several files.")
        if self.texts[-1].strip() or len(self.texts) > 1:
            self.texts.append("")

    def _end_paragraph(self) -> None:
        text = "".join(self._paragraph).strip()
        self._paragraph.clear()
        if text:
            self.texts[-1] += f"{'#' * self._heading + ' ' if self._heading else ''}{text}\n\n"
        self._heading = 0


def _refuse(*_declared: object) -> None:
    raise BadRequest("it declares entities, which documents do not do", fix="Save it again with a word processor.")
