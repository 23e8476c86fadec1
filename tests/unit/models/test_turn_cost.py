"""A turn costs what is new in it, however long the history is."""

from collections.abc import Callable

import pytest

from moot.domain.message import Message, assistant, user
from moot.domain.prompt import Encoding
from moot.models import anthropic_wire, openai_wire


def history(count: int) -> list[Message]:
    return [user("a question") if n % 2 == 0 else assistant("an answer") for n in range(count)]


@pytest.mark.parametrize("wire", [openai_wire.advance, anthropic_wire.FORMS["anthropic"]])
def test_only_new_messages_are_looked_at(wire: Callable[[Encoding, list[Message]], None]) -> None:
    seen: list[int] = []

    class Watched(list[Message]):
        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            span = range(*place.indices(len(self))) if isinstance(place, slice) else [place]
            seen.extend(span)
            return list.__getitem__(self, place)

    messages = Watched(history(1000))
    encoding = Encoding()
    wire(encoding, messages)
    seen.clear()
    messages.extend([assistant("new"), user("newer")])
    wire(encoding, messages)

    assert encoding.count == 1002
    assert min(seen) >= 999
