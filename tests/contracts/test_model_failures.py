"""Every way a provider fails: one ending each, retries only before anything was visible, errors one can act on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Any

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.config import ModelConfig
from moot.domain.errors import ModelError
from moot.domain.ports.model import Finished, Model, TextDelta
from moot.models.anthropic import AnthropicModel
from moot.models.http_client import HttpClient
from moot.models.keys import Key
from moot.models.openai import OpenAIModel
from moot.models.retry import RetryingModel, RetryPolicy
from tests.fake_provider import say
from tests.fake_provider.ask import LOOKUP, Said, ask, config, hear, prompt, run
from tests.fake_provider.client import Provider, running

WIRES = ["openai", "anthropic"]

ANSWER: dict[str, Any] = {
    "thinking": "hm, ä",
    "text": "Grüße 😀 now",
    "calls": [{"name": "lookup", "arguments": {"word": "ü"}}],
}


class _NotedSleeps(SystemClock):
    """Its sleeps take no time and are noted down."""

    def __init__(self, slept: list[float]) -> None:
        self.slept = slept

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@asynccontextmanager
async def patient(settings: ModelConfig, slept: list[float]) -> AsyncIterator[Model]:
    """The model with its retries, which take no time and are noted down."""
    http = HttpClient(SystemClock())
    adapter = OpenAIModel if settings.provider == "openai" else AnthropicModel
    key = Key(settings.api_key, model=settings.name)
    inner = adapter(settings, http=lambda: http, key=key, rng=Random(1))
    try:
        yield RetryingModel(inner, RetryPolicy(retries=settings.retries, rng=Random(1), clock=_NotedSleeps(slept)))
    finally:
        await http.close()


def ask_patiently(settings: ModelConfig, slept: list[float]) -> Said:
    async def one() -> Said:
        async with patient(settings, slept) as model:
            return await hear(model, prompt("x", tools=[LOOKUP]))

    said: Said = run(one)
    return said


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("ending", "first"), [({}, 0), ({"plain_end": True}, 1)])
def test_a_stream_cut_at_any_byte_ends_exactly_once(
    provider: Provider, wire: str, ending: dict[str, Any], first: int
) -> None:
    stream = b"".join((say.openai_events if wire == "openai" else say.anthropic_events)(ANSWER))
    settings = config(provider, wire, retries=0)
    # Every seventh byte; the wires and the two ways in which a stream can break off begin at different ones.
    cuts = list(range(first + 2 * WIRES.index(wire), len(stream), 7))
    provider.program(*({**ANSWER, **ending, "match": f"^cut {cut}$", "cut_at": cut} for cut in cuts))

    async def all_cuts() -> list[Said]:
        answers: dict[int, Said] = {}
        lanes = iter(cuts)

        async def lane(model: Model) -> None:
            for cut in lanes:
                answers[cut] = await hear(model, prompt(f"cut {cut}", tools=[LOOKUP]))

        async with patient(settings, []) as model, asyncio.TaskGroup() as lanes_open:
            for _ in range(8):
                lanes_open.create_task(lane(model))
        return [answers[cut] for cut in cuts]

    said = run(all_cuts, seconds=100)

    whole = say.tokens(ANSWER)
    for answer in said:
        assert answer.endings == 1
        assert "".join(whole).startswith(answer.text)
        if answer.error is None:
            assert answer.text == "".join(whole)
            assert len(answer.calls) == 1
        else:
            assert answer.calls == []
            assert answer.error.retryable
    # Only what comes after the end of the message itself may be missing.
    finished = [cut for cut, answer in zip(cuts, said, strict=True) if answer.error is None]
    end = stream.rindex(b'"finish_reason": "tool_calls"' if wire == "openai" else b'"stop_reason"')
    assert all(cut > end for cut in finished)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("at", [0, 40, 400])
def test_a_reset_connection_ends_the_call_once(provider: Provider, wire: str, at: int) -> None:
    provider.program({**ANSWER, "reset_at": at})

    said = ask(config(provider, wire, retries=0), prompt("x"))

    assert said.endings == 1
    assert said.error is not None
    assert said.error.retryable


@pytest.mark.parametrize("wire", WIRES)
def test_a_stalled_stream_is_given_up_after_the_idle_time(provider: Provider, wire: str) -> None:
    provider.program({"text": "one two three", "stall_after": 4})

    said = ask(config(provider, wire, idle_seconds=0.2), prompt("x"))

    assert said.error is not None
    assert "sent nothing for 0.2 seconds" in said.error.message
    assert "idle_seconds" in said.error.fix
    assert said.retries == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_never_answers_is_tried_again_and_given_up(provider: Provider, wire: str) -> None:
    provider.program({"text": "x", "hold": True, "repeat": 3})
    slept: list[float] = []

    said = ask_patiently(config(provider, wire, idle_seconds=0.1, retries=2), slept)

    assert len(said.retries) == 2
    assert said.error is not None
    assert "tried 3 times" in said.error.message


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_tried_again_with_growing_random_waits(provider: Provider, wire: str, status: int) -> None:
    provider.program({"status": status, "repeat": 3}, {"text": "at last"})
    slept: list[float] = []

    said = ask_patiently(config(provider, wire), slept)

    assert said.text == "at last"
    assert [retry.attempt for retry in said.retries] == [1, 2, 3]
    assert [retry.delay_seconds for retry in said.retries] == slept
    assert all(0 <= wait <= 0.5 * 2**attempt for attempt, wait in enumerate(slept, start=1))
    assert len(set(slept)) == 3


@pytest.mark.parametrize("wire", WIRES)
def test_retries_are_bounded(provider: Provider, wire: str) -> None:
    provider.program({"status": 500, "repeat": 9})
    slept: list[float] = []

    said = ask_patiently(config(provider, wire, retries=3), slept)

    assert len(slept) == 3
    assert said.error is not None
    assert len(provider.requests()) == 4


@pytest.mark.parametrize("wire", WIRES)
def test_the_wait_a_server_asks_for_is_kept(provider: Provider, wire: str) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    provider.program(
        {"status": 429, "headers": {"Retry-After": "7"}},
        {"status": 429, "headers": {"Retry-After": soon}},
        {"status": 429, "headers": {"Retry-After": "whenever"}},
        {"text": "at last"},
    )
    slept: list[float] = []

    said = ask_patiently(config(provider, wire), slept)

    assert said.text == "at last"
    assert 7 <= slept[0] <= 7.25
    assert 28 <= slept[1] <= 30.25
    assert slept[2] <= 4


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("wish", ["3600", "99999999999999", "Fri, 31 Dec 2100 23:59:59 GMT", "inf"])
def test_an_absurd_wait_is_an_error_that_says_when(provider: Provider, wire: str, wish: str) -> None:
    provider.program({"status": 429, "headers": {"Retry-After": wish}})
    slept: list[float] = []

    said = ask_patiently(config(provider, wire), slept)

    assert slept == []
    assert said.error is not None
    assert "UTC" in said.error.fix
    assert not said.error.retryable


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_is_tried_again_once_something_was_visible(provider: Provider, wire: str) -> None:
    overloaded = {"type": "overloaded_error", "message": "busy"}
    provider.program({"text": "one two", "error": overloaded, "token_delay": 0.02}, {"text": "never"})
    slept: list[float] = []

    said = ask_patiently(config(provider, wire), slept)

    assert slept == []
    assert said.text.startswith("one")
    assert said.error is not None
    assert len(provider.requests()) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_before_any_text_inside_a_stream_is_tried_again(provider: Provider, wire: str) -> None:
    provider.program({"error": {"type": "overloaded_error", "message": "busy"}}, {"text": "fine now"})

    said = ask_patiently(config(provider, wire), [])

    assert said.text == "fine now"
    assert len(said.retries) == 1


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"body": "<html><body>Welcome</body></html>", "content_type": "text/html"}, "web page"),
        ({"body": "<!doctype html><p>hi", "content_type": "text/plain"}, "is not a"),
        ({"body": "garbage \x01\x02 more", "content_type": "text/event-stream"}, "is not a"),
        ({"body": "data: nonsense\n\n", "content_type": "text/event-stream"}, "is not a"),
        ({"body": "data: [1, 2]\n\n", "content_type": "text/event-stream"}, "is not a"),
        ({"body": '{"surprise": true}', "content_type": "application/json"}, ""),
        ({"body": "", "content_type": "text/event-stream"}, "nothing at all"),
        ({"body": ": keep-alive\n\n", "content_type": "text/event-stream"}, "nothing at all"),
    ],
)
def test_what_is_not_a_completion_is_one_clear_error(
    provider: Provider, wire: str, answer: dict[str, Any], words: str
) -> None:
    provider.program(answer)

    said = ask(config(provider, wire, retries=0), prompt("x"))

    assert said.endings == 1
    assert said.error is not None
    assert words in said.error.message
    assert "'m'" in said.error.message
    assert "base_url" in said.error.fix
    assert "\x01" not in said.error.message


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("status", "body", "fix"),
    [
        (404, '{"error":{"message":"no such model"}}', "Set `model` in [models.m]"),
        (400, '{"error":{"message":"prompt is too long: 300000 tokens"}}', "ompact"),
        (400, '{"error":{"code":"context_length_exceeded","message":"x"}}', "ompact"),
        (413, "too big", "ompact"),
        (302, "", "base_url"),
        (429, '{"error":{"code":"insufficient_quota","message":"no money"}}', "billing"),
        (400, "\x00\x1b[31mred", "[models.m]"),
        (418, "", "[models.m]"),
    ],
)
def test_a_lasting_refusal_says_what_to_do_and_is_not_repeated(
    provider: Provider, wire: str, status: int, body: str, fix: str
) -> None:
    provider.program({"status": status, "body": body, "headers": {"Location": "http://127.0.0.1:1/"}})
    slept: list[float] = []

    said = ask_patiently(config(provider, wire), slept)

    assert slept == []
    assert said.error is not None
    assert fix in said.error.fix
    assert "\x1b" not in said.error.message


@pytest.mark.parametrize("wire", WIRES)
def test_a_wrong_key_names_its_variable_and_never_itself(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    with running(key="sk-right") as provider:
        said = ask(config(provider, wire, api_key="env:MY_KEY"), prompt("x"))
        provider.program({"status": 401, "body": '{"error":{"message":"bad key sk-very-secret"}}'})
        monkeypatch.setenv("MY_KEY", "sk-right")
        good = ask(config(provider, wire, api_key="env:MY_KEY"), prompt('x [[fake {"text": "welcome"}]]'))

    assert said.error is not None
    assert "MY_KEY" in said.error.message
    assert "very-secret" not in f"{said.error.message} {said.error.fix}"
    assert good.text == "welcome"


KEY = "sk-proj-" + "very_secret" * 8


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "answer",
    [
        {"status": 400, "body": f'{{"error":{{"message":"{"y" * 250} {KEY}"}}}}'},
        {"status": 400, "body": f'{{"error":{{"message":"no","code":"{KEY}"}}}}'},
        {"body": f'data: {{"type":"error","error":{{"message":"you sent {KEY}"}}}}\n\n'},
        {"body": f"data: you sent {KEY}\n\n"},
        {"body": f"you sent {KEY}"},
    ],
)
def test_a_key_that_a_server_repeats_is_in_no_error(
    provider: Provider, wire: str, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    provider.program({"content_type": "text/event-stream", **answer})

    said = ask(config(provider, wire, retries=0, api_key="env:MY_KEY"), prompt("x"))

    assert said.error is not None
    assert "very_secret" not in f"{said.error.message} {said.error.fix} {said.error}"


@pytest.mark.parametrize("wire", WIRES)
def test_a_key_that_a_model_says_is_not_passed_on(
    provider: Provider, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    call = {"name": "lookup", "arguments": {"word": KEY}}
    provider.program({"thinking": f"hm {KEY} hm", "text": f"It is {KEY}, as is", "calls": [call]})

    said = ask(config(provider, wire, api_key="env:MY_KEY"), prompt("x", tools=[LOOKUP]))

    assert said.text == "It is …, as is"
    assert "very_secret" not in repr(said)


@pytest.mark.parametrize("wire", WIRES)
def test_a_missing_key_is_an_error_of_the_model(provider: Provider, wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)

    said = ask(config(provider, wire, api_key="env:NOT_SET"), prompt("x"))

    assert said.error is not None
    assert "NOT_SET is set; it stores the key" in said.error.fix
    assert provider.requests() == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_server_that_is_not_there_is_named(wire: str, unused_port: int) -> None:
    settings = ModelConfig(
        name="m", provider=wire, model="fake", base_url=f"http://127.0.0.1:{unused_port}/v1", retries=0
    )

    said = ask(settings, prompt("x"))

    assert said.error is not None
    assert f"127.0.0.1:{unused_port}" in said.error.message
    assert "base_url" in said.error.fix


def test_a_content_filter_is_an_error_and_not_an_answer(provider: Provider) -> None:
    provider.program({"text": "I would", "finish": "content_filter"})

    said = ask(config(provider, "openai"), prompt("x"))

    assert said.error is not None
    assert "content filter" in said.error.message


def test_a_server_that_does_not_stream_is_understood(provider: Provider) -> None:
    message = '{"choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}'
    provider.program({"body": message})

    said = ask(config(provider, "openai"), prompt("x"))

    assert said.text == "whole"
    assert said.events[-1] == Finished(None)


def test_an_error_object_instead_of_a_stream_is_reported(provider: Provider) -> None:
    provider.program({"body": '{"error": {"message": "model not loaded", "type": "server_error"}}'})

    said = ask(config(provider, "openai", retries=0), prompt("x"))

    assert said.error is not None
    assert "model not loaded" in said.error.message


def test_an_endless_event_is_cut_short(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moot.models.transport.MAX_ANSWER", 100_000)
    provider.program({"text": "word " * 100_000, "batch": 100})

    said = ask(config(provider, "openai"), prompt("x"))

    assert said.error is not None
    assert "more than 100000 bytes" in said.error.message


def test_a_request_is_not_kept_in_memory_while_its_answer_is_read(provider: Provider) -> None:
    provider.program({"text": "one two three"})

    freed: list[bool] = []

    class Body(bytes):
        def __del__(self) -> None:
            freed.append(True)

    async def read() -> None:
        http = HttpClient(SystemClock())
        model = OpenAIModel(config(provider, "openai"), http=lambda: http)
        body = Body(model.encode(prompt("x")))
        async with aclosing(model._answer(body)) as events:
            del body
            await anext(events)
            assert freed
        await http.close()

    run(read)


def test_cancelling_while_it_waits_to_try_again_ends_at_once(provider: Provider) -> None:
    provider.program({"status": 429, "headers": {"Retry-After": "30"}})

    async def give_up() -> None:
        async with asyncio.timeout(30):
            http = HttpClient(SystemClock())
            inner = OpenAIModel(config(provider, "openai"), http=lambda: http)
            model = RetryingModel(inner, RetryPolicy(retries=3, rng=Random(1), clock=SystemClock()))
            async with aclosing(model.stream(prompt("x"))) as events:
                await anext(events)
                waiting = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            await http.close()

    run(give_up)


def test_two_hundred_streams_at_once_all_end_well(provider: Provider) -> None:
    async def many() -> list[Said]:
        async with patient(config(provider, "openai"), []) as model, asyncio.TaskGroup() as group:
            tasks = [group.create_task(hear(model, prompt(f"number {n}"))) for n in range(200)]
        return [task.result() for task in tasks]

    assert [said.text for said in run(many)] == [f"echo: number {n}" for n in range(200)]


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def test_errors_are_model_errors_only(provider: Provider) -> None:
    provider.program({"status": 500, "body": "[" * 100_000})

    said = ask(config(provider, "openai", retries=0), prompt("x"))

    assert isinstance(said.error, ModelError)
    assert not any(isinstance(event, TextDelta) for event in said.events)
