"""Strict JSON: no NaN, no duplicate keys, no lone surrogates. Pure."""

import json
import math
from typing import Any

from moot.domain.text import clean


def strict_object(text: str) -> str:
    """The text itself if every reader takes it for the same object, otherwise written anew. Raises ValueError."""
    odd: list[object] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            odd.append(items)
        return found

    def number(digits: str) -> float | None:
        value = float(digits)
        if math.isfinite(value):
            return value
        odd.append(digits)
        return None

    found = json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_constant=number)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    whole = json.dumps(found, ensure_ascii=False)
    cleaned = clean(whole)
    if not odd and cleaned == whole:
        return text
    # Halves of surrogate pairs are alike once replaced, so that keys may be the same only now.
    return json.dumps(json.loads(cleaned), ensure_ascii=False)
