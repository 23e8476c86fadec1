"""PassageSearch: finds passages by their words and by vectors, and fuses both rankings."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import ConfigError, ModelError
from moot.domain.ports.rag import DocumentIndex
from moot.domain.rag import IndexedPassage, fuse_ranks
from moot.domain.usage import NO_CHARGE, Charge
from moot.retrieval.embedders import Embedder
from moot.retrieval.reading.terms import list_compound_parts, list_query_terms
from moot.retrieval.vector_search import VectorSearch

# How far down each ranking is looked at.
_CANDIDATES = 60
# How much the ranking by words counts, and the one by vectors.
_WEIGHTS = (1.0, 1.0)


class FoundPassage(Struct, frozen=True, kw_only=True):
    """A passage and how well it fits: the fused score."""

    passage: IndexedPassage
    score: float
    # Whether it has a word of the query, or a vector near that of the query.
    is_relevant: bool


class Found(Struct, frozen=True, kw_only=True):
    """The passages that were found, best first, and what is worth knowing about the search."""

    passages: tuple[FoundPassage, ...]
    notes: tuple[str, ...] = ()


class PassageSearch:
    def __init__(self, index: DocumentIndex, choose_embedder: Callable[[], Embedder]) -> None:
        self._index = index
        self._vectors = VectorSearch(index)
        self._choose_embedder = choose_embedder

    async def search(
        self, owner: ConversationKey, query: str, *, limit: int, source: int | None = None, charge: Charge = NO_CHARGE
    ) -> Found:
        """Return the best passages, of one source if it is given."""
        # Both at the same time: they are computed on other threads.
        try:
            async with asyncio.TaskGroup() as group:
                found_near = group.create_task(self._find_near(owner, query, source, charge))
                terms, parts = list_query_terms(query), list_compound_parts(query)
                by_words = await self._index.find_words(owner, terms, parts=parts, source=source, limit=_CANDIDATES)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        cosines, near, notes = found_near.result()
        fused = fuse_ranks(by_words, list(cosines), weights=_WEIGHTS)
        scores, with_words = dict(fused), set(by_words)
        best = await self._read_best(owner, [number for number, _ in fused], limit)
        found = [
            FoundPassage(
                passage=passage,
                score=scores[passage.number],
                is_relevant=passage.number in with_words or cosines.get(passage.number, 0.0) >= near,
            )
            for passage in best
        ]
        return Found(passages=tuple(found), notes=notes)

    async def _read_best(self, owner: ConversationKey, ranked: list[int], limit: int) -> list[IndexedPassage]:
        """Return the first passages. A file that belongs to several sources is found once."""
        best: dict[str, IndexedPassage] = {}
        for start in range(0, len(ranked), limit):
            for passage in await self._index.get_passages(owner, ranked[start : start + limit]):
                best.setdefault(f"{passage.location}\n{passage.content}", passage)
            if len(best) >= limit:
                break
        return list(best.values())[:limit]

    async def _find_near(
        self, owner: ConversationKey, query: str, source: int | None, charge: Charge
    ) -> tuple[dict[int, float], float, tuple[str, ...]]:
        """Return the passages with the nearest vectors and their cosines, which of these are near, and notes."""
        try:
            embedder = self._choose_embedder()
            if not embedder.name:
                return {}, 1.0, ()
            (vector,) = await embedder.make_vectors(owner, [query], charge)
        except (ModelError, ConfigError) as error:
            return {}, 1.0, (f"Found by words only, because the query has no vector: {error.message}",)
        # The name may have changed with this vector, and with it which others are like it.
        found = await self._vectors.find(
            owner, vector, embedder=embedder.name, source=source, limit=_CANDIDATES, least=embedder.least
        )
        return dict(found), embedder.near, ()
