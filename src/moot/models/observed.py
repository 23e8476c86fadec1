"""ObservedModel: reports each request of one run to observers (daemon/telemetry). Used only while telemetry is on."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from msgspec import Struct, field

from moot.domain.message import ToolCall
from moot.domain.ports.clock import Clock
from moot.domain.ports.model import CallReady, Finished, Model, ModelEvent, Retrying, TextDelta, ThinkingDelta
from moot.domain.prompt import Prompt
from moot.domain.run import RunRequest
from moot.domain.usage import Usage
from moot.models.wrapped import ModelWrapper

logger = logging.getLogger(__name__)


class ModelCall(Struct, kw_only=True, eq=False):
    """One request to a model, with its retries. What is known only at its end is filled in then."""

    run: RunRequest
    model: Model
    prompt: Prompt
    # Seconds since the epoch.
    started_at: float
    seconds: float = 0.0
    first_token_seconds: float | None = None
    retries: int = 0
    usage: Usage | None = None
    truncated: bool = False
    text: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    # None while it is active, and if it succeeded. The caller closes the stream of a stopped run.
    error: BaseException | None = None


class ModelCallObserver(Protocol):
    def on_call_started(self, call: ModelCall) -> None: ...
    def on_call_ended(self, call: ModelCall) -> None: ...


class ObservedModel(ModelWrapper[Model]):
    def __init__(self, inner: Model, run: RunRequest, observers: Sequence[ModelCallObserver], clock: Clock) -> None:
        super().__init__(inner)
        self._run = run
        self._observers = observers
        self._clock = clock

    async def stream(self, prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        call = ModelCall(run=self._run, model=self.inner, prompt=prompt, started_at=self._clock.now())
        started = self._clock.monotonic()
        for observer in self._observers:
            _report(observer.on_call_started, call)
        events = self.inner.stream(prompt)
        try:
            async for event in events:
                if call.first_token_seconds is None and isinstance(event, TextDelta | ThinkingDelta | CallReady):
                    call.first_token_seconds = self._clock.monotonic() - started
                _take(call, event)
                yield event
        except BaseException as error:
            call.error = error
            raise
        finally:
            call.seconds = self._clock.monotonic() - started
            for observer in self._observers:
                _report(observer.on_call_ended, call)
            await events.aclose()


def _report(observe: Callable[[ModelCall], None], call: ModelCall) -> None:
    try:
        observe(call)
    except Exception:
        # A failing observer must not end the run.
        logger.exception("an observer of model requests failed")


def _take(call: ModelCall, event: ModelEvent) -> None:
    match event:
        case TextDelta(text):
            call.text.append(text)
        case CallReady(made):
            call.calls.append(made)
        case Retrying():
            call.retries += 1
        case Finished(usage, truncated):
            call.usage, call.truncated = usage, truncated
        case _:
            return
