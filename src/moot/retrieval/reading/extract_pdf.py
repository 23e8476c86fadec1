"""Extracts the text of PDF files with pypdf, page by page. Runs in the reading process."""

import logging
from collections.abc import Iterable
from io import BytesIO
from typing import Any

from moot.domain.errors import BadRequest, TooLarge, Unavailable
from moot.retrieval.reading.pieces import Section

_MOST_PAGES = 5_000


def extract_pdf(data: bytes, most_characters: int) -> tuple[str, list[Section]]:
    """Return the title and the text of each page that has some."""
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - in an extra
        from pypdf.errors import PyPdfError  # noqa: PLC0415
    except ImportError:
        raise Unavailable("PDF files need the extra rag", fix="pip install 'moot[rag]'") from None
    # It reports every oddity of a file, and nobody reads that.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise BadRequest("it is encrypted", fix="Remove its password first.")
        sections = _read_pages(reader.pages, most_characters)
        title = str(reader.metadata.title or "") if reader.metadata is not None else ""
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError, RecursionError) as error:
        raise BadRequest(f"it is damaged ({type(error).__name__})", fix="Repair or convert the file.") from error
    if not sections:
        raise BadRequest("it has no text, probably scanned pages only", fix="Recognise its text first.")
    return title, sections


def _read_pages(pages: Iterable[Any], most_characters: int) -> list[Section]:
    sections: list[Section] = []
    left = most_characters
    for number, page in enumerate(pages, start=1):
        text = page.extract_text() or ""
        left -= len(text)
        if left < 0 or number > _MOST_PAGES:
            raise TooLarge("it has too much text", fix="Split it into several files.")
        if text.strip():
            sections.append(Section(text=text, page=number))
    return sections
