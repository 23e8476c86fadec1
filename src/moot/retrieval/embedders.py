"""What vectors are made with: the words of a text, or nothing. Chosen by [rag] embeddings; used by index and search."""

from typing import Protocol

from moot.domain.rag_config import LOCAL_EMBEDDINGS, RagConfig
from moot.retrieval.reading import word_embedding
from moot.tools.threads import run_in_thread


class Embedder(Protocol):
    # Stored with each document: its vectors are made anew when this changes. Empty where no vectors are made.
    name: str
    # The smallest cosine that says anything.
    least: float
    # Whether the reading process makes the vectors of passages.
    is_local: bool

    async def make_vectors(self, texts: list[str]) -> list[bytes]: ...


class WordEmbedder:
    """Makes vectors of the words of a text, in the process that reads documents."""

    name = word_embedding.NAME
    least = 0.25
    is_local = True

    async def make_vectors(self, texts: list[str]) -> list[bytes]:
        return await run_in_thread(lambda: [word_embedding.make_vector(text) for text in texts])


class NoEmbedder:
    name = ""
    least = 1.0
    is_local = False

    async def make_vectors(self, texts: list[str]) -> list[bytes]:
        return [b"" for _ in texts]


def choose_embedder(config: RagConfig) -> Embedder:
    if config.embeddings == LOCAL_EMBEDDINGS and word_embedding.has_numpy():
        return WordEmbedder()
    return NoEmbedder()
