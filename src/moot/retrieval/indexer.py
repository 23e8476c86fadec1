"""Indexer: brings the index of a source in step with its files, its page or the archive. Used by documents.py.

Each batch of documents is one transaction. A source that is not complete is taken up again after a crash.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from hashlib import sha256

from msgspec import Struct, field
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, MootError, TooLarge, Unavailable
from moot.domain.ports.clock import Clock
from moot.domain.ports.rag import DocumentIndex
from moot.domain.rag import (
    ARCHIVE_FORMAT,
    Document,
    DocumentChange,
    IndexedPassage,
    NewPassage,
    Source,
    SourceKind,
    find_outer_file,
    join_member,
    join_text,
)
from moot.domain.rag_config import RagConfig
from moot.domain.usage import NO_CHARGE, Charge
from moot.failpoint import reach
from moot.retrieval.archives import ArchiveReader
from moot.retrieval.embedders import Embedder
from moot.retrieval.files import FileState, SourceFiles
from moot.retrieval.pages import Page
from moot.retrieval.parsing import Parsed, Parser
from moot.retrieval.reading.formats import find_archive
from moot.retrieval.reading.messages import Member
from moot.retrieval.reading.process import DocumentReader, ReaderPlaces
from moot.retrieval.reading.terms import list_terms
from moot.tools.threads import run_in_thread

_MOST_READERS = 4
_BATCH_DOCUMENTS, _BATCH_PASSAGES = 32, 256

# Told how many of how many documents are done.
Progress = Callable[[int, int], None]


class IndexReport(Struct, kw_only=True):
    """What indexing a source has changed."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    passages: int = 0
    # Documents whose text is the same and whose vectors were made anew, because something else makes them now.
    embedded_anew: int = 0
    # The documents that were refused now, with the reason of each, and what is worth knowing about others.
    refused: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


class IndexerDependencies(Struct, frozen=True, kw_only=True):
    index: DocumentIndex
    files: SourceFiles
    archives: ArchiveReader
    config: Callable[[], RagConfig]
    choose_embedder: Callable[[], Embedder]
    redact: Callable[[str], str]
    clock: Clock


class Indexer:
    def __init__(self, dependencies: IndexerDependencies) -> None:
        self._d = dependencies
        self._places = ReaderPlaces(_MOST_READERS)

    async def sync(
        self, owner: ConversationKey, source: Source, progress: Progress, charge: Charge = NO_CHARGE
    ) -> IndexReport:
        """Index what is new or has changed, and remove what is gone. Pages are fetched only when asked for."""
        async with self._open_reader() as reader:
            work = _Sync(self._d, reader, owner, source, progress, charge)
            await work.prepare()
            if source.kind is SourceKind.ARCHIVE:
                await work.sync_archives()
            elif source.kind is SourceKind.PAGE:
                await work.sync_pages()
            else:
                await work.sync_files()
            await work.flush()
        await self._d.index.complete_source(owner, source.number, self._d.clock.now())
        return work.report

    def _open_reader(self) -> DocumentReader:
        return DocumentReader(seconds=self._d.config().read_seconds, clock=self._d.clock, places=self._places)

    async def put_page(
        self, owner: ConversationKey, source: Source, page: Page, charge: Charge = NO_CHARGE
    ) -> IndexReport:
        """Index a page that was fetched; raises if it is refused."""
        async with self._open_reader() as reader:
            work = _Sync(self._d, reader, owner, source, lambda _done, _total: None, charge)
            await work.prepare()
            await work.put_page(page)
            await work.flush()
        await self._d.index.complete_source(owner, source.number, self._d.clock.now())
        return work.report


