"""Documents: indexes, searches and forgets for an owner. Used by the tools rag_* and by the requests of `moot rag`."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, MootError, NotFound, TooLarge
from moot.domain.ports.clock import Clock
from moot.domain.ports.rag import DocumentIndex
from moot.domain.rag import MOST_RESULTS, Source, SourceKind, SourceReport, check_query
from moot.domain.rag_config import RagConfig
from moot.retrieval.files import SourceFiles
from moot.retrieval.indexer import Indexer, IndexReport, Progress
from moot.retrieval.pages import WEB, PageFetcher, is_address
from moot.retrieval.search import FoundPassage, PassageSearch

ARCHIVE = "archive"
# What one agent indexes for one sender.
_MOST_SOURCES = 1_000

logger = logging.getLogger(__name__)


class Found(Struct, frozen=True, kw_only=True):
    """The passages that were found, and what is not up to date."""

    passages: tuple[FoundPassage, ...]
    notes: tuple[str, ...] = ()


class DocumentsDependencies(Struct, frozen=True, kw_only=True):
    index: DocumentIndex
    indexer: Indexer
    search: PassageSearch
    files: SourceFiles
    pages: PageFetcher
    config: Callable[[], RagConfig]
    # Starts a background task with a name.
    start: Callable[[str, Coroutine[Any, Any, list[str]]], "asyncio.Task[list[str]]"]
    # Replaces secrets by marks; called in a thread.
    redact: Callable[[str], str]
    clock: Clock


class Documents:
    def __init__(self, dependencies: DocumentsDependencies) -> None:
        self._d = dependencies
        # One indexing of an owner at a time.
        self._turns: WeakValueDictionary[ConversationKey, asyncio.Lock] = WeakValueDictionary()
        # When each source was last compared with its files.
        self._checked: dict[int, float] = {}

    # ---- indexing ----

    async def index(
        self,
        owner: ConversationKey,
        place: str,
        *,
        cwd: str,
        taint: frozenset[str] = frozenset(),
        progress: Progress = lambda _done, _total: None,
    ) -> tuple[SourceReport, IndexReport]:
        """Index a file, a folder, a page or the archive; only what has changed if it is indexed already."""
        place = place.strip()
        if not place:
            raise BadRequest("the source is empty", fix="Name a file, a folder or an address.")
        async with self._turn(owner):
            if is_address(place):
                source, report = await self._index_page(owner, place, taint)
            elif place == ARCHIVE:
                source = await self._add(owner, SourceKind.ARCHIVE, ARCHIVE, taint=taint)
                report = await self._d.indexer.sync(owner, source, progress)
            else:
                source, report = await self._index_files(owner, place, cwd, taint, progress)
        self._checked[source.number] = self._d.clock.monotonic()
        stored = await self._find_source(owner, str(source.number))
        return stored, report

    async def _index_page(
        self, owner: ConversationKey, address: str, taint: frozenset[str]
    ) -> tuple[Source, IndexReport]:
        page = await self._d.pages.fetch(address)
        is_new = not any(each.source.place == address for each in await self.list_sources(owner))
        source = await self._add(owner, SourceKind.PAGE, address, taint=taint | WEB)
        report = await self._d.indexer.put_page(owner, source, page)
        await self._drop_refused(owner, source, report, is_new=is_new)
        return source, report

    async def _index_files(
        self, owner: ConversationKey, path: str, cwd: str, taint: frozenset[str], progress: Progress
    ) -> tuple[Source, IndexReport]:
        place = await self._d.files.locate(path, cwd)
        # Too many files are refused before anything is stored.
        await self._d.files.scan_place(place, self._d.config().max_files)
        is_new = not any(each.source.place == place.path for each in await self.list_sources(owner))
        source = await self._add(owner, place.kind, place.path, folder=place.folder, taint=taint)
        report = await self._d.indexer.sync(owner, source, progress)
        if place.kind is SourceKind.FILE:
            await self._drop_refused(owner, source, report, is_new=is_new)
        return source, report

    async def _add(
        self, owner: ConversationKey, kind: SourceKind, place: str, *, folder: str = "", taint: frozenset[str]
    ) -> Source:
        sources = await self.list_sources(owner)
        if len(sources) >= _MOST_SOURCES and not any(each.source.place == place for each in sources):
            raise TooLarge(f"there are {len(sources)} sources already", fix="Forget one, or index the folder above.")
        now = self._d.clock.now()
        return await self._d.index.add_source(owner, kind, place, folder=folder, taint=taint, now=now)

    async def _drop_refused(self, owner: ConversationKey, source: Source, report: IndexReport, *, is_new: bool) -> None:
        """A source that is one document and was refused is an error, and is not kept."""
        if report.refused:
            if is_new:
                await self._d.index.forget_source(owner, source.number)
            (reason,) = report.refused.values()
            raise BadRequest(f"{source.place} was not indexed: {reason}").with_taint(source.taint)

    async def resume(self) -> None:
        """Take up what a stopped daemon had not indexed in full."""
        for owner, source in await self._d.index.list_unfinished():
            try:
                async with self._turn(owner):
                    await self._d.indexer.sync(owner, source, lambda _done, _total: None)
            except MootError as error:
                logger.warning("%s was not indexed: %s", source.place, error.message)

    def _turn(self, owner: ConversationKey) -> asyncio.Lock:
        return self._turns.setdefault(owner, asyncio.Lock())

    # ---- searching ----

    async def search(self, owner: ConversationKey, query: str, *, limit: int, source: str = "") -> Found:
        """Bring the index in step with the files, then return the best passages."""
        query = check_query(query)
        sources = [(await self._find_source(owner, source)).source.number] if source else []
        notes = await self._refresh(owner)
        found = await self._d.search.search(owner, query, limit=max(1, min(limit, MOST_RESULTS)), sources=sources)
        # A secret may have been stored after the passage was indexed.
        masked = await asyncio.to_thread(lambda: [_mask(each, self._d.redact) for each in found])
        return Found(passages=tuple(masked), notes=tuple(notes))

    async def _refresh(self, owner: ConversationKey) -> list[str]:
        """Index what has changed; return what could not be brought up to date in time."""
        if self._turn(owner).locked():
            return ["Indexing is under way; not everything is found yet."]
        # It goes on when the time is over: otherwise a file that takes longer would be begun anew by every search.
        work = self._d.start("bring documents up to date", self._sync_due(owner))
        with suppress(TimeoutError):
            async with self._d.clock.timeout(self._d.config().refresh_seconds):
                await asyncio.wait({work})
        return work.result() if work.done() else ["Many files have changed; not all of them are indexed yet."]

    async def _sync_due(self, owner: ConversationKey) -> list[str]:
        async with self._turn(owner):
            due = [each.source for each in await self.list_sources(owner) if self._is_due(each.source)]
            return [note for source in due if (note := await self._sync(owner, source))]

    def _is_due(self, source: Source) -> bool:
        if source.kind is SourceKind.PAGE:
            return False
        checked = self._checked.get(source.number)
        now = self._d.clock.monotonic()
        return not source.is_complete or checked is None or now - checked >= self._d.config().check_seconds

    async def _sync(self, owner: ConversationKey, source: Source) -> str:
        try:
            await self._d.indexer.sync(owner, source, lambda _done, _total: None)
        except MootError as error:
            return f"{source.place} is not up to date: {error.message}"
        self._checked[source.number] = self._d.clock.monotonic()
        return ""

    # ---- sources ----

    async def list_sources(self, owner: ConversationKey) -> list[SourceReport]:
        return await self._d.index.list_sources(owner)

    async def forget(self, owner: ConversationKey, name: str) -> SourceReport:
        """Delete a source, named by its number or its place, with everything indexed of it."""
        report = await self._find_source(owner, name)
        await self._d.index.forget_source(owner, report.source.number)
        self._checked.pop(report.source.number, None)
        return report

    async def _find_source(self, owner: ConversationKey, name: str) -> SourceReport:
        """Return a source by its number, its place, or the end of its path."""
        name = name.strip().rstrip("/")
        sources = await self.list_sources(owner)
        exact = [each for each in sources if name in (str(each.source.number), each.source.place)]
        ending = name.removeprefix("./")
        found = exact or [each for each in sources if ending and each.source.place.endswith(f"/{ending}")]
        if len(found) == 1:
            return found[0]
        known = "; ".join(f"{each.source.number}: {each.source.place}" for each in sources[:20])
        fix = f"Name one of these sources by its number: {known}." if known else "Nothing is indexed yet."
        what = "is not indexed" if not found else "matches several sources"
        error = NotFound(f"{name!r} {what}", fix=fix)
        # An address may have been taken from untrusted text.
        raise error.with_taint(frozenset[str]().union(*(each.source.taint for each in sources)))


def _mask(found: FoundPassage, redact: Callable[[str], str]) -> FoundPassage:
    """Return the passage without the secrets that are known now."""
    passage = found.passage
    masked = replace(
        passage, content=redact(passage.content), title=redact(passage.title), heading=redact(passage.heading)
    )
    return replace(found, passage=masked)
