"""Embedders: make the vectors of texts from their words or with a model of a provider. Chosen by [rag] embeddings."""

from collections.abc import Callable
from typing import Any, Protocol

from moot.domain.config import Config
from moot.domain.conversation import ConversationKey
from moot.domain.errors import ConfigError, ModelError
from moot.domain.ports.embedding import EmbeddingModel, Embeddings
from moot.domain.ports.store import Store
from moot.domain.rag_config import LOCAL_EMBEDDINGS, RagConfig, split_embeddings
from moot.domain.tokens import estimate_text
from moot.domain.usage import Charge, Need
from moot.retrieval.reading import word_embedding
from moot.tools.threads import run_in_thread

# Texts that are sent before what they took is counted, and the budget looked at again: those of one request, so that
# what was paid for is counted also if a later request fails.
_COUNTED_TEXTS = 32


class Embedder(Protocol):
    # The smallest cosine that says anything, and that of a passage that fits although it shares no word.
    least: float
    near: float
    # Whether the reading process makes the vectors of passages.
    is_local: bool
    # For people: what makes the vectors, and where.
    description: str

    @property
    def name(self) -> str:
        """Stored with each document: vectors with another name are never compared. Empty where none are made."""
        ...

    def is_current(self, name: str) -> bool:
        """Whether vectors with this name are like those that are made now; others are made anew."""
        ...

    async def make_vectors(self, owner: ConversationKey, texts: list[str], charge: Charge) -> list[bytes]:
        """Return the vectors of texts. Raises ModelError if the provider fails, or the budget leaves no room."""
        ...


class WordEmbedder:
    """Makes vectors of the words of a text, in the process that reads documents."""

    name = word_embedding.NAME
    least, near = 0.25, 0.45
    is_local = True
    description = "the words of texts, on this machine"

    def is_current(self, name: str) -> bool:
        return name == self.name

    async def make_vectors(self, owner: ConversationKey, texts: list[str], charge: Charge) -> list[bytes]:
        return await run_in_thread(lambda: [word_embedding.make_vector(text) for text in texts])


class NoEmbedder:
    name = ""
    least = near = 1.0
    is_local = False

    def __init__(self, description: str = "none; documents are found by their words alone") -> None:
        self.description = description

    def is_current(self, name: str) -> bool:
        return not name

    async def make_vectors(self, owner: ConversationKey, texts: list[str], charge: Charge) -> list[bytes]:
        return [b"" for _ in texts]


class ProviderEmbedder:
    """Makes vectors with a model of a provider, and counts what they take for the owner of the documents.

    `lengths` has the length of the vectors of each model, as far as they are known since the start.
    """

    is_local = False
    # Models differ in what an unrelated text has; the order is what counts.
    least, near = 0.1, 0.3

    def __init__(self, model: EmbeddingModel, lengths: dict[str, int], store: Store) -> None:
        self._model = model
        self._lengths = lengths
        self._store = store
        self._whole = f"{model.address}/{model.model}"
        self.description = f"{model.model} at {model.address}; the text of documents and queries is sent there"

    @property
    def name(self) -> str:
        length = self._lengths.get(self._whole)
        return f"{self._whole}#{length}" if length else self._whole

    def is_current(self, name: str) -> bool:
        if self._whole in self._lengths:
            # A document without passages has no length.
            return name in (self._whole, self.name)
        return name == self._whole or name.startswith(f"{self._whole}#")

    async def make_vectors(self, owner: ConversationKey, texts: list[str], charge: Charge) -> list[bytes]:
        found: list[bytes] = []
        for start in range(0, len(texts), _COUNTED_TEXTS):
            made = await self._embed(owner, texts[start : start + _COUNTED_TEXTS], charge)
            self._lengths[self._whole] = len(made.vectors[0])
            found += await run_in_thread(_quantize_all, made.vectors)
        if len({len(vector) for vector in found if vector}) > 1:
            raise ModelError(
                f"{self._model.model} made vectors of different lengths", fix="Check `embeddings` in [rag]."
            )
        return found

    async def _embed(self, owner: ConversationKey, texts: list[str], charge: Charge) -> Embeddings:
        if charge.limits_spend and not await self._model.has_price():
            raise ModelError(
                f"the price of {self._model.model} is not known, so a limit on spend cannot be kept",
                fix="Name a model with a known price in [rag], or take the limit away.",
            )
        need = Need(prompt=sum(map(estimate_text, texts)), price=self._model.cost)
        async with charge.reserve(need) as reservation:
            made = await self._model.embed(texts)
            cost = self._model.cost(made.usage)
            try:
                if made.usage.total:
                    await self._store.add_spend(owner, self._model.model, made.usage, cost, root_id=charge.root_id)
            finally:
                reservation.settle(made.usage, cost)
        return made


def _quantize_all(vectors: list[list[float]]) -> list[bytes]:
    np: Any = word_embedding.load_numpy()
    return [word_embedding.quantize(np.array(vector, np.float32)) for vector in vectors]


class EmbedderChoice:
    """Chooses what makes vectors, by the configuration of the moment. `models` finds an embedding model."""

    def __init__(
        self, config: Callable[[], Config], models: Callable[[str, str], EmbeddingModel], store: Store
    ) -> None:
        self._config = config
        self._models = models
        self._store = store
        self._lengths: dict[str, int] = {}

    def __call__(self) -> Embedder:
        """Raises ConfigError if the provider that is configured cannot be used."""
        config = self._config()
        if not config.tools.rag.has_provider:
            return choose_local(config.tools.rag)
        chosen = split_embeddings(config.tools.rag.embeddings, config.models)
        if chosen is None:
            raise ConfigError(
                f"`embeddings` in [rag] is '{config.tools.rag.embeddings}'.",
                fix="Use provider:NAME/MODEL with the NAME of a [models.NAME].",
            )
        if not word_embedding.has_numpy():
            return NoEmbedder("none, because they need the extra rag: pip install 'moot[rag]'")
        return ProviderEmbedder(self._models(*chosen), self._lengths, self._store)


def choose_local(config: RagConfig) -> Embedder:
    """Return what makes vectors on this machine, or what makes none."""
    if config.embeddings != LOCAL_EMBEDDINGS:
        return NoEmbedder()
    if not word_embedding.has_numpy():
        return NoEmbedder("none, because they need the extra rag: pip install 'moot[rag]'")
    return WordEmbedder()
