"""Ask a model of the package against a fake provider, and keep everything it says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

from moot.daemon.clock import SystemClock
from moot.domain.config import Config, ModelConfig
from moot.domain.errors import ModelError
from moot.domain.message import Message, user
from moot.domain.ports.model import CallReady, Finished, Model, ModelEvent, Retrying, TextDelta, ThinkingDelta
from moot.domain.prompt import Prompt, ToolSpec, Transcript
from moot.models.catalog import Catalog
from tests.fake_provider.client import Provider

LOOKUP = ToolSpec(
    name="lookup",
    description="Look a word up.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)


@dataclass
class Said:
    """Everything one model call said, and how it ended."""

    events: list[ModelEvent] = field(default_factory=list)
    error: ModelError | None = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def thinking(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ThinkingDelta))

    @property
    def calls(self) -> list[CallReady]:
        return [event for event in self.events if isinstance(event, CallReady)]

    @property
    def retries(self) -> list[Retrying]:
        return [event for event in self.events if isinstance(event, Retrying)]

    @property
    def endings(self) -> int:
        """How often it ended: a Finished or an error, and nothing after."""
        return sum(isinstance(event, Finished) for event in self.events) + (self.error is not None)


def prompt(*messages: Message | str, tools: Sequence[ToolSpec] = (), system: Sequence[str] = ("Be kind.",)) -> Prompt:
    said = [message if isinstance(message, Message) else user(message) for message in messages]
    return Prompt(system=tuple(system), transcript=Transcript(said), tools=tuple(tools))


def config(provider: Provider, wire: str, **settings: Any) -> ModelConfig:
    base_url = provider.openai_url if wire == "openai" else provider.anthropic_url
    return ModelConfig(**{"name": "m", "provider": wire, "model": "fake", "base_url": base_url, **settings})


@asynccontextmanager
async def model_of(settings: ModelConfig) -> AsyncIterator[Model]:
    catalog = Catalog(
        Config(default_model=settings.name, models=MappingProxyType({settings.name: settings})),
        data_dir="/nonexistent",
        rng=Random(7),
        clock=SystemClock(),
    )
    try:
        yield catalog.get()
    finally:
        await catalog.close()


async def hear(model: Model, asked: Prompt) -> Said:
    said = Said()
    try:
        async with aclosing(model.stream(asked)) as events:
            async for event in events:
                said.events.append(event)
    except ModelError as error:
        said.error = error
    return said


def ask(settings: ModelConfig, asked: Prompt) -> Said:
    """One call of a fresh model, from outside any event loop."""

    async def one() -> Said:
        async with model_of(settings) as model:
            return await hear(model, asked)

    return run(one)


def run(job: Callable[[], Coroutine[Any, Any, Any]], *, seconds: float = 30.0) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await job()

    return asyncio.run(bounded())
