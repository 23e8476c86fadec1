"""What tokens cost."""

import subprocess
import sys

import pytest

from moot.domain.config import ModelConfig
from moot.domain.usage import Usage
from moot.models.prices import FREE, UNKNOWN, is_known, is_own_address, price

MILLION = Usage(prompt=1_000_000, completion=1_000_000)


def test_a_configured_price_wins() -> None:
    config = ModelConfig(
        name="m", provider="openai", model="gpt-4o", base_url="http://localhost/v1", price_prompt=2, price_completion=3
    )

    assert price(config, MILLION).dollars == 5.0


@pytest.mark.parametrize(
    "base_url",
    ["http://localhost:11434/v1", "http://127.0.0.1/v1", "http://[::1]:1/v1", "http://192.168.1.9/v1", "http://gpu/v1"],
)
def test_ones_own_machines_are_free(base_url: str) -> None:
    assert price(ModelConfig(name="m", provider="openai", model="gpt-4o", base_url=base_url), MILLION) == FREE


@pytest.mark.parametrize("provider", ["local", "scripted"])
def test_models_of_our_own_are_free(provider: str) -> None:
    assert price(ModelConfig(name="m", provider=provider), MILLION) == FREE


def test_a_known_model_is_looked_up() -> None:
    found = price(ModelConfig(name="m", provider="openai", model="gpt-4o"), MILLION)

    assert found.known
    assert found.dollars > 1


def test_what_the_cache_held_is_cheaper() -> None:
    config = ModelConfig(name="m", provider="anthropic", model="claude-sonnet-4-5")
    cold = price(config, Usage(prompt=100_000, completion=0))
    warm = price(config, Usage(prompt=100_000, completion=0, cache_hit=90_000))

    assert 0 < warm.dollars < cold.dollars


@pytest.mark.parametrize("model", ["no-such-model", "", "\0"])
def test_an_unknown_price_is_zero_and_says_so(model: str) -> None:
    config = ModelConfig(name="m", provider="openai", model=model, base_url="https://api.example.com/v1")

    assert price(config, MILLION) == UNKNOWN


@pytest.mark.parametrize("address", ["", "https://api.openai.com/v1", "https://8.8.8.8/", "http://[bad"])
def test_other_machines_are_not_ones_own(address: str) -> None:
    assert not is_own_address(address)


def test_the_table_is_loaded_aside_and_only_for_models_that_cost_something() -> None:
    program = """
import sys, threading
from moot.domain.config import ModelConfig
from moot.models.prices import is_known, preload
preload(ModelConfig(name="a", provider="openai", model="x", base_url="http://localhost/v1"))
assert threading.active_count() == 1
preload(ModelConfig(name="b", provider="openai", model="x"))
preload(ModelConfig(name="b", provider="openai", model="x"))
loading = [thread for thread in threading.enumerate() if thread.name == "prices"]
assert len(loading) == 1
loading[0].join(30)
assert "genai_prices" in sys.modules
"""

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_whether_a_price_is_known_can_be_asked() -> None:
    assert await is_known(ModelConfig(name="m", provider="openai", model="x", base_url="http://127.0.0.1:1/v1"))
    assert await is_known(
        ModelConfig(name="m", provider="openai", model="gpt-4o", base_url="https://api.openai.com/v1")
    )
    assert not await is_known(
        ModelConfig(name="m", provider="openai", model="nobody-knows", base_url="https://far.example")
    )
    assert await is_known(ModelConfig(name="m", provider="openai", base_url="https://far.example", price_prompt=1.0))
