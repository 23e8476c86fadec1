"""Completes one prompt outside a turn: for summaries, notes, analyses, and answers from documents."""

from contextlib import aclosing

from moot.domain.conversation import ConversationKey
from moot.domain.ports.model import Finished, Model, TextDelta
from moot.domain.ports.store import Store
from moot.domain.prompt import Prompt
from moot.domain.text import TagStripper, clean
from moot.domain.usage import NO_CHARGE, Charge, Usage


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


class CountedCompletion:
    """Completes prompts that belong to no run, and counts their usage for an agent and a sender."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, key: ConversationKey, model: Model, prompt: Prompt, *, charge: Charge = NO_CHARGE) -> str:
        """Return the text. Raises ModelError if the budget that it counts against leaves no room."""
        charge.require_room()
        text, usage = await complete(model, prompt)
        cost = model.cost(usage)
        charge.count(usage, cost)
        if usage.total:
            await self._store.add_spend(key, model.model, usage, cost, root_id=charge.root_id)
        return text
