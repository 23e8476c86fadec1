"""Masks secrets in the texts of a request, before they are stored. Used by graph.py, knowledge.py and agent_data.py."""

from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.message import Message

# Returns a text with every known secret replaced.
Redact = Callable[[str], str]


def mask_fields(request: Message, names: Iterable[str], redact: Redact) -> None:
    """Replace the secrets in these fields of a request, which are texts or lists of them."""
    for name in names:
        value: Any = getattr(request, name)
        if isinstance(value, str):
            setattr(request, name, redact(value))
        else:
            value[:] = [redact(each) for each in value]
