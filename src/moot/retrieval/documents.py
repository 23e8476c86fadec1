"""Documents: indexes, searches and forgets for an owner. Used by the tools rag_* and by the requests of `moot rag`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, ConfigError, ModelError, MootError, NotFound, TooLarge
from moot.domain.ports.clock import Clock
from moot.domain.ports.rag import DocumentIndex
from moot.domain.rag import MOST_RESULTS, Source, SourceKind, SourceReport, check_query, find_outer_file
from moot.domain.rag_config import RagConfig
from moot.domain.usage import NO_CHARGE, Charge
from moot.retrieval.embedders import Embedder
from moot.retrieval.files import FileState, SourceFiles
from moot.retrieval.indexer import Indexer, IndexReport, Progress
from moot.retrieval.pages import WEB, PageFetcher, is_address, normalize_address
from moot.retrieval.search import Found, FoundPassage, PassageSearch

ARCHIVE = "archive"
# What one agent indexes for one sender.
_MOST_SOURCES = 1_000
# How long a source is left alone after a provider has failed, so that not every search waits for it.
_PAUSE_SECONDS = 60.0

# Indexes a source of an owner.
Work = Callable[[ConversationKey, Source], Awaitable[IndexReport]]

logger = logging.getLogger(__name__)


class DocumentsDependencies(Struct, frozen=True, kw_only=True):
    index: DocumentIndex
    indexer: Indexer
    search: PassageSearch
    files: SourceFiles
    pages: PageFetcher
    choose_embedder: Callable[[], Embedder]
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
        # Until when a source is left alone because a provider has failed, and what is said of it.
        self._paused: dict[int, tuple[float, str]] = {}

    @property
    def has_vectors(self) -> bool:
        return bool(self._d.choose_embedder().name)

    def _name_vectors(self) -> str:
        try:
            return self._d.choose_embedder().name
        except ConfigError:
            return ""

    def describe_embeddings(self) -> str:
        """Say what vectors are made with, for people."""
        try:
            return self._d.choose_embedder().description
        except ConfigError as error:
            return f"none, because of the configuration: {error.message}"

    # ---- indexing ----

    async def index(
        self,
        owner: ConversationKey,
        place: str,
        *,
        cwd: str,
        taint: frozenset[str] = frozenset(),
        progress: Progress = lambda _done, _total: None,
        charge: Charge = NO_CHARGE,
    ) -> tuple[SourceReport, IndexReport]:
        """Index a file, a folder, a page or the archive; only what has changed if it is indexed already."""
        place = place.strip()
        if not place:
            raise BadRequest("the source is empty", fix="Name a file, a folder or an address.")
        async with self._turn(owner):
            if is_address(place):
                source, report = await self._index_page(owner, normalize_address(place), taint, charge)
            elif place == ARCHIVE:
                source, report = await self._index_source(
                    owner, SourceKind.ARCHIVE, ARCHIVE, taint=taint, work=self._sync_with(progress, charge)
                )
            else:
                source, report = await self._index_files(owner, place, cwd, taint, self._sync_with(progress, charge))
        self._checked[source.number] = self._d.clock.monotonic()
        self._paused.pop(source.number, None)
        stored = await self._find_source(owner, str(source.label))
        return stored, report

    async def _index_page(
        self, owner: ConversationKey, address: str, taint: frozenset[str], charge: Charge
    ) -> tuple[Source, IndexReport]:
        page = await self._d.pages.fetch(address)
        # The secret of an address is sent, but not stored.
        address = await self._mask(address)
        page = replace(page, address=address)

        async def put(owner: ConversationKey, source: Source) -> IndexReport:
            return await self._d.indexer.put_page(owner, source, page, charge)

        return await self._index_source(owner, SourceKind.PAGE, address, taint=taint | WEB, work=put)

    async def _mask(self, text: str) -> str:
        return await asyncio.to_thread(self._d.redact, text)

    async def _index_files(
        self, owner: ConversationKey, path: str, cwd: str, taint: frozenset[str], work: Work
    ) -> tuple[Source, IndexReport]:
        place = await self._d.files.locate(path, cwd)
        # Too many files are refused before anything is stored.
        await self._d.files.scan_place(place, self._d.config().max_files)
        return await self._index_source(owner, place.kind, place.path, folder=place.folder, taint=taint, work=work)

    def _sync_with(self, progress: Progress, charge: Charge) -> Work:
        async def sync(owner: ConversationKey, source: Source) -> IndexReport:
            return await self._d.indexer.sync(owner, source, progress, charge)

        return sync

    async def _index_source(
        self,
        owner: ConversationKey,
        kind: SourceKind,
        place: str,
        *,
        folder: str = "",
        taint: frozenset[str],
        work: Work,
    ) -> tuple[Source, IndexReport]:
        """Store the source and index it; one of which nothing was indexed is not kept."""
        # A provider that cannot be used is an error before anything is stored.
        self._d.choose_embedder()
        is_new = not any(each.source.place == place for each in await self.list_sources(owner))
        source = await self._add(owner, kind, place, folder=folder, taint=taint)
        try:
            report = await work(owner, source)
        except ModelError as error:
            raise await self._describe_failure(owner, source, error, is_new=is_new) from error
        if kind in (SourceKind.FILE, SourceKind.PAGE):
            await self._drop_refused(owner, source, report, is_new=is_new)
        return source, report

    async def _describe_failure(
        self, owner: ConversationKey, source: Source, error: ModelError, *, is_new: bool
    ) -> ModelError:
        """Return the error for a source whose vectors could not be made. Each document is indexed whole or not."""
        stored = await self._find_source(owner, str(source.label))
        if is_new and not stored.documents:
            await self._d.index.forget_source(owner, source.number)
            return ModelError(f"{source.place} was not indexed: {error.message}", fix=error.fix).with_taint(
                source.taint
            )
        self._pause(source, error)
        remark = f"{stored.documents} documents are in the index; the others are indexed by a later search."
        message = f"{source.place} was not indexed in full: {error.message} {remark}"
        return ModelError(message, fix=error.fix).with_taint(source.taint)

    async def _add(
        self, owner: ConversationKey, kind: SourceKind, place: str, *, folder: str = "", taint: frozenset[str]
    ) -> Source:
        sources = await self.list_sources(owner)
        if len(sources) >= _MOST_SOURCES and not any(each.source.place == place for each in sources):
            raise TooLarge(f"there are {len(sources)} sources already", fix="Forget one, or index the folder above.")
        now = self._d.clock.now()
        return await self._d.index.add_source(owner, kind, place, folder=folder, taint=taint, now=now)

    async def _drop_refused(self, owner: ConversationKey, source: Source, report: IndexReport, *, is_new: bool) -> None:
        """A source that is one file or page of which nothing could be read is an error, and is not kept."""
        reason = report.refused.get(source.place) or await self._explain_empty(owner, source, report)
        if reason:
            if is_new:
                await self._d.index.forget_source(owner, source.number)
            raise BadRequest(f"{source.place} was not indexed: {reason}").with_taint(source.taint)

    async def _explain_empty(self, owner: ConversationKey, source: Source, report: IndexReport) -> str:
        """Return why nothing of an archive is indexed; nothing if something is."""
        stored = await self._find_source(owner, str(source.label))
        if stored.documents:
            return ""
        reasons = [f"{name.removeprefix(source.place).lstrip('/')}: {why}" for name, why in report.refused.items()]
        if not reasons:
            return "there is nothing in it that can be indexed"
        more = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        return f"nothing in it can be read ({reasons[0]}{more})"

    async def resume(self) -> None:
        """Take up what a stopped daemon had not indexed in full."""
        for owner, source in await self._d.index.list_unfinished():
            try:
                async with self._turn(owner):
                    await self._d.indexer.sync(owner, source, lambda _done, _total: None)
                    await self._drop_empty(owner, source)
            except MootError as error:
                logger.warning("%s was not indexed: %s", source.place, error.message)

    async def _drop_empty(self, owner: ConversationKey, source: Source) -> None:
        """Forget a file that is refused, and a page, which is not fetched again, as if they had just been asked for."""
        stored = await self._find_source(owner, str(source.label))
        if source.kind in (SourceKind.FILE, SourceKind.PAGE) and not stored.documents:
            await self._d.index.forget_source(owner, source.number)
            logger.warning("%s was not indexed before the daemon stopped; index it again", source.place)

    def _turn(self, owner: ConversationKey) -> asyncio.Lock:
        return self._turns.setdefault(owner, asyncio.Lock())

    # ---- searching ----

    async def search(
        self, owner: ConversationKey, query: str, *, limit: int, source: str = "", charge: Charge = NO_CHARGE
    ) -> Found:
        """Bring the index in step with the files, then return the best passages."""
        query = check_query(query)
        only = (await self._find_source(owner, source)).source.number if source else None
        most = max(1, min(limit, MOST_RESULTS))
        search = partial(self._d.search.search, owner, query, limit=most, source=only, charge=charge)
        notes = await self._refresh(owner, charge)
        vectors = self._name_vectors()
        found = await search()
        if vectors != self._name_vectors():
            # The vector of the query has shown that the model makes others now: those of the documents do not fit.
            for each in await self._d.index.find_sources(owner):
                self._checked.pop(each.number, None)
            notes = await self._refresh(owner, charge)
            found = await search()
        renewed: set[int] = set()
        # A citation has to be found in the file as it is now, not as it was at the last check. Without a passage that
        # has changed, one of another source may be found that has changed too.
        while changed := await self._mark_changed(owner, found, renewed):
            renewed |= changed
            notes = await self._refresh(owner, charge)
            found = await search()
        # A secret may have been stored after the passage was indexed.
        masked = await asyncio.to_thread(lambda: [_mask(each, self._d.redact) for each in found.passages])
        return Found(passages=tuple(masked), notes=(*notes, *found.notes))

    async def _mark_changed(self, owner: ConversationKey, found: Found, renewed: set[int]) -> set[int]:
        """Have the sources checked again in which a file that was found has changed, and return them.

        Sources that this search has renewed are left out.
        """
        files: dict[int, set[str]] = {}
        for each in found.passages:
            files.setdefault(each.passage.source, set()).add(find_outer_file(each.passage.document))
        due = files.keys() - renewed
        sources = [each for each in await self._d.index.find_sources(owner) if each.number in due]
        changed = {each.number for each in sources if await self._has_changed(owner, each, files[each.number])}
        for number in changed:
            self._checked.pop(number, None)
        return changed

    async def _has_changed(self, owner: ConversationKey, source: Source, files: set[str]) -> bool:
        if source.kind not in (SourceKind.FILE, SourceKind.FOLDER) or self._is_paused(source):
            return False
        known = await self._d.index.list_documents(owner, source.number, sorted(files))
        try:
            states = await self._d.files.find_states(source, files)
        except MootError:
            # Comparing the whole source says what is wrong with it, and other sources are found all the same.
            return True
        # An archive of which a member could not be read yet has no time.
        timed = [each for each in known if each.modified]
        return any(states.get(each.name) != FileState(each.size, each.modified) for each in timed)

    async def _refresh(self, owner: ConversationKey, charge: Charge) -> list[str]:
        """Index what has changed; return what could not be brought up to date in time."""
        if self._turn(owner).locked():
            return ["Indexing is under way; not everything is found yet."]
        # It goes on when the time is over: otherwise a file that takes longer would be begun anew by every search.
        work = self._d.start("bring documents up to date", self._sync_due(owner, charge))
        with suppress(TimeoutError):
            async with self._d.clock.timeout(self._d.config().refresh_seconds):
                await asyncio.wait({work})
        return work.result() if work.done() else ["Many files have changed; not all of them are indexed yet."]

    async def _sync_due(self, owner: ConversationKey, charge: Charge) -> list[str]:
        async with self._turn(owner):
            sources = await self._d.index.find_sources(owner)
            notes = [await self._sync(owner, source, charge) for source in sources if self._is_due(source)]
            waiting = [self._paused[source.number][1] for source in sources if self._is_paused(source)]
            # A failure that is told of already is not told of again.
            return list(dict.fromkeys(note for note in (*notes, *waiting) if note))

    def _is_paused(self, source: Source) -> bool:
        until, _ = self._paused.get(source.number, (0.0, ""))
        return self._d.clock.monotonic() < until

    def _pause(self, source: Source, error: MootError) -> str:
        note = f"{source.place} is not up to date: {error.message}"
        self._paused[source.number] = (self._d.clock.monotonic() + _PAUSE_SECONDS, note)
        return note

    def _is_due(self, source: Source) -> bool:
        if self._is_paused(source):
            return False
        checked = self._checked.get(source.number)
        now = self._d.clock.monotonic()
        return not source.is_complete or checked is None or now - checked >= self._d.config().check_seconds

    async def _sync(self, owner: ConversationKey, source: Source, charge: Charge) -> str:
        try:
            report = await self._d.indexer.sync(owner, source, lambda _done, _total: None, charge)
        except (ModelError, ConfigError) as error:
            return self._pause(source, error)
        except MootError as error:
            return f"{source.place} is not up to date: {error.message}"
        self._checked[source.number] = self._d.clock.monotonic()
        self._paused.pop(source.number, None)
        return describe_new_vectors(source.place, report.embedded_anew, self.describe_embeddings())

    # ---- sources ----

    async def list_sources(self, owner: ConversationKey) -> list[SourceReport]:
        return await self._d.index.list_sources(owner)

    async def forget(self, owner: ConversationKey, name: str) -> SourceReport:
        """Delete a source, named by its number or its place, with everything indexed of it."""
        report = await self._find_source(owner, name)
        await self._d.index.forget_source(owner, report.source.number)
        self._checked.pop(report.source.number, None)
        self._paused.pop(report.source.number, None)
        return report

    async def _find_source(self, owner: ConversationKey, name: str) -> SourceReport:
        """Return a source by its number, its place, or the end of its path."""
        name = (await self._mask(name)).strip()
        name = normalize_address(name) if is_address(name) else name.rstrip("/")
        sources = await self.list_sources(owner)
        exact = [each for each in sources if name in (str(each.source.label), each.source.place)]
        ending = name.removeprefix("./")
        found = exact or [each for each in sources if ending and each.source.place.endswith(f"/{ending}")]
        if len(found) == 1:
            return found[0]
        known = "; ".join(f"{each.source.label}: {each.source.place}" for each in sources[:20])
        fix = f"Name one of these sources by its number: {known}." if known else "Nothing is indexed yet."
        what = "is not indexed" if not found else "matches several sources"
        error = NotFound(f"{name!r} {what}", fix=fix)
        # An address may have been taken from untrusted text.
        raise error.with_taint(frozenset[str]().union(*(each.source.taint for each in sources)))


def describe_new_vectors(place: str, count: int, embeddings: str) -> str:
    """Say that vectors were made anew; nothing if none were."""
    documents = "1 document" if count == 1 else f"{count} documents"
    return f"New vectors were made of {documents} of {place}: {embeddings}." if count else ""


def _mask(found: FoundPassage, redact: Callable[[str], str]) -> FoundPassage:
    """Return the passage without the secrets that are known now."""
    passage = found.passage
    masked = replace(
        passage, content=redact(passage.content), title=redact(passage.title), heading=redact(passage.heading)
    )
    return replace(found, passage=masked)
