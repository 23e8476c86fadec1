"""Observers of model requests are told everything about each request, and cannot harm the run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.errors import ModelError
from moot.domain.message import ToolCall
from moot.domain.ports.model import CallReady, Finished, Model, ModelEvent, Retrying, TextDelta
from moot.domain.prompt import Prompt, Transcript
from moot.domain.run import RunRequest
from moot.domain.usage import Usage
from moot.models.observed import ModelCall, ObservedModel

RUN = RunRequest(id="run-1", key=ConversationKey("ada", "user"), speaker="ada", content="hi")
PROMPT = Prompt(system=("s",), transcript=Transcript())
CALL = ToolCall(id="c1", name="fs_read", arguments="{}")
EVENTS: list[ModelEvent | Exception] = [
    Retrying(1, 0.1, "busy"),
    TextDelta("Hel"),
    TextDelta("lo"),
    CallReady(CALL),
    Finished(Usage(prompt=3, completion=2), truncated=True),
]


class FakeModel:
    """A model with the given events; an exception among them is raised."""

    name = provider = model = "fake"
    config = tools = cost = None

    def __init__(self, events: list[ModelEvent | Exception]) -> None:
        self._events = events

    async def stream(self, _prompt: Prompt) -> AsyncGenerator[ModelEvent, None]:
        for event in self._events:
            if isinstance(event, Exception):
                raise event
            yield event


class Observer:
    def __init__(self, *, fails: bool = False) -> None:
        self.started: list[ModelCall] = []
        self.ended: list[ModelCall] = []
        self._fails = fails

    def on_call_started(self, call: ModelCall) -> None:
        self.started.append(call)
        if self._fails:
            raise RuntimeError("broken observer")

    def on_call_ended(self, call: ModelCall) -> None:
        self.ended.append(call)
        if self._fails:
            raise RuntimeError("broken observer")


def observed(events: list[ModelEvent | Exception], *observers: Observer) -> ObservedModel:
    return ObservedModel(cast(Model, cast(Any, FakeModel(events))), RUN, observers, SystemClock())


async def read(model: ObservedModel, most: int = 99) -> list[ModelEvent]:
    found: list[ModelEvent] = []
    async with aclosing(model.stream(PROMPT)) as events:
        async for event in events:
            found.append(event)
            if len(found) == most:
                break
    return found


def test_a_request_is_reported_whole_even_beside_an_observer_that_fails() -> None:
    seen = Observer()
    assert asyncio.run(read(observed(EVENTS, Observer(fails=True), seen))) == EVENTS
    (call,) = seen.ended
    assert seen.started == [call]
    assert (call.retries, "".join(call.text), call.calls, call.truncated) == (1, "Hello", [CALL], True)
    assert call.usage == Usage(prompt=3, completion=2)
    assert call.error is None
    assert call.first_token_seconds is not None


def test_a_failed_and_a_stopped_request_have_their_error() -> None:
    failed, stopped = Observer(), Observer()
    error = ModelError("no")
    with pytest.raises(ModelError):
        asyncio.run(read(observed([TextDelta("x"), error], failed)))
    asyncio.run(read(observed(EVENTS, stopped), most=2))
    assert failed.ended[0].error is error
    assert isinstance(stopped.ended[0].error, GeneratorExit)
