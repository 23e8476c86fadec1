"""Adapter for OpenAI-compatible /embeddings endpoints, with the masks and retries of requests to models."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from math import isfinite

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.ports.embedding import EmbeddingModel, Embeddings
from moot.domain.ports.masks import Masks
from moot.domain.usage import Usage, read_counts
from moot.models.keys import Key
from moot.models.openai import build_auth_headers
from moot.models.prices import is_known, price
from moot.models.retry import RetryPolicy
from moot.models.transport import Endpoint, Http

# Texts of one request: small servers take no more.
_BATCH = 32
_MOST_NUMBERS = 8_192


class _Item(Struct):
    embedding: list[float]
    index: int | None = None


class _Usage(Struct):
    prompt_tokens: int = 0
    total_tokens: int = 0


class _Answer(Struct):
    data: list[_Item]
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class OpenAIEmbeddings:
    """The model `model` at the address of a configured model, with its key, proxy and retries."""

    def __init__(self, config: ModelConfig, model: str, *, http: Http, key: Key, retry_policy: RetryPolicy) -> None:
        # The prices of a table are those of the model it names.
        is_its_own = config.model == model
        prices = (config.price_prompt, config.price_completion) if is_its_own else (0.0, 0.0)
        self._config = replace(config, model=model, price_prompt=prices[0], price_completion=prices[1])
        self._endpoint = Endpoint(self._config, "/embeddings", http=http, key=key)
        self._retry_policy = retry_policy
        self.model = model
        self.address = self._endpoint.url.authority

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        vectors: list[list[float]] = []
        usage = Usage()
        for start in range(0, len(texts), _BATCH):
            made = await self._request(texts[start : start + _BATCH])
            vectors += made.vectors
            usage += made.usage
        if len({len(vector) for vector in vectors}) > 1:
            raise self._invalid_error("vectors of different lengths")
        return Embeddings(vectors=vectors, usage=usage)

    def cost(self, usage: Usage) -> float:
        return price(self._config, usage).dollars

    async def has_price(self) -> bool:
        return await is_known(self._config)

    async def _request(self, texts: Sequence[str]) -> Embeddings:
        body = msgspec.json.encode({"model": self.model, "input": list(texts)})
        async with aclosing(self._retry_policy.retry(lambda: self._try(body, len(texts)))) as events:
            async for event in events:
                if isinstance(event, Embeddings):
                    return event
        raise self._invalid_error("nothing")

    async def _try(self, body: bytes, count: int) -> AsyncGenerator[Embeddings, None]:
        yield self._read(await self._endpoint.fetch(body, build_auth_headers), count)

    def _read(self, body: bytes, count: int) -> Embeddings:
        try:
            answer = _decode(body)
        except (ValueError, RecursionError):
            raise self._invalid_error("something that is not a list of vectors") from None
        places = [place if item.index is None else item.index for place, item in enumerate(answer.data)]
        if sorted(places) != list(range(count)):
            raise self._invalid_error(f"{len(answer.data)} vectors for {count} texts")
        by_place = dict(zip(places, (item.embedding for item in answer.data), strict=True))
        vectors = [by_place[place] for place in range(count)]
        if not all(0 < len(vector) <= _MOST_NUMBERS and all(map(isfinite, vector)) for vector in vectors):
            raise self._invalid_error("vectors that are empty, too long or not of numbers")
        used = answer.usage or _Usage()
        (prompt,) = read_counts(used.prompt_tokens or used.total_tokens)
        return Embeddings(vectors=vectors, usage=Usage(prompt=prompt))

    def _invalid_error(self, what: str) -> ModelError:
        name = self._config.name
        return ModelError(
            f"Model '{self.model}' of [models.{name}] sent {what}.",
            fix=f"Check `embeddings` in [rag], and `base_url` in [models.{name}]; it should make vectors.",
        )


class MaskedEmbeddings:
    """An embedding model that is sent no secrets, and no personal data if so configured."""

    def __init__(self, inner: EmbeddingModel, masks: Masks) -> None:
        self._inner = inner
        self._masks = masks
        self.model = inner.model
        self.address = inner.address
        self.cost = inner.cost
        self.has_price = inner.has_price

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        if not self._masks.edition:
            return await self._inner.embed(texts)
        # Masking hundreds of passages takes time, so it runs on another thread.
        return await self._inner.embed(await asyncio.to_thread(self._mask, texts))

    def _mask(self, texts: Sequence[str]) -> list[str]:
        return [self._masks.mask_personal(self._masks.mask_secrets(each), {}) for each in texts]
