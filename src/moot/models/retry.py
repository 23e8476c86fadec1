"""Retries a model request with back-off before any output was shown."""

import logging
from collections.abc import AsyncGenerator, Callable
from random import Random
from typing import TypeVar

from moot.domain.errors import ModelError
from moot.domain.ports.clock import Clock
from moot.domain.ports.model import CallReady, Model, ModelEvent, Retrying, TextDelta, ThinkingDelta
from moot.domain.prompt import Prompt
from moot.models.refusals import format_clock_time
from moot.models.wrapped import ModelWrapper

FIRST_WAIT = 0.5
LONGEST_WAIT = 20.0
LONGEST_WISH = 60.0

_E = TypeVar("_E")
_VISIBLE = (TextDelta, ThinkingDelta, CallReady)

logger = logging.getLogger(__name__)


class RetryPolicy:
    """How often to retry, how long to wait before it, and with which clock."""

    def __init__(self, *, retries: int, rng: Random, clock: Clock) -> None:
        self.retries = retries
        self._rng = rng
        self._clock = clock

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def wait(self, attempt: int, error: ModelError) -> float:
        """Return the seconds before retry number `attempt`. Raises the error if there should be no retry."""
        if not error.retryable:
            raise error
        if attempt > self.retries:
            raise error if attempt == 1 else _final_error(error, attempt)
        if error.after is None:
            return self._rng.uniform(0.0, min(LONGEST_WAIT, FIRST_WAIT * 2**attempt))
        if error.after > LONGEST_WISH:
            moment = format_clock_time(self._clock.now() + error.after)
            raise ModelError(
                f"{error.message} It asks to wait {error.after:.0f} seconds.", fix=f"Try again after {moment}."
            ) from error
        # Not before the time the server named, and with jitter, so that clients do not all retry at once.
        return error.after + self._rng.uniform(0.0, 0.25)

    async def retry(
        self, request: Callable[[], AsyncGenerator[_E, None]], on_error: Callable[[ModelError], object] = lambda _: None
    ) -> AsyncGenerator[_E | Retrying, None]:
        """Yield the events of a request, and of its repetitions while it fails before any output was visible."""
        attempt = 0
        while True:
            attempt += 1
            visible = False
            events = request()
            try:
                async for event in events:
                    visible = visible or isinstance(event, _VISIBLE)
                    yield event
                return
            except ModelError as error:
                on_error(error)
                if visible:
                    raise
                failure = error
            finally:
                await events.aclose()
            delay = self.wait(attempt, failure)
            logger.info("retry %d in %.1f seconds: %s", attempt, delay, failure.message)
            yield Retrying(attempt, delay, failure.message)
            await self.sleep(delay)


class RetryingModel(ModelWrapper[Model]):
    """A model that retries failed requests. Once any output was visible a failure is final, so nothing is repeated."""

    def __init__(self, inner: Model, retry_policy: RetryPolicy) -> None:
        super().__init__(inner)
        self._retry_policy = retry_policy
        # The window that the server named when it refused a request as too long.
        self._named_window = 0

    @property
    def window(self) -> int:
        configured, named = self.inner.window, self._named_window
        return min(configured, named) if configured and named else configured or named

    @property
    def window_is_assumed(self) -> bool:
        return not self._named_window and self.inner.window_is_assumed

    def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        return self._retry_policy.retry(lambda: self.inner.stream(prompt), self._note_window)

    def _note_window(self, error: ModelError) -> None:
        self._named_window = error.window or self._named_window


def _final_error(error: ModelError, attempts: int) -> ModelError:
    final = ModelError(f"{error.message} (tried {attempts} times)", fix=error.fix)
    final.__cause__ = error
    return final
