"""PassageSearch: finds passages by their words and by vectors, and fuses both rankings."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.ports.rag import DocumentIndex
from moot.domain.rag import IndexedPassage, fuse_ranks
from moot.retrieval.embedders import Embedder
from moot.retrieval.reading.terms import list_query_terms
from moot.retrieval.vector_search import VectorSearch

# How far down each ranking is looked at.
_CANDIDATES = 60
# How much the ranking by words counts, and the one by vectors.
_WEIGHTS = (1.0, 1.0)


class FoundPassage(Struct, frozen=True, kw_only=True):
    """A passage and how well it fits: the fused score, and the cosine of its vector if there is one."""

    passage: IndexedPassage
    score: float
    cosine: float
    # Whether it has a word of the query.
    has_words: bool


class PassageSearch:
    def __init__(self, index: DocumentIndex, choose_embedder: Callable[[], Embedder]) -> None:
        self._index = index
        self._vectors = VectorSearch(index)
        self._choose_embedder = choose_embedder

    async def search(
        self, owner: ConversationKey, query: str, *, limit: int, sources: Sequence[int] = ()
    ) -> list[FoundPassage]:
        """Return the best passages, of the given sources if there are any."""
        by_words = await self._index.find_words(owner, list_query_terms(query), limit=_CANDIDATES)
        embedder = self._choose_embedder()
        by_vectors: list[tuple[int, float]] = []
        if embedder.name:
            (vector,) = await embedder.make_vectors([query])
            by_vectors = await self._vectors.find(owner, vector, limit=_CANDIDATES, least=embedder.least)
        cosines = dict(by_vectors)
        fused = fuse_ranks(by_words, list(cosines), weights=_WEIGHTS)
        scores, with_words = dict(fused), set(by_words)
        passages = await self._index.get_passages(owner, [number for number, _ in fused])
        found = [
            FoundPassage(
                passage=passage,
                score=scores[passage.number],
                cosine=cosines.get(passage.number, 0.0),
                has_words=passage.number in with_words,
            )
            for passage in passages
            if not sources or passage.source in sources
        ]
        return found[:limit]
