"""The Model port and the events of one model call. Implemented by the adapters in models/."""

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from moot.domain.config import ModelConfig
from moot.domain.events import Stage
from moot.domain.message import Thinking, ToolCall
from moot.domain.prompt import Prompt
from moot.domain.usage import Usage


class ToolSupport(StrEnum):
    """How a model is offered tools: natively, by a JSON schema for its answer, or not at all."""

    NATIVE = "native"
    SCHEMA = "schema"
    NONE = "none"


class TextDelta(Struct, frozen=True):
    text: str


class ThinkingDelta(Struct, frozen=True):
    text: str


class ThinkingDone(Struct, frozen=True):
    """A part of the reasoning is complete; it is stored with the message so that it can be sent back."""

    thinking: Thinking


class CallReady(Struct, frozen=True):
    """A tool call is complete. Its arguments are a JSON object as text, or `flaw` says what is wrong with them."""

    call: ToolCall
    flaw: str = ""


class Retrying(Struct, frozen=True):
    attempt: int
    delay_seconds: float
    reason: str


class Preparing(Struct, frozen=True):
    """A model that runs here is not answering yet: it is loaded, or reads the prompt, of which `share` is done."""

    stage: Stage
    share: float = 0.0
    # How long its previous call took; 0 if there was none.
    previous_seconds: float = 0.0


class Finished(Struct, frozen=True):
    """The last event of a model call. No usage means that the provider did not report any."""

    usage: Usage | None
    truncated: bool = False


ModelEvent = TextDelta | ThinkingDelta | ThinkingDone | CallReady | Retrying | Preparing | Finished


class Model(Protocol):
    """One configured model. `stream` raises ModelError; closing the generator cancels the call."""

    @property
    def name(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def window(self) -> int: ...
    @property
    def window_is_assumed(self) -> bool:
        """Whether neither the configuration nor the server states the size of the window."""
        ...

    @property
    def tools(self) -> ToolSupport: ...

    @property
    def config(self) -> ModelConfig:
        """The configuration it was built from; a request can be encoded again with it."""
        ...

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        """Return the prompt as the model gets it, with secrets and personal data masked."""
        ...

    def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]: ...

    def cost(self, usage: Usage) -> float:
        """Return the cost of this usage in US dollars; 0 if it is free or the price is unknown."""
        ...

    async def find_window(self) -> None:
        """Ask the server for the window if it is only assumed. Does nothing if it is known, and never fails."""
        ...

    async def has_price(self) -> bool:
        """Whether the price of a call is known (including free). May have to look it up."""
        ...

    async def close(self) -> None: ...
