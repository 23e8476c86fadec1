"""Completes one prompt outside a turn: for summaries, notes, analyses, and answers from documents."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import ModelError
from moot.domain.ports.model import Finished, Model, TextDelta
from moot.domain.ports.store import Store
from moot.domain.prompt import Prompt
from moot.domain.text import TagStripper, clean
from moot.domain.tokens import estimate_message, estimate_text
from moot.domain.usage import NO_CHARGE, Charge, Need, Reservation, Usage
from moot.engine.reply_length import ReplyLength

# The maximum reply of a prompt that sets none, as far as budgets are concerned.
_REPLY = 8_192


async def complete(model: Model, prompt: Prompt) -> tuple[str, Usage]:
    pieces: list[str] = []
    stripper = TagStripper()
    usage = Usage()
    length = ReplyLength()
    async with aclosing(model.stream(prompt)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                length.add(event.text)
                pieces.append(stripper.feed(clean(event.text)))
            elif isinstance(event, Finished) and event.usage is not None:
                usage = event.usage
    pieces.append(stripper.finish())
    return "".join(pieces).strip(), usage


@asynccontextmanager
async def reserve(model: Model, prompt: Prompt, charge: Charge) -> AsyncIterator[tuple[Prompt, Reservation]]:
    """Reserve what a prompt may use; yield the prompt with a reply that fits, and the reservation."""
    if charge.limits_spend and not await model.has_price():
        raise make_price_error(model.name, model.model)
    need = Need(prompt=_estimate(prompt), reply=prompt.max_tokens or _REPLY, price=model.cost)
    async with charge.reserve(need) as reservation:
        fits = reservation.reply == need.reply
        yield prompt if fits else replace(prompt, max_tokens=reservation.reply), reservation


def _estimate(prompt: Prompt) -> int:
    messages = (*prompt.transcript.messages, *prompt.context, *prompt.tail)
    return sum(map(estimate_text, prompt.system)) + sum(map(estimate_message, messages))


def make_price_error(name: str, model: str) -> ModelError:
    return ModelError(
        f"the price of {model} is not known, so a limit on spend cannot be kept",
        fix=f"Set price_prompt and price_completion in [models.{name}], or take the limit away.",
    )


class CountedCompletion:
    """Completes prompts that belong to no run, and counts their usage for an agent and a sender."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, key: ConversationKey, model: Model, prompt: Prompt, *, charge: Charge = NO_CHARGE) -> str:
        """Return the text. Raises ModelError if the budget that it counts against leaves no room."""
        async with reserve(model, prompt, charge) as (fitting, reservation):
            text, usage = await complete(model, fitting)
            cost = model.cost(usage)
            try:
                # Stored first: a budget that is rebuilt in between lacks nothing.
                if usage.total:
                    await self._store.add_spend(key, model.model, usage, cost, root_id=charge.root_id)
            finally:
                reservation.settle(usage, cost)
        return text
