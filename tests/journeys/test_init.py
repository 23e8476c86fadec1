"""moot init: a provider is set up after one real completion, or nothing is written at all."""

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moot.cli.setup.providers import BY_KEY
from moot.daemon.config.config_file import load_config
from tests import fork_server
from tests.daemon_process import PATIENCE, Home, call_cli, run_cli
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.terminal import Terminal, terminal

NO_KEYS = dict.fromkeys((candidate.variable for candidate in BY_KEY), "")


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Home]:
    """A home without a configuration; `init` starts its daemon, which is stopped afterwards."""
    home = Home(tmp_path / "home")
    yield home
    if home.path.exists():
        fork_server.run([sys.executable, "-m", "moot", "down", "--now"], env=home.environment(), timeout=PATIENCE)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Home]:
    """A home without a configuration whose daemon runs already, in this process: it has other variables than `init`."""
    home = Home(tmp_path / "home")
    home.write_config('[listen]\nhttp = "off"\ntcp = "off"\n')
    with daemon_thread(home):
        (home.path / "config.toml").unlink()
        yield home


def init(home: Home, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return fork_server.run(
        [sys.executable, "-m", "moot", "init", *arguments],
        env=home.environment(**NO_KEYS | {"OLLAMA_HOST": "127.0.0.1:9"} | environment),
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
    )


def own_server(provider: Provider) -> tuple[str, ...]:
    return ("--provider", "openai", "--base-url", f"{provider.url}/v1", "--model", "m", "--no-input", "--json")


def document(done: "subprocess.CompletedProcess[str]") -> Any:
    return json.loads(done.stdout)


def test_one_completion_is_made_and_then_the_file_is_written(bare: Home, provider: Provider) -> None:
    provider.program({"text": "Hello there."})

    done = init(bare, *own_server(provider), "--api-key-env", "OWN_KEY", OWN_KEY="hush")

    answer = document(done)["data"]
    config = bare.path / "config.toml"
    assert (done.returncode, answer["written"], answer["tested"]["content"]) == (0, True, "Hello there.")
    assert len(provider.requests()) == 1
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    loaded, flaws = load_config(config)
    assert flaws == []
    assert loaded.default_model == "own"
    assert loaded.models["own"].api_key == "secret:OWN_KEY"
    assert "hush" not in config.read_text() + done.stdout + done.stderr
    asked = run_cli(bare, "ask", "moot", "hello", "--json")
    assert asked.returncode == 0


@pytest.mark.parametrize("answer", [{"status": 401}, {"status": 404}, {"text": ""}, {"body": "<html>"}])
def test_a_completion_that_fails_leaves_nothing_behind(
    served: Home, provider: Provider, answer: dict[str, Any]
) -> None:
    provider.program(answer)

    done = init(served, *own_server(provider))

    assert done.returncode == 1
    assert document(done)["error"]["fix"]
    assert not (served.path / "config.toml").exists()


def test_running_it_again_verifies_and_changes_nothing(served: Home, provider: Provider) -> None:
    init(served, *own_server(provider))
    config = served.path / "config.toml"
    config.write_text("# my words\n" + config.read_text())
    before = config.read_text()

    done = init(served, "--json")

    assert document(done)["data"]["written"] is False
    assert config.read_text() == before
    assert len(provider.requests()) == 2


def test_a_provider_that_stopped_working_is_replaced_and_comments_stay(served: Home, provider: Provider) -> None:
    served.write_config(
        '# my words\ndefault_model = "gone"\n[models.gone]\nprovider = "openai"\n'
        'base_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nretries = 0\n'
    )

    failed = init(served, "--json", "--no-input")
    done = init(served, *own_server(provider))

    assert failed.returncode == 2
    assert done.returncode == 0
    text = (served.path / "config.toml").read_text()
    assert "# my words" in text
    assert "[models.gone]" in text
    assert load_config(served.path / "config.toml")[0].default_model == "own"


def test_a_file_beyond_repair_is_put_aside_only_when_that_was_agreed_to(bare: Home, provider: Provider) -> None:
    bare.write_config("this is = not toml\n")

    refused = init(bare, *own_server(provider))
    agreed = init(bare, *own_server(provider), "--yes")

    assert refused.returncode == 78
    assert "moot init --yes" in document(refused)["error"]["fix"]
    assert agreed.returncode == 0
    assert (bare.path / "config.toml.broken").read_text() == "this is = not toml\n"
    assert load_config(bare.path / "config.toml")[0].default_model == "own"


@pytest.mark.parametrize("text", ["queue_bound = 'many'\n", "models = 3\n", '[models.m]\nprovider = "nobody"\n'])
def test_a_new_default_that_would_leave_the_file_broken_is_no_repair(bare: Home, provider: Provider, text: str) -> None:
    bare.path.mkdir(parents=True, exist_ok=True)
    (bare.path / "config.toml").write_text(text)

    refused = init(bare, *own_server(provider))
    before = (bare.path / "config.toml").read_text()
    agreed = init(bare, *own_server(provider), "--yes")

    assert (refused.returncode, before) == (78, text)
    assert agreed.returncode == 0
    assert (bare.path / "config.toml.broken").read_text() == text
    assert load_config(bare.path / "config.toml")[0].default_model == "own"


def test_a_second_broken_file_does_not_overwrite_the_first(served: Home, provider: Provider) -> None:
    for text in ("first = = broken\n", "second = = broken\n"):
        served.write_config(text)
        assert init(served, *own_server(provider), "--yes").returncode == 0

    assert (served.path / "config.toml.broken").read_text() == "first = = broken\n"
    assert (served.path / "config.toml.broken-2").read_text() == "second = = broken\n"


@pytest.mark.parametrize("first_line", ["", 'default_model = "ghost"\n', 'default_model = "gone"\n'])
def test_another_model_of_the_file_that_works_becomes_the_default(
    served: Home, provider: Provider, first_line: str
) -> None:
    served.write_config(
        f'{first_line}# my words\n[models.gone]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
        f'model = "m"\nretries = 0\n[models.mine]\nprovider = "openai"\nbase_url = "{provider.url}/v1"\nmodel = "m"\n'
    )

    done = init(served, "--no-input", "--json")

    assert (done.returncode, document(done)["data"]["name"]) == (0, "mine")
    assert load_config(served.path / "config.toml")[0].default_model == "mine"
    assert "# my words" in (served.path / "config.toml").read_text()


@pytest.mark.parametrize("arguments", [(), ("--model", "m")])
def test_the_variable_of_a_missing_key_is_named(bare: Home, arguments: tuple[str, ...]) -> None:
    done = init(bare, "--provider", "anthropic", *arguments, "--no-input", "--json")

    assert done.returncode == 2
    assert "ANTHROPIC_API_KEY is not set" in document(done)["error"]["message"]
    assert not bare.path.exists()


@pytest.mark.parametrize(("config", "prompt"), [("", "Which one"), ("broken = = x\n", "Write a new file")])
def test_the_first_control_c_at_a_prompt_ends_it(
    bare: Home, monkeypatch: pytest.MonkeyPatch, config: str, prompt: str
) -> None:
    for name in NO_KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    if config:
        bare.write_config(config)

    with terminal(bare, "init") as person:
        person.wait_for(prompt)
        person.type("\x03")
        assert person.wait_for_exit(10) == 130

    assert not config or (bare.path / "config.toml").read_text() == config


def test_with_nobody_to_ask_the_choice_must_be_made_on_the_command_line(bare: Home) -> None:
    done = init(bare, "--no-input", "--json")

    assert done.returncode == 2
    assert "--provider" in document(done)["error"]["fix"]
    assert not bare.path.exists()


def test_a_key_that_is_not_set_is_said(served: Home, provider: Provider) -> None:
    done = init(served, *own_server(provider), "--api-key-env", "OWN_KEY")

    assert done.returncode != 0
    assert "OWN_KEY" in document(done)["error"]["message"]
    assert not (served.path / "config.toml").exists()


def test_a_running_daemon_reads_the_new_configuration(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon:
        done = init(home, *own_server(provider))

        assert document(done)["data"]["written"] is True
        models = daemon.cli_json("models", "list")["data"]
        assert [each["name"] for each in models if each["default"]] == ["own"]
        tested = daemon.cli_json("models", "test")["data"]
        assert tested["name"] == "own"


def test_a_person_chooses_from_what_was_found(bare: Home, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NO_KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    provider.program({"text": "Hello there."})

    with terminal(bare, "init") as person:
        person.wait_for("1. OpenAI (OPENAI_API_KEY is set)")
        person.wait_for("Which one")
        person.enter("1")
        person.wait_for("Model")
        person.enter("m-1")
        person.wait_for("Hello there.")
        assert person.wait_for_exit() == 0

    assert load_config(bare.path / "config.toml")[0].models["openai"].model == "m-1"


def test_the_window_that_a_server_tells_is_written_and_holds(served: Home, provider: Provider) -> None:
    provider.tells({"/v1/models": {"data": [{"id": "m", "max_model_len": 24000}]}})

    told = init(served, *own_server(provider))
    said = init(served, *own_server(provider)[:-1])
    config = served.path / "config.toml"
    config.write_text(config.read_text().replace("window = 24000", "window = 20000 # mine"))
    kept = init(served, *own_server(provider))
    listing = json.loads(call_cli(served, "models", "--json").stdout)["data"]
    (listed,) = [each for each in listing if each["name"] == "own"]

    assert document(told)["data"]["window"] == 24000
    assert "Context window: 24000 tokens" in said.stdout
    # What a person wrote for this model stays.
    assert document(kept)["data"]["window"] == 20000
    assert "window = 20000 # mine" in config.read_text()
    assert (listed["window"], listed["tools_left_out"]) == (20000, [])


def test_another_model_on_the_same_server_has_its_own_window(served: Home, provider: Provider) -> None:
    rows = [{"id": "m", "max_model_len": 24000}, {"id": "n", "max_model_len": 4096}]
    provider.tells({"/v1/models": {"data": rows}})

    init(served, *own_server(provider))
    init(served, "--base-url", f"{provider.url}/v1", "--model", "n", "--no-input", "--json")

    assert load_config(served.path / "config.toml")[0].models["own"].window == 4096
    # That of one model says nothing about another.
    init(served, "--base-url", f"{provider.url}/v1", "--model", "o", "--no-input", "--json")
    assert load_config(served.path / "config.toml")[0].models["own"].window == 0


def test_a_window_that_is_not_told_is_assumed_and_that_is_said(served: Home, provider: Provider) -> None:
    done = init(served, *own_server(provider)[:-1])

    assert done.returncode == 0
    assert "32768 tokens are assumed" in done.stdout
    assert "set `window` in [models.own]" in done.stdout
    assert "window" not in (served.path / "config.toml").read_text()


def test_without_a_key_a_person_is_told_which_there_could_be_and_which_model_can_use_tools(
    bare: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NO_KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")

    with terminal(bare, "init") as person:
        person.wait_for("SmolLM2, embedded (98 MB, no key; uses no tools)")
        person.wait_for("Qwen2.5 Coder, embedded (1.1 GB, no key; can use tools)")
        person.wait_for("Anthropic (asks for a key)")
        person.wait_for("Which one")
        person.type("\x03")
        assert person.wait_for_exit(30) == 130


def choose_own_server(person: Terminal, address: str) -> None:
    person.wait_for("Which one")
    entry = re.search(r"(\d+)\. A server of your own \(asks for its address\)", person.seen)
    assert entry is not None, person.seen
    person.enter(entry[1])
    person.wait_for("Address, such as http://127.0.0.1:8000/v1:")
    person.enter("127.0.0.1:8000")
    person.wait_for("The address must begin with http:// or https://")
    person.enter(address)


def test_a_person_chooses_a_server_of_their_own(
    served: Home, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NO_KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    provider.tells({"/v1/models": {"data": [{"id": "first"}, {"id": "second"}]}})

    with terminal(served, "init") as person:
        choose_own_server(person, f"{provider.url}/v1")
        person.wait_for("not shown):")
        person.enter("")
        person.wait_for("2. second")
        person.enter("2")
        assert person.wait_for_exit() == 0

    model = load_config(served.path / "config.toml")[0].models["own"]
    assert (model.base_url, model.model) == (f"{provider.url}/v1", "second")


def test_an_own_server_that_does_not_answer_is_an_error_that_says_what_to_do(
    served: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NO_KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")

    with terminal(served, "init") as person:
        choose_own_server(person, "http://127.0.0.1:9/v1")
        person.wait_for("not shown):")
        person.enter("")
        person.wait_for("error: http://127.0.0.1:9/v1 does not answer or does not list its models")
        person.wait_for("fix: Start the server and check its address, which usually ends with /v1.")
        assert person.wait_for_exit() == 2

    assert not (served.path / "config.toml").exists()


def test_an_unknown_provider_is_a_usage_error(bare: Home) -> None:
    assert run_cli(bare, "init", "--provider", "nobody").returncode == 2


def test_a_person_chooses_among_the_models_of_a_server_and_a_script_names_one(served: Home, provider: Provider) -> None:
    provider.tells({"/v1/models": {"data": [{"id": "first"}, {"id": "second"}]}})
    address = ("init", "--base-url", f"{provider.url}/v1")

    with terminal(served, *address) as person:
        person.wait_for("shown):")
        person.enter("")
        person.wait_for("1. first")
        person.wait_for("2. second")
        person.wait_for("Which one")
        person.enter("3")
        person.wait_for("A number from 1 to 2, or a name, please.")
        person.enter("second")
        assert person.wait_for_exit() == 0
    assert load_config(served.path / "config.toml")[0].models["own"].model == "second"

    done = init(served, *address[1:], "--no-input", "--json")
    error = document(done)["error"]
    assert (done.returncode, error["fix"].split(",")[0]) == (2, "Choose one with --model NAME")
    assert "lists 2 models: first, second" in error["message"]
    done = init(served, *address[1:], "--yes")
    assert "Using first, one of 2 models (first, second); --model NAME uses another." in done.stderr
    assert load_config(served.path / "config.toml")[0].models["own"].model == "first"
    provider.tells({"/v1/models": {"data": [{"id": "only"}]}})
    assert document(init(served, *address[1:], "--no-input", "--json"))["data"]["model"] == "only"


def test_a_second_server_leaves_the_first_one_and_its_key(served: Home, provider: Provider) -> None:
    first = init(served, *own_server(provider), "--api-key-env", "OWN_API_KEY", OWN_API_KEY="hush-one")
    assert first.returncode == 0, first.stdout
    port = provider.url.rpartition(":")[2]
    address = ("--base-url", f"http://localhost:{port}/v1", "--model", "n")

    done = init(served, *address, "--no-input")
    assert f"[models.own] ({provider.url}/v1) is kept; this server becomes [models.localhost-{port}]." in done.stderr
    # The third call is about the second server again.
    with terminal(served, "init", *address) as person:
        person.wait_for("shown):")
        person.enter("hush-two")
        assert person.wait_for_exit() == 0
    models = load_config(served.path / "config.toml")[0].models
    assert {name for name in models if "own" in name or "localhost" in name} == {"own", f"localhost-{port}"}
    assert (models["own"].base_url, models["own"].model) == (f"{provider.url}/v1", "m")
    assert models["own"].api_key == "secret:OWN_API_KEY"
    assert models[f"localhost-{port}"].api_key == f"secret:LOCALHOST_{port}_API_KEY"
    assert load_config(served.path / "config.toml")[0].default_model == f"localhost-{port}"


def test_the_key_of_a_second_server_that_is_known_by_its_number_is_stored(served: Home, provider: Provider) -> None:
    port = provider.url.rpartition(":")[2]
    first = init(served, "--base-url", f"http://localhost:{port}/v1", "--model", "m", "--no-input")
    assert first.returncode == 0, first.stderr

    with terminal(served, "init", "--base-url", f"http://127.0.0.1:{port}/v1", "--model", "n") as person:
        person.wait_for("shown):")
        person.enter("hush-two")
        assert person.wait_for_exit() == 0, person.seen
    config = load_config(served.path / "config.toml")[0]
    assert config.models[config.default_model].api_key == f"secret:OWN_127_0_0_1_{port}_API_KEY"