class _Sync:
    """One run over a source."""

    def __init__(
        self,
        dependencies: IndexerDependencies,
        reader: DocumentReader,
        owner: ConversationKey,
        source: Source,
        progress: Progress,
        charge: Charge,
    ) -> None:
        self._d = dependencies
        self._owner = owner
        self._source = source
        self._progress = progress
        self._charge = charge
        self._config = dependencies.config()
        self._embedder = dependencies.choose_embedder()
        self._parser = Parser(reader, self._config, self._embedder, dependencies.redact)
        self._known: dict[str, Document] = {}
        self._batch: list[DocumentChange] = []
        self._touched: list[Document] = []
        self._room = 0
        # The members of each archive, and how many more may be documents.
        self._members: dict[str, set[str]] = {}
        self._left = 0
        self.report = IndexReport()

    async def prepare(self) -> None:
        stored = await self._d.index.list_documents(self._owner, self._source.number)
        self._known = {document.name: document for document in stored}
        for name in self._known:
            archive = find_outer_file(name)
            if archive != name:
                self._members.setdefault(archive, set()).add(name)
        total = sum(each.passages for each in await self._d.index.list_sources(self._owner))
        self._room = self._config.max_passages - total

    async def sync_files(self) -> None:
        found = await self._d.files.scan(self._source, self._config.max_files)
        states = self._refuse_names(found)
        kept = [name for name in self._known if find_outer_file(name) in states]
        await self._remove_others([*states, *kept])
        changed = [name for name, state in states.items() if not self._has_state(name, state)]
        self.report.unchanged = sum(self._count_documents(name) for name in states.keys() - changed)
        self._left = self._config.max_files - len(changed) - self.report.unchanged
        for done, name in enumerate(changed):
            self._progress(done, len(changed))
            await self._sync_file(name)
            await self._flush_full()
        self._progress(len(changed), len(changed))

    def _refuse_names(self, found: dict[str, FileState]) -> dict[str, FileState]:
        """Return the files whose names are text. Another name cannot be stored, and so not be cited."""
        readable: dict[str, FileState] = {}
        for name, state in found.items():
            try:
                name.encode()
            except UnicodeEncodeError:
                shown = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
                self.report.refused[shown] = "its name is not valid UTF-8; rename it"
            else:
                readable[name] = state
        return readable

    async def sync_archives(self) -> None:
        archives = await self._d.archives.list_archives(self._owner)
        await self._remove_others(archive.name for archive in archives)
        for done, archive in enumerate(archives):
            self._progress(done, len(archives))
            if self._is_known(archive.name):
                self.report.unchanged += 1
                continue
            sections = await self._d.archives.read(self._owner, archive)
            document = Document(name=archive.name, title=archive.title, taint=archive.taint)
            await self._put(document, partial(self._parser.parse_text, archive.name, "text", archive.title, sections))
            await self._flush_full()
        self._progress(len(archives), len(archives))

    async def sync_pages(self) -> None:
        """Make the vectors of pages anew if something else makes them now. The pages are not fetched again."""
        for document in list(self._known.values()):
            if self._is_known(document.name) or document.problem:
                continue
            passages = await self._d.index.list_passages(self._owner, self._source.number, document.name)
            made = await run_in_thread(_analyse_again, document, passages)
            self._add(document, Parsed(format=document.format, title=document.title, passages=made, note=document.note))
            self.report.embedded_anew += 1

    async def put_page(self, page: Page) -> None:
        digest = await run_in_thread(_digest, page.body)
        document = Document(name=page.address, digest=digest, size=len(page.body), taint=page.taint)
        await self._remove_others([page.address])
        await self._put(document, lambda: self._parser.parse_file(page.address, page.body, kind=page.format))

    def _is_known(self, name: str) -> bool:
        """Whether it is indexed with vectors like those that are made now."""
        known = self._known.get(name)
        return known is not None and self._embedder.is_current(known.embedder)

    def _has_state(self, name: str, state: FileState) -> bool:
        known = self._known.get(name)
        return known is not None and self._is_known(name) and FileState(known.size, known.modified) == state

    async def _remove_others(self, names: Iterable[str]) -> None:
        gone = sorted(set(self._known) - set(names))
        if gone:
            await self._d.index.remove_documents(self._owner, self._source.number, gone)
            self.report.removed = len(gone)

    async def _sync_file(self, name: str) -> None:
        try:
            data, state = await self._d.files.read(self._source, name, self._config.max_file_bytes)
        except MootError as error:
            await self._drop_members(name)
            self._refuse(Document(name=name), error.message)
            return
        digest = await run_in_thread(_digest, data)
        document = Document(name=name, size=state.size, modified=state.modified, digest=digest)
        if self._is_known(name) and self._known[name].digest == document.digest:
            self.report.unchanged += self._count_documents(name)
            self._touched.append(document)
            return
        try:
            kind = find_archive(name, data)
            if kind:
                await self._sync_archive(document, kind, data)
                return
        except BadRequest as error:
            await self._drop_members(name)
            self._refuse(document, error.message)
            return
        await self._put(document, lambda: self._parser.parse_file(name, data))

    async def _sync_archive(self, document: Document, kind: str, data: bytes) -> None:
        """Index what is new or has changed in an archive. Raises BadRequest if it is refused as a whole.

        It is stored behind its members: if it is there, all of them are.
        """
        found: set[str] = set()
        is_whole, first, links = True, 0, 0
        most = max(0, self._left)
        while True:
            unpacked = await self._parser.unpack(kind, data, first=first, most_members=most)
            for member in unpacked.members:
                name = join_member(document.name, member.name)
                found.add(name)
                self._members.setdefault(document.name, set()).add(name)
                is_whole &= await self._sync_member(name, member)
                await self._flush_full()
            first, links = unpacked.next, unpacked.links
            if not first:
                break
        self._left -= len(found)
        await self._drop_members(document.name, kept=found)
        note = f"links in it were left out: {links}" if links else ""
        if note:
            self.report.notes[document.name] = note
        # Something has to be installed for a member: it is unpacked again to look for it.
        known = document if is_whole else Document(name=document.name)
        self._add(known, Parsed(format=ARCHIVE_FORMAT, title="", passages=(), note=note))

    async def _sync_member(self, name: str, member: Member) -> bool:
        """Return whether nothing has to be installed to read it."""
        digest = await run_in_thread(_digest, member.data)
        document = Document(name=name, size=len(member.data), digest=digest)
        if member.problem:
            self._refuse(document, member.problem)
            return True
        if self._is_known(name) and self._known[name].digest == digest and not self._known[name].problem:
            self.report.unchanged += 1
            return True
        return await self._put(document, lambda: self._parser.parse_file(name, member.data))

    async def _drop_members(self, archive: str, kept: Collection[str] = ()) -> None:
        """Remove what is indexed of an archive beyond what is kept, also what was before a part of it was refused."""
        gone = self._members.get(archive, set()).difference(kept)
        if gone:
            await self.flush()
            await self._d.index.remove_documents(self._owner, self._source.number, sorted(gone))
            self.report.removed += len(self._known.keys() & gone)

    def _count_documents(self, name: str) -> int:
        """Return how many documents a file is: those in it if it is an archive."""
        known = self._known.get(name)
        is_archive = known is not None and known.format == ARCHIVE_FORMAT
        return len(self._members.get(name, ())) if is_archive else 1

    async def _put(self, document: Document, parse: Callable[[], Awaitable[Parsed]]) -> bool:
        """Add a document to the batch, or why it was refused. Return whether nothing has to be installed for it."""
        try:
            parsed = await parse()
            if len(parsed.passages) > self._room:
                raise TooLarge("the index is full", fix="Forget a source, or raise max_passages in [rag].")
        except Unavailable as error:
            # Something has to be installed; not stored, so that it is tried again.
            self.report.refused[document.name] = f"{error.message}: {error.fix}"
            return False
        except MootError as error:
            self._refuse(document, error.message)
            return True
        known = self._known.get(document.name)
        self.report.added += known is None
        is_same = known is not None and not known.problem and known.digest == document.digest
        is_anew = is_same and not self._is_known(document.name)
        self.report.embedded_anew += is_anew
        self.report.changed += known is not None and not is_anew
        self.report.passages += len(parsed.passages)
        self._room -= len(parsed.passages)
        if parsed.note:
            self.report.notes[document.name] = parsed.note
        self._add(document, parsed)
        return True

    def _refuse(self, document: Document, reason: str) -> None:
        self.report.refused[document.name] = reason
        self._add(document, Parsed(format="", title="", passages=()), problem=reason)

    def _add(self, document: Document, parsed: Parsed, problem: str = "") -> None:
        whole = Document(
            name=document.name,
            title=parsed.title or document.title,
            format=parsed.format,
            size=document.size,
            modified=document.modified,
            digest=document.digest,
            embedder=self._embedder.name,
            problem=problem,
            note=parsed.note,
            taint=document.taint,
            indexed_at=self._d.clock.now(),
        )
        self._batch.append(DocumentChange(document=whole, passages=parsed.passages))

    async def _flush_full(self) -> None:
        waiting = sum(len(change.passages) for change in self._batch)
        if len(self._batch) >= _BATCH_DOCUMENTS or waiting >= _BATCH_PASSAGES:
            await self.flush()

    async def flush(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            batch = await self._embed(batch)
            reach("documents.parsed")
            if not await self._d.index.put_documents(self._owner, self._source.number, batch):
                raise Conflict(f"{self._source.place} was forgotten while it was indexed")
            reach("documents.stored")
        touched, self._touched = self._touched, []
        if touched:
            await self._d.index.touch_documents(self._owner, self._source.number, touched)

    async def _embed(self, batch: list[DocumentChange]) -> list[DocumentChange]:
        """Return the documents with vectors of all passages that have none yet. A failure leaves the index as it is."""
        made = [(change.document.title, each) for change in batch for each in change.passages]
        lacking = [join_text(title, each.heading, each.content) for title, each in made if not each.vector]
        vectors = iter(
            await self._embedder.make_vectors(self._owner, lacking, self._charge) if self._embedder.name else ()
        )
        return [
            replace(
                change,
                document=replace(change.document, embedder=self._embedder.name),
                passages=tuple(
                    each if each.vector else replace(each, vector=next(vectors, b"")) for each in change.passages
                ),
            )
            for change in batch
        ]


def _analyse_again(document: Document, passages: list[IndexedPassage]) -> tuple[NewPassage, ...]:
    """Return stored passages with what they are found by, and without vectors."""
    return tuple(
        NewPassage(
            content=each.content,
            heading=each.heading,
            first_line=each.first_line,
            last_line=each.last_line,
            page=each.page,
            terms=" ".join(list_terms(join_text(document.title, each.heading, each.content))),
        )
        for each in passages
    )


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
