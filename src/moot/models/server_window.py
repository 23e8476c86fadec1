"""Asks a model's server how many tokens the model can read, where the configuration does not say; used by `catalog`."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from moot.domain.config import ModelConfig
from moot.domain.errors import MootError
from moot.domain.ports.model import Model, ModelEvent
from moot.domain.prompt import Prompt
from moot.models.http_errors import HttpError
from moot.models.http_url import parse_url
from moot.models.keys import Key
from moot.models.prices import is_own_address
from moot.models.transport import Http
from moot.models.wrapped import ModelWrapper

# Returns the JSON at a path of the API (with a leading slash: beside the API); empty if the request fails.
Ask = Callable[[str], Awaitable[Mapping[str, Any]]]

logger = logging.getLogger(__name__)

# Numbers outside this range are not a window.
_LEAST, _MOST = 256, 100_000_000
# The names of the window in a list of models: vLLM, OpenRouter and Together, Groq, Mistral.
_LISTED = ("max_model_len", "context_length", "context_window", "max_context_length")
_SECONDS = 3.0
_LONGEST_ANSWER = 4 * 1024 * 1024
# Some servers know it only once the model is loaded, which the first request does.
_ANSWERS = 2


async def _window_of(listed: Mapping[str, Any], ask: Ask, model: str, *, own: bool) -> int:
    """Return the context window of the running model; 0 if its server does not report it.

    For own servers the window the model was trained for is not used: they run with less, and silently cut off the rest.
    """
    row = _find_row(listed, "data", model)
    window = (
        _parse(row.get("max_model_len")) if own else next(filter(None, (_parse(row.get(key)) for key in _LISTED)), 0)
    )
    if window or not own:
        return window
    if row.get("owned_by") == "llamacpp":
        settings = (await ask("/props")).get("default_generation_settings")
        return _parse(settings.get("n_ctx")) if isinstance(settings, dict) else 0
    running = await ask("/api/ps")
    if isinstance(running.get("models"), list):
        return _parse(_find_row(running, "models", model).get("context_length"))
    return _parse(_find_row(await ask("/api/v0/models"), "data", model).get("loaded_context_length"))


def _find_row(answer: Mapping[str, Any], key: str, model: str) -> Mapping[str, Any]:
    """Return the row of this model in a list; if there is only one row, that one."""
    listed = answer.get(key)
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    names = (model, f"{model}:latest")
    named = [row for row in rows if row.get("id") in names or row.get("name") in names]
    return next(iter(named or (rows if len(rows) == 1 else [])), {})


def _parse(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and _LEAST <= value <= _MOST else 0


class QueriedWindow(ModelWrapper[Model]):
    """A model without a configured window: its server is asked, and until it answers a window is assumed."""

    def __init__(self, inner: Model, *, ask: Ask, own: bool) -> None:
        super().__init__(inner)
        self._ask = ask
        self._own = own
        self._window = 0
        self._answers = 0
        self._asking = asyncio.Lock()

    @property
    def window(self) -> int:
        return self._window or self.inner.window

    @property
    def window_is_assumed(self) -> bool:
        return not self._window

    async def find_window(self) -> None:
        async with self._asking:
            if self._window or self._answers >= _ANSWERS:
                return
            listed = await self._ask("models")
            if not listed:
                return
            self._answers += 1
            self._window = await _window_of(listed, self._ask, self.model, own=self._own)
            if not self._window and self._answers == 1:
                logger.warning(
                    "the context window of model %s is unknown; %d tokens are assumed", self.name, self.inner.window
                )

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(self.inner.stream(prompt)) as events:
            async for event in events:
                yield event


def with_queried_window(model: Model, config: ModelConfig, *, http: Http, key: Key) -> Model:
    base = config.base_url.rstrip("/")

    async def ask(path: str) -> Mapping[str, Any]:
        url = base.removesuffix("/v1") + path if path.startswith("/") else f"{base}/{path}"
        try:
            secret = await key.get()
            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            status, body = await http().get(
                parse_url(url), headers=headers, seconds=_SECONDS, max_bytes=_LONGEST_ANSWER
            )
            if status != 200:
                return {}
            answer = msgspec.json.decode(body)
        except (HttpError, OSError, ValueError, RecursionError, MootError):
            return {}
        return answer if isinstance(answer, dict) else {}

    return QueriedWindow(model, ask=ask, own=is_own_address(config.base_url))
