"""Computes the cost of tokens. Never raises; an unknown price is zero."""

import asyncio
import ipaddress
from functools import cache
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from moot.domain.config import ModelConfig
from moot.domain.usage import Usage

_MILLION = 1_000_000


class Price(Struct, frozen=True, kw_only=True):
    dollars: float
    known: bool = True


FREE = Price(dollars=0.0)
UNKNOWN = Price(dollars=0.0, known=False)


def price(config: ModelConfig, usage: Usage) -> Price:
    """Return the cost. A configured price takes precedence; own servers are free; other prices are looked up."""
    if config.price_prompt or config.price_completion:
        return Price(
            dollars=(usage.prompt * config.price_prompt + usage.completion * config.price_completion) / _MILLION
        )
    return FREE if _is_free(config) else _look_up(config, usage)


async def is_known(config: ModelConfig) -> bool:
    """Whether the price is known. The lookup runs in a thread, since the table may have to be loaded."""
    if config.price_prompt or config.price_completion or _is_free(config):
        return True
    return (await asyncio.to_thread(_look_up, config, Usage(prompt=1))).known


def preload(config: ModelConfig) -> None:
    """Load the table while the model answers: it takes a third of a second, too long for the event loop."""
    if not (config.price_prompt or config.price_completion or _is_free(config)):
        _load_in_thread()


@cache
def _load_in_thread() -> None:
    sample = ModelConfig(name="", provider="openai", model="gpt-4o")
    Thread(target=_look_up, args=(sample, Usage(prompt=1)), name="prices", daemon=True).start()


def _is_free(config: ModelConfig) -> bool:
    return config.provider in {"local", "scripted"} or is_own_address(config.base_url)


@cache
def is_own_address(base_url: str) -> bool:
    """Whether the address is on this machine or a private network."""
    try:
        host = urlsplit(base_url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal", ".lan")):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name without a dot can only be resolved on the local network.
        return bool(host) and "." not in host
    return address.is_private or address.is_loopback or address.is_link_local


def _look_up(config: ModelConfig, usage: Usage) -> Price:
    try:
        return Price(dollars=float(_calculate(config, usage).total_price))
    except Exception:  # noqa: BLE001  the table is foreign data: whatever is wrong with it, the price is unknown
        return UNKNOWN


def _calculate(config: ModelConfig, usage: Usage) -> Any:
    import genai_prices  # noqa: PLC0415  a large table, needed only for models that cost something

    spent = genai_prices.Usage(
        input_tokens=usage.prompt,
        output_tokens=usage.completion,
        cache_read_tokens=usage.cache_hit or None,
        cache_write_tokens=(usage.cache_miss or None) if config.provider == "anthropic" else None,
    )
    if config.base_url:
        return genai_prices.calc_price(spent, config.model, provider_api_url=config.base_url)
    return genai_prices.calc_price(spent, config.model, provider_id=config.provider)
