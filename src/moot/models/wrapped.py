"""Base for models that wrap another model and change only its stream."""

from typing import Generic, TypeVar

from moot.domain.ports.model import Model
from moot.domain.prompt import Prompt

M = TypeVar("M", bound=Model)


class ModelWrapper(Generic[M]):
    """Reports the properties of the inner model as its own. Only the window may change later."""

    def __init__(self, inner: M) -> None:
        self.inner = inner
        self.name = inner.name
        self.provider = inner.provider
        self.model = inner.model
        self.config = inner.config
        self.tools = inner.tools
        self.cost = inner.cost

    @property
    def window(self) -> int:
        return self.inner.window

    @property
    def window_is_assumed(self) -> bool:
        return self.inner.window_is_assumed

    def mask_prompt(self, prompt: Prompt) -> Prompt:
        return self.inner.mask_prompt(prompt)

    async def find_window(self) -> None:
        await self.inner.find_window()

    async def has_price(self) -> bool:
        return await self.inner.has_price()

    async def close(self) -> None:
        await self.inner.close()
