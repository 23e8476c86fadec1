"""Applies a function to every string inside a JSON value, for example to mask it. Pure."""

import json
from collections.abc import Callable
from typing import Any


def map_json_strings(text: str, change: Callable[[str], str]) -> str:
    """Apply `change` to every string in JSON text, however it is escaped. Unchanged JSON is returned as is.

    Text that is not valid JSON is changed as a whole.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return change(text)
    altered = map_strings(value, change)
    return text if altered == value else json.dumps(altered, ensure_ascii=False)


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_strings(each, change) for each in value]
    if isinstance(value, dict):
        return {change(name): map_strings(each, change) for name, each in value.items()}
    return value
