"""VectorSearch: the vectors of an owner's passages in memory, kept in step with the index. Needs numpy."""

from collections import OrderedDict
from typing import Any

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.ports.rag import DocumentIndex
from moot.domain.rag import PassageVectors
from moot.retrieval.reading.word_embedding import load_numpy
from moot.tools.threads import run_in_thread

# How many owners' vectors are kept, and the share of passages that are gone at which they are read anew.
_MOST_OWNERS = 8
_MOST_GONE = 0.2


class _Matrix(Struct, frozen=True):
    """The numbers of passages and the vectors that one embedder made, each of length 1, as columns.

    They are stored row by row, with the first numbers of all vectors first: so a product with one vector takes half the
    time.
    """

    embedder: str
    version: int
    numbers: Any
    columns: Any

    @property
    def last(self) -> int:
        return int(self.numbers[-1]) if len(self.numbers) else 0


class VectorSearch:
    def __init__(self, index: DocumentIndex) -> None:
        self._index = index
        self._owners: OrderedDict[ConversationKey, _Matrix] = OrderedDict()

    async def find(
        self,
        owner: ConversationKey,
        vector: bytes,
        *,
        embedder: str,
        source: int | None = None,
        limit: int,
        least: float,
    ) -> list[tuple[int, float]]:
        """Return the numbers of the nearest passages with their cosines, nearest first, none below `least`.

        Only vectors that `embedder` has made are compared, and of one source only if it is given.
        """
        if not vector:
            return []
        matrix = await self._load(owner, embedder)
        among = None if source is None else await self._index.list_numbers(owner, source)
        return await run_in_thread(_find_nearest, matrix, vector, among, limit, least)

    async def _load(self, owner: ConversationKey, embedder: str) -> _Matrix:
        known = self._owners.get(owner)
        if known is not None and known.embedder != embedder:
            known = None
        version, last = (known.version, known.last) if known is not None else (-1, 0)
        found = await self._index.list_vectors(owner, embedder=embedder, after=last, unless=version)
        if known is None or known.version != found.version:
            expected = found.count - len(found.numbers)
            if known is not None and len(known.numbers) - expected > _MOST_GONE * max(1, found.count):
                known, found = None, await self._index.list_vectors(owner, embedder=embedder, after=0)
            known = await run_in_thread(_extend, known, found, embedder)
        self._owners[owner] = known
        self._owners.move_to_end(owner)
        while len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)
        return known


def _extend(known: _Matrix | None, found: PassageVectors, embedder: str) -> _Matrix:
    np = load_numpy()
    # Vectors of another length are from before the way they are made was changed; they are made anew soon.
    size = len(found.vectors[-1]) if found.vectors else (known.columns.shape[0] if known is not None else 0)
    fitting = [(number, each) for number, each in zip(found.numbers, found.vectors, strict=True) if len(each) == size]
    numbers = np.array([number for number, _ in fitting], np.int64)
    rows = _to_unit(np.frombuffer(b"".join(each for _, each in fitting), np.int8).reshape(-1, size or 1))
    columns = np.ascontiguousarray(rows.T)
    if known is not None and known.columns.shape[0] == columns.shape[0]:
        numbers, columns = np.concatenate([known.numbers, numbers]), np.concatenate([known.columns, columns], axis=1)
    return _Matrix(embedder, found.version, numbers, columns)


def _to_unit(rows: Any) -> Any:
    np = load_numpy()
    rows = rows.astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, 1e-9)


def _find_nearest(
    matrix: _Matrix, vector: bytes, among: list[int] | None, limit: int, least: float
) -> list[tuple[int, float]]:
    np = load_numpy()
    wanted = _to_unit(np.frombuffer(vector, np.int8).reshape(1, -1))[0]
    if not len(matrix.numbers) or matrix.columns.shape[0] != len(wanted):
        return []
    cosines = wanted @ matrix.columns
    if among is not None:
        cosines = np.where(np.isin(matrix.numbers, among), cosines, -np.inf)
    # Few are near enough, and only these are put in order.
    near = np.flatnonzero(cosines >= least)
    if limit < len(near):
        near = near[np.argpartition(-cosines[near], limit)[:limit]]
    ordered = near[np.argsort(-cosines[near], kind="stable")]
    return [(int(matrix.numbers[place]), float(cosines[place])) for place in ordered]
