"""Completes one prompt outside a turn, for summaries and notes."""

from contextlib import aclosing

from moot.domain.ports.model import Finished, Model, TextDelta
from moot.domain.prompt import Prompt
from moot.domain.text import TagStripper, clean
from moot.domain.usage import Usage


async def complete(model: Model, prompt: Prompt) -> tuple[str, Usage]:
    pieces: list[str] = []
    stripper = TagStripper()
    usage = Usage()
    async with aclosing(model.stream(prompt)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                pieces.append(stripper.feed(clean(event.text)))
            elif isinstance(event, Finished) and event.usage is not None:
                usage = event.usage
    pieces.append(stripper.finish())
    return "".join(pieces).strip(), usage
