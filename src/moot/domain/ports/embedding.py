"""The EmbeddingModel port: a provider that makes vectors of texts. Implemented in models/embeddings.py."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from moot.domain.usage import Usage


class Embeddings(Struct, frozen=True, kw_only=True):
    """One vector for each text, all of the same length, and what they took."""

    vectors: list[list[float]]
    usage: Usage


class EmbeddingModel(Protocol):
    """A model that is reached over a network: what it is given leaves this machine, without what is masked."""

    @property
    def model(self) -> str: ...
    @property
    def address(self) -> str:
        """The host it runs on."""
        ...

    async def has_price(self) -> bool:
        """Whether the price of a call is known (including free). May have to look it up."""
        ...

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of some texts, in their order. Raises ModelError."""
        ...

    def cost(self, usage: Usage) -> float:
        """Return the cost of this usage in US dollars; 0 if it is free or the price is unknown."""
        ...
