"""What moot init finds on a machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from moot.cli.setup import providers
from moot.cli.setup.failed_completion import explain_failure
from moot.cli.setup.providers import (
    BY_KEY,
    EMBEDDED,
    Candidate,
    detect,
    find_models,
    list_keyed,
    list_models,
    list_servers,
    own_variable,
    pick_name,
)
from moot.domain.config import ModelConfig
from moot.domain.errors import BadRequest, ModelError
from moot.domain.secret import check_name
from tests.fake_provider.ask import model_of


@contextmanager
def serving(answer: Any, *, redirect: str = "", by_path: bool = False) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that gives one answer to every GET, or one for each path; where, and what it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
            said = answer.get(self.path) if by_path else answer
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(302 if redirect else 404 if said is None else 200)
            if redirect:
                self.send_header("Location", redirect)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_lm_studio(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that runs the tests may run LM Studio; only Ollama's address can be set from outside."""
    real = list_servers
    monkeypatch.setattr(providers, "list_servers", lambda environ: real(environ)[:1])


def test_keys_in_the_environment_are_found_in_the_order_of_preference() -> None:
    environ = {"OPENROUTER_API_KEY": "x", "ANTHROPIC_API_KEY": "y", "OPENAI_API_KEY": " "}

    assert [each.name for each in list_keyed(environ)] == ["anthropic", "openrouter"]


def test_openai_is_looked_for_where_its_own_variable_says() -> None:
    found = list_keyed({"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"})

    assert found[0].base_url == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999/v1"),
        ("http://localhost:1/", "http://localhost:1/v1"),
    ],
)
def test_ollama_is_looked_for_where_its_own_variable_says(value: str, address: str) -> None:
    assert list_servers({"OLLAMA_HOST": value})[0].base_url == address


async def test_a_server_that_answers_is_found_with_its_newest_model() -> None:
    with serving({"data": [{"id": "old", "created": 1}, {"id": "new", "created": 2}]}) as (address, asked):
        found = await detect({"OLLAMA_HOST": address})

    assert [each.name for each in found] == ["ollama", "smollm2"]
    assert found[0].model == "new"
    assert asked[0]["path"] == "/v1/models"


@pytest.mark.parametrize("answer", [b"<html>", b"", b"[]", b'{"data": null}', b'{"data": [1, {"id": 2}]}', b"\xff"])
async def test_a_server_that_answers_nonsense_is_no_server(answer: bytes) -> None:
    with serving(answer) as (address, _):
        assert await detect({"OLLAMA_HOST": address}) == [EMBEDDED]


async def test_with_nothing_there_the_embedded_model_is_left() -> None:
    assert await detect({"OLLAMA_HOST": "127.0.0.1:9"}) == [EMBEDDED]


@pytest.mark.parametrize(
    ("provider", "header", "value"), [("openai", "authorization", "Bearer hush"), ("anthropic", "x-api-key", "hush")]
)
async def test_the_key_goes_to_its_own_server_in_its_own_header(provider: str, header: str, value: str) -> None:
    with serving({"data": [{"id": "m"}]}) as (address, asked):
        candidate = Candidate(name="x", title="X", provider=provider, base_url=f"http://{address}", variable="X_KEY")
        names = await list_models(candidate, {"X_KEY": "hush"})

    assert names == ["m"]
    assert asked[0][header] == value


async def test_a_redirect_does_not_carry_the_key_away() -> None:
    with (
        serving({"data": [{"id": "m"}]}) as (elsewhere, asked),
        serving(b"", redirect=f"http://{elsewhere}/") as (address, _),
    ):
        candidate = Candidate(name="x", title="X", provider="openai", base_url=f"http://{address}", variable="K")

        assert await list_models(candidate, {"K": "hush"}) == []

    assert asked == []


async def test_a_provider_that_lists_nothing_needs_a_model_by_name() -> None:
    candidate = Candidate(name="x", title="X", provider="openai", base_url="http://127.0.0.1:9/v1")

    with pytest.raises(BadRequest) as caught:
        await find_models(candidate, {}, through_daemon=list_models)

    assert "--model" in caught.value.fix


