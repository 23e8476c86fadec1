"""Vectors from a provider: what an answer must be, the order of texts, and the price."""

import asyncio
from collections.abc import Iterator
from random import Random

import msgspec
import pytest

from moot.daemon.clock import SystemClock
from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.usage import Usage
from moot.models.embeddings import OpenAIEmbeddings
from moot.models.http_client import HttpClient
from moot.models.keys import Key
from moot.models.retry import RetryPolicy
from tests.fake_provider import Provider
from tests.fake_provider.client import running

CONFIG = ModelConfig(
    name="own",
    provider="openai",
    model="chat",
    base_url="https://example.org/v1",
    price_prompt=2.0,
    price_completion=3.0,
)


def make(
    config: ModelConfig = CONFIG, model: str = "embed", *, key: str = "", client: HttpClient | None = None
) -> OpenAIEmbeddings:
    return OpenAIEmbeddings(
        config,
        model,
        http=lambda: client or HttpClient(SystemClock()),
        key=Key.with_value(key, model=config.name) if key else Key(model=config.name),
        retry_policy=RetryPolicy(retries=0, rng=Random(1), clock=SystemClock()),
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"data":[]}',
        b'{"data":[{"embedding":[1.0]}]}',
        b'{"data":[{"embedding":[1.0],"index":0},{"embedding":[1.0],"index":0}]}',
        b'{"data":[{"embedding":[1.0],"index":0},{"embedding":[1.0],"index":7}]}',
        b'{"data":[{"embedding":[],"index":0},{"embedding":[],"index":1}]}',
        b'{"data":[{"embedding":[1e999],"index":0},{"embedding":[1.0],"index":1}]}',
        msgspec.json.encode({"data": [{"embedding": [1.0] * 8_193}] * 2}),
        b'{"data":' + b"[" * 100_000,
    ],
)
def test_an_answer_that_has_not_one_vector_for_each_text_is_refused(answer: bytes) -> None:
    with pytest.raises(ModelError, match=r"Model 'embed' of \[models.own\] sent"):
        make()._read(answer, 2)


def test_vectors_come_in_the_order_of_the_texts() -> None:
    answer = b'{"data":[{"embedding":[2.0],"index":1},{"embedding":[1],"index":0}],"usage":{"total_tokens":5}}'
    made = make()._read(answer, 2)
    assert (made.vectors, made.usage) == ([[1.0], [2.0]], Usage(prompt=5))
    assert make()._read(b'{"data":[{"embedding":[3.0]}]}', 1).vectors == [[3.0]]


def test_the_prices_of_a_table_are_those_of_its_own_model() -> None:
    used = Usage(prompt=1_000_000)
    assert make(model="chat").cost(used) == 2.0
    assert make(model="unheard-of").cost(used) == 0.0
    assert (
        make(
            model="text-embedding-3-small", config=msgspec.structs.replace(CONFIG, base_url="https://api.openai.com/v1")
        ).cost(used)
        > 0
    )


@pytest.fixture(scope="module")
def locked() -> Iterator[Provider]:
    with running(key="sk-right-key") as provider:
        yield provider


def test_a_key_that_is_refused_is_not_in_the_error(locked: Provider) -> None:
    async def ask() -> None:
        client = HttpClient(SystemClock())
        try:
            config = msgspec.structs.replace(CONFIG, base_url=locked.openai_url)
            await make(config, key="sk-wrong-and-long-key", client=client).embed(["words"])
        finally:
            await client.close()

    with pytest.raises(ModelError) as caught:
        asyncio.run(ask())
    assert "sk-wrong" not in caught.value.sentence
