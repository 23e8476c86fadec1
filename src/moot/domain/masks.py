"""What a model is not told: the port to the masks, and how a change reaches every text inside a JSON value. Pure."""

import json
from collections.abc import Callable
from typing import Any, Protocol


class HeardText(Protocol):
    """Text from a model that comes in pieces. What may be the beginning of a mask waits for more."""

    def feed(self, text: str) -> str: ...
    def rest(self) -> str: ...


class Masks(Protocol):
    """Secrets Moot holds are masked for good. Personal data, where that is wanted, has placeholders with a way back.

    `known` is what each placeholder of one prompt stands for: `personal` adds to it, the others read it.
    """

    @property
    def edition(self) -> int:
        """0 while nothing is kept from models; another number whenever the masks are others."""
        ...

    def secrets(self, text: str) -> str: ...
    def personal(self, text: str, known: dict[str, str]) -> str: ...
    def heard(self, text: str, known: dict[str, str]) -> str:
        """Whole text from a model as people and tools may have it."""
        ...

    def hearing(self, known: dict[str, str]) -> HeardText: ...


def changed_json(text: str, change: Callable[[str], str]) -> str:
    """JSON text with every string in it changed, however it was escaped; the same text where none was.

    What is no JSON is changed as the text it is.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return change(text)
    altered = changed_value(value, change)
    return text if altered == value else json.dumps(altered, ensure_ascii=False)


def changed_value(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [changed_value(each, change) for each in value]
    if isinstance(value, dict):
        return {change(name): changed_value(each, change) for name, each in value.items()}
    return value
