"""The index of documents: sources, documents and their passages, and where a passage is. Pure."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.errors import BadRequest

MOST_RESULTS = 20
# Between an archive and its member in the name of a document. The path of a file never contains it.
_MEMBER_MARK = "//"
# The format of a document that is a ZIP or tar archive; its members are documents of their own.
ARCHIVE_FORMAT = "archive"
QUERY_LENGTH = 2_000


class SourceKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    PAGE = "page"
    # The archived messages of the owner's conversation.
    ARCHIVE = "archive"


class Source(Struct, frozen=True, kw_only=True):
    """Something that is indexed. `place` is an absolute path, an address, or "archive"."""

    number: int
    kind: SourceKind
    place: str
    # The working directory beneath which its files are read; empty for pages and archives.
    folder: str = ""
    taint: frozenset[str] = frozenset()
    added_at: float = 0.0
    # When all of it was indexed last; 0 if it never was.
    completed_at: float = 0.0
    # The number that its owner sees: the first source of each owner is 1.
    label: int = 0

    @property
    def is_complete(self) -> bool:
        return self.completed_at > 0


class SourceReport(Struct, frozen=True, kw_only=True):
    """A source and what is indexed of it."""

    source: Source
    documents: int = 0
    passages: int = 0
    refused: int = 0


class Document(Struct, frozen=True, kw_only=True):
    """A file, a member of an archive, a page, or archived messages. One with a `problem` has no passages."""

    # The path, also with that of the member of an archive, the address, or the name of the archived messages.
    name: str
    title: str = ""
    format: str = ""
    # What tells whether it has changed: the size and time of a file, and a digest of the content.
    size: int = 0
    modified: int = 0
    digest: str = ""
    # What its vectors were made with; empty if there are none.
    embedder: str = ""
    problem: str = ""
    # What is worth knowing although it was indexed.
    note: str = ""
    taint: frozenset[str] = frozenset()
    indexed_at: float = 0.0


def join_member(archive: str, member: str) -> str:
    """Return the name of a document in an archive, from which a person can find it."""
    return f"{archive}{_MEMBER_MARK}{member}"


def find_outer_file(name: str) -> str:
    """Return the file that a document is in: its archive, or the document itself."""
    return name.split(_MEMBER_MARK, 1)[0]


class NewPassage(Struct, frozen=True, kw_only=True):
    """A passage to be indexed. `terms` are what it is found by, separated by spaces."""

    content: str
    heading: str = ""
    # The lines of the file, from 1; 0 if it has none.
    first_line: int = 0
    last_line: int = 0
    # The page of the document, from 1; 0 if it has none.
    page: int = 0
    terms: str = ""
    # Signed bytes; empty if there is no vector.
    vector: bytes = b""


def join_text(title: str, heading: str, content: str) -> str:
    """Return what a passage is found by: its text below the title of its document and its heading."""
    return "\n".join(part for part in (title, heading, content) if part)


class IndexedPassage(Struct, frozen=True, kw_only=True):
    """A stored passage, with the document it is in."""

    number: int
    source: int
    document: str
    title: str
    content: str
    heading: str = ""
    first_line: int = 0
    last_line: int = 0
    page: int = 0
    taint: frozenset[str] = frozenset()
    # The number of the source that its owner sees.
    source_label: int = 0

    @property
    def location(self) -> str:
        """Where it is: file and lines, or document and page."""
        if self.page:
            return f"{self.document}, page {self.page}"
        if not self.first_line:
            return self.document
        lines = f"{self.first_line}" if self.first_line == self.last_line else f"{self.first_line}-{self.last_line}"
        return f"{self.document}:{lines}"


class PassageVectors(Struct, frozen=True, kw_only=True):
    """The vectors of an owner's passages beyond a number. `version` changes with the index, `count` is of them all."""

    version: int
    count: int
    numbers: tuple[int, ...] = ()
    vectors: tuple[bytes, ...] = ()


class WordParts(Struct, frozen=True):
    """The terms of a word of a query, and the parts that are looked for if no passage has one of the terms."""

    terms: tuple[str, ...]
    parts: tuple[str, ...]


class DocumentChange(Struct, frozen=True, kw_only=True):
    """A document with all its passages, which replace what was stored under its name."""

    document: Document
    passages: tuple[NewPassage, ...] = ()


def check_query(text: str) -> str:
    query = " ".join(text.split())
    if not query:
        raise BadRequest("the query is empty", fix="Say what to look for.")
    if len(query) > QUERY_LENGTH:
        raise BadRequest(f"the query has {len(query)} characters", fix=f"Use at most {QUERY_LENGTH}.")
    return query


def fuse_ranks(
    *rankings: list[int], weights: tuple[float, ...] = (), constant: float = 60.0
) -> list[tuple[int, float]]:
    """Fuse rankings by reciprocal rank: what several rank high comes first."""
    scores: dict[int, float] = {}
    for place, ranking in enumerate(rankings):
        weight = weights[place] if weights else 1.0
        for rank, number in enumerate(ranking, start=1):
            scores[number] = scores.get(number, 0.0) + weight / (constant + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
