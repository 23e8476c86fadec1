"""Removes an API key from errors and from the model's output."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import lru_cache

from msgspec.structs import replace

from moot.domain.errors import ModelError
from moot.domain.masks import map_json_strings
from moot.domain.message import Thinking
from moot.domain.ports.model import CallReady, ModelEvent, TextDelta, ThinkingDelta, ThinkingDone

HIDDEN = "…"
# Names and ids allow only certain characters.
_HIDDEN_NAME = "hidden_key"
# A shorter key is a dummy, as used for local servers, and may be an ordinary word.
_LEAST_SAID = 8
_LEAST_IN_ERRORS = 4


async def hide_key(
    get_secret: Callable[[], Awaitable[str]], events: AsyncGenerator[ModelEvent, None]
) -> AsyncGenerator[ModelEvent, None]:
    """Pass on the events and the error with the key removed."""
    async with aclosing(events):
        secret = await get_secret()
        text = _KeyRemover(secret) if len(secret) >= _LEAST_SAID else None
        try:
            async for event in events:
                if text is None:
                    yield event
                    continue
                for hidden in text.take(event):
                    yield hidden
        except ModelError as error:
            for held in text.rest() if text is not None else ():
                yield held
            hide_in_error(error, secret)
            raise


def hide_in_error(error: ModelError, secret: str) -> None:
    """Remove the key from an error: servers repeat what they were sent."""
    if len(secret) >= _LEAST_IN_ERRORS:
        error.message = _remove_key(error.message, secret)
        error.fix = _remove_key(error.fix, secret)
        error.args = (error.message,)


def _remove_key(text: str, secret: str) -> str:
    """Remove the key from a text, also its beginning if a quotation was cut inside it."""
    if "\\u" in text:
        text = _escaped_pattern(secret).sub(HIDDEN, text)
    for size in range(len(secret), min(len(secret), _LEAST_SAID) - 1, -1):
        text = text.replace(secret[:size], HIDDEN)
    return text


@lru_cache(maxsize=64)
def _escaped_pattern(secret: str) -> re.Pattern[str]:
    """Return a pattern for the key in JSON, where any character may be escaped."""
    codes = ((character, f"{ord(character):04x}") for character in secret)
    return re.compile("".join(rf"(?:{re.escape(character)}|\\u(?i:{code}))" for character, code in codes))


class _KeyRemover:
    """Removes the key from text and thinking that arrive in chunks; a possible beginning of it is held back."""

    __slots__ = ("_held", "_secret")

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._held: TextDelta | ThinkingDelta | None = None

    def take(self, event: ModelEvent) -> list[ModelEvent]:
        if not isinstance(event, TextDelta | ThinkingDelta):
            return [*self.rest(), self._clear_event(event)]
        out: list[ModelEvent] = []
        text = event.text
        if isinstance(self._held, type(event)):
            text = self._held.text + text
            self._held = None
        else:
            out = self.rest()
        text = text.replace(self._secret, HIDDEN)
        cut = self._find_key_start(text)
        if cut < len(text):
            self._held = type(event)(text[cut:])
        if cut:
            out.append(type(event)(text[:cut]))
        return out

    def rest(self) -> list[ModelEvent]:
        """Return the held-back text at the end. A truncated key is removed too: half of it reveals it."""
        held, self._held = self._held, None
        if held is not None and len(held.text) >= max(_LEAST_SAID, len(self._secret) / 2):
            held = type(held)(HIDDEN)
        return [] if held is None else [held]

    def _find_key_start(self, text: str) -> int:
        """Return where the end of the text could be the beginning of the key."""
        place = text.find(self._secret[0], max(0, len(text) - len(self._secret) + 1))
        while place >= 0 and not self._secret.startswith(text[place:]):
            place = text.find(self._secret[0], place + 1)
        return len(text) if place < 0 else place

    def _remove_key(self, text: str) -> str:
        return text.replace(self._secret, HIDDEN)

    def _clear_event(self, event: ModelEvent) -> ModelEvent:
        if isinstance(event, ThinkingDone) and self._secret in event.thinking.text:
            # The signature is valid only for the original text, so it is dropped.
            return ThinkingDone(Thinking(text=event.thinking.text.replace(self._secret, HIDDEN)))
        if isinstance(event, CallReady):
            call = replace(
                event.call,
                id=event.call.id.replace(self._secret, _HIDDEN_NAME),
                name=event.call.name.replace(self._secret, _HIDDEN_NAME),
                # A tool gets its arguments with every escape decoded.
                arguments=map_json_strings(event.call.arguments, self._remove_key),
            )
            return CallReady(call, _remove_key(event.flaw, self._secret))
        return event