def test_the_preferred_model_is_chosen_where_it_is_offered() -> None:
    claude = next(each for each in BY_KEY if each.name == "anthropic")

    assert pick_name(["claude-opus-9", "claude-sonnet-9", "claude-sonnet-8"], claude.prefer) == "claude-sonnet-9"
    assert pick_name(["other"], claude.prefer) == ""
    assert pick_name([], claude.prefer) == ""


def test_a_candidate_names_the_variable_and_never_the_key() -> None:
    for candidate in BY_KEY:
        assert candidate.config().api_key == f"env:{candidate.variable}"


# ---- how much a model can see ---------------------------------------------------------------------


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_KEY", "hush")


async def seen(facts: Any, model: str = "m") -> tuple[int, list[str]]:
    with serving(facts, by_path=True) as (address, asked):
        config = ModelConfig(
            name="own", provider="openai", base_url=f"http://{address}/v1", model=model, api_key="env:X_KEY"
        )
        async with model_of(config) as found:
            await found.find_window()
            window = 0 if found.window_is_assumed else found.window
    assert {request["authorization"] for request in asked} == {"Bearer hush"}
    return window, [request["path"] for request in asked]


async def test_a_server_like_vllm_says_it_in_its_list() -> None:
    rows = [{"id": "other", "max_model_len": 1024}, {"id": "m", "owned_by": "vllm", "max_model_len": 32768}]

    assert await seen({"/v1/models": {"data": rows}}) == (32768, ["/v1/models"])


async def test_llama_cpp_says_what_it_was_started_with_and_not_what_the_model_was_trained_for() -> None:
    facts = {
        "/v1/models": {"data": [{"id": "any.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]},
        "/props": {"default_generation_settings": {"n_ctx": 16384}},
    }

    assert await seen(facts) == (16384, ["/v1/models", "/props"])
    assert (await seen({**facts, "/props": {"default_generation_settings": None}}))[0] == 0


async def test_ollama_says_it_of_a_model_that_runs() -> None:
    facts = {
        "/v1/models": {"data": [{"id": "m:latest", "owned_by": "library"}, {"id": "o", "owned_by": "library"}]},
        "/api/ps": {"models": [{"name": "m:latest", "context_length": 4096}, {"name": "o", "context_length": 9999}]},
    }

    assert await seen(facts) == (4096, ["/v1/models", "/api/ps"])


async def test_lm_studio_says_it_of_a_model_that_is_loaded() -> None:
    row = {"id": "m", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 8192}

    found = await seen({"/v1/models": {"data": [{"id": "m"}]}, "/api/v0/models": {"data": [row]}})

    assert found == (8192, ["/v1/models", "/api/ps", "/api/v0/models"])


@pytest.mark.parametrize("said", [None, 0, -1, True, "32768", 1.5, 10**30, [], {}])
async def test_what_is_no_window_is_not_taken_for_one(said: Any) -> None:
    assert (await seen({"/v1/models": {"data": [{"id": "m", "max_model_len": said}]}}))[0] == 0
    assert (await seen({"/api/ps": {"models": [{"name": "m", "context_length": said}]}}))[0] == 0


@pytest.mark.parametrize(
    "nonsense", [b"<html>", b"[]", b"7", b'{"data": [[]], "models": 1}', b'{"data": [{"id": []}]}']
)
async def test_a_server_that_talks_nonsense_says_nothing(nonsense: bytes) -> None:
    assert (await seen({"/v1/models": nonsense, "/api/ps": nonsense, "/api/v0/models": nonsense}))[0] == 0


@pytest.mark.parametrize("fix", ["Run: pip install 'moot[local]'", "Try again.", ""])
def test_what_a_failed_completion_advises_is_one_sentence_after_the_other(fix: str) -> None:
    error = ModelError("It failed.", fix=fix)
    told = explain_failure(error, EMBEDDED.config(), is_configured=False, environ={}, is_daemon_older=False).fix
    assert told == f"{fix.removesuffix('.')}. Nothing was written." if fix else "Nothing was written."


@pytest.mark.parametrize("name", ["own", "10-0-0-5-8000", f"{'gpu-' * 30}8000", f"gpu-{'9' * 80}"])
def test_the_key_of_any_server_has_a_name_that_a_secret_can_have(name: str) -> None:
    assert check_name(own_variable(name)).endswith(f"{name[-4:].upper().strip('-')}_API_KEY")
