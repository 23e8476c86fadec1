"""The HTTP client both peers are given: the faster of the two their SDK documents, where it is installed."""

import importlib.util
from typing import Any

from openai import DefaultAioHttpClient


def http_client() -> Any | None:
    """Its client over aiohttp; None is its default, over httpx."""
    return DefaultAioHttpClient() if importlib.util.find_spec("aiohttp") else None
