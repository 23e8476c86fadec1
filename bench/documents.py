"""What the index of documents costs: passages indexed in a second on one core, and searches among 100,000."""

import random
import resource
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.rag import Document, DocumentChange, NewPassage, SourceKind
from moot.domain.rag_config import RagConfig
from moot.retrieval.embedders import choose_local
from moot.retrieval.parsing import Parser
from moot.retrieval.reading.process import DocumentReader
from moot.retrieval.search import PassageSearch
from moot.store.sqlite import open_store
from moot.store.sqlite_storage import build_storage

DOCUMENT_PASSAGES = 100_000
OWNER = ConversationKey("bench", "documents")
_READ = 1_000
_SEARCHES = 200
_WORDS_EACH = 70
_BATCH = 256

Put = Callable[[str, tuple[NewPassage, ...]], Awaitable[None]]


class DocumentTimes(Struct, frozen=True, kw_only=True):
    """Passages that are read, analysed and stored in a second; seconds of each search; bytes for each passage."""

    indexed_per_second: float
    searches: list[float]
    bytes_per_passage: float


def write_text(rng: random.Random, vocabulary: list[str]) -> str:
    """Return a paragraph in which words are about as frequent as in ordinary text."""
    count = len(vocabulary)
    words = [vocabulary[min(count - 1, int(rng.paretovariate(0.9)) - 1)] for _ in range(_WORDS_EACH)]
    return " ".join(words).capitalize() + "."


async def measure_documents(home: Path, passages: int) -> DocumentTimes:
    rng = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(3, 10))) for _ in range(40_000)]
    store = await open_store(home / "documents.db", SystemClock())
    try:
        index = build_storage(store).documents
        source = await index.add_source(OWNER, SourceKind.FOLDER, "bench", folder="", taint=frozenset(), now=0.0)
        embedder = choose_local(RagConfig())

        async def put(name: str, made: tuple[NewPassage, ...]) -> None:
            document = Document(name=name, embedder=embedder.name)
            await index.put_documents(OWNER, source.number, [DocumentChange(document=document, passages=made)])

        speed, samples = await _measure_indexing(put, rng, vocabulary)
        # The rest has the same texts in another order of words, which costs a search the same.
        for start in range(_READ, passages, _BATCH):
            count = min(_BATCH, passages - start)
            await put(f"more-{start}", tuple(_vary(rng, rng.choice(samples)) for _ in range(count)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        search = PassageSearch(index, lambda: embedder)
        queries = [" ".join(rng.sample(vocabulary[200:4_000], 3) + vocabulary[:4]) for _ in range(_SEARCHES)]
        await search.search(OWNER, queries[0], limit=5)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taken = []
        for query in queries:
            started = time.perf_counter()
            await search.search(OWNER, query, limit=5)
            taken.append(time.perf_counter() - started)
    finally:
        await store.close()
    return DocumentTimes(indexed_per_second=speed, searches=taken, bytes_per_passage=(after - before) * 1024 / passages)


async def _measure_indexing(put: Put, rng: random.Random, vocabulary: list[str]) -> tuple[float, list[NewPassage]]:
    samples: list[NewPassage] = []
    async with DocumentReader(seconds=60.0, clock=SystemClock()) as reader:
        parser = Parser(reader, RagConfig(), choose_local(RagConfig()), lambda text: text)
        await parser.parse_file("warm.txt", b"The first file loads what the others need.")
        files = ["\n\n".join(write_text(rng, vocabulary) for _ in range(100)).encode() for _ in range(_READ // 100)]
        started = time.perf_counter()
        for number, data in enumerate(files):
            parsed = await parser.parse_file(f"{number}.txt", data)
            await put(f"{number}.txt", parsed.passages)
            samples += parsed.passages
        return len(samples) / (time.perf_counter() - started), samples


def _vary(rng: random.Random, passage: NewPassage) -> NewPassage:
    terms = passage.terms.split()
    rng.shuffle(terms)
    return NewPassage(content=passage.content, terms=" ".join(terms), first_line=1, last_line=1, vector=passage.vector)
