"""The vectors of the fake provider: words hashed into a few numbers, with a few words that mean the same."""

import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

# The most texts of one request, as small servers have it.
_MOST_TEXTS = 32
_SAME = {"automobile": "car", "physician": "doctor"}


def check(body: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a request for vectors; nothing for a valid one."""
    if set(body) != {"model", "input"}:
        yield f"only model and input are expected, not {sorted(body)}"
        return
    texts = body["input"]
    if not isinstance(texts, list) or not all(isinstance(each, str) and each.strip() for each in texts):
        yield "input must be a list of texts that are not empty"
    elif not 0 < len(texts) <= _MOST_TEXTS:
        yield f"{len(texts)} texts; at most {_MOST_TEXTS} are taken"


def embed(texts: list[str], length: int) -> dict[str, Any]:
    """The answer to a valid request, last text first: the index says which is which."""
    data = [
        {"object": "embedding", "index": place, "embedding": _embed(text, length)} for place, text in enumerate(texts)
    ]
    tokens = sum(len(text.split()) for text in texts)
    return {"object": "list", "data": data[::-1], "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}


def _embed(text: str, length: int) -> list[float]:
    numbers = [0.001] * length
    for word in re.findall(r"\w{3,}", text.lower()):
        numbers[crc32(_SAME.get(word, word).encode()) % length] += 1.0
    return numbers
