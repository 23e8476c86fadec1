"""Detects the format of a file by its name and first bytes, and says how text of each format is cut. Pure."""

from collections.abc import Callable, Iterable, Sequence

from moot.domain.errors import BadRequest
from moot.retrieval.reading.code_blocks import CODE_ENDINGS, choose_cut
from moot.retrieval.reading.csv_blocks import cut_csv
from moot.retrieval.reading.markdown_blocks import cut_markdown
from moot.retrieval.reading.pieces import Block, cut_paragraphs

_SNIFFED = 8_192
# The byte order marks of UTF-16, in which most text contains NUL bytes.
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_MARKDOWN = frozenset({"md", "markdown", "mdx"})
_HTML = frozenset({"html", "htm", "xhtml"})
_TABLES = frozenset({"csv", "tsv"})
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz")
# Formats of which the text has to be extracted first.
EXTRACTED = frozenset({"html", "pdf", "docx"})


def find_ending(name: str) -> str:
    last = name.rsplit("/", 1)[-1]
    return last.rsplit(".", 1)[1].lower() if "." in last[1:] else ""


def find_archive(name: str, data: bytes) -> str:
    """Return `zip` or `tar` for an archive, also a compressed tar; empty for other files."""
    lower = name.lower()
    if lower.endswith(".zip"):
        if not data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            raise BadRequest("it is not a ZIP file, although its name says so", fix="Check the file.")
        return "zip"
    return "tar" if lower.endswith(_TARS) else ""


def find_format(name: str, data: bytes) -> str:
    """Return the format; raises for files that are not text, PDF or DOCX."""
    ending = find_ending(name)
    if data[:1_024].lstrip().startswith(b"%PDF-"):
        return "pdf"
    if data.startswith(b"PK\x03\x04") and ending == "docx":
        return "docx"
    if ending in ("pdf", "docx"):
        raise BadRequest(f"it is not a {ending.upper()} file, although its name says so", fix="Check the file.")
    if b"\0" in data[:_SNIFFED] and not data.startswith(UTF_16_MARKS):
        raise BadRequest("it is not text", fix="Convert it to text, Markdown, HTML, PDF or DOCX.")
    for known, name_of in ((_MARKDOWN, "markdown"), (_HTML, "html"), (_TABLES, "csv"), (CODE_ENDINGS, "code")):
        if ending in known:
            return name_of
    return "text"


def choose_blocks(kind: str, name: str) -> Callable[[Sequence[str]], Iterable[Block]]:
    """Return how the text of a document is cut into blocks."""
    if kind in ("markdown", "html"):
        return cut_markdown
    if kind == "csv":
        return cut_csv
    return choose_cut(find_ending(name)) if kind == "code" else cut_paragraphs
