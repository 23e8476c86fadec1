"""API keys: `init` stores them for a daemon that is already running, and everybody asks that daemon."""

import base64
import json
import re
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from moot.daemon.config.config_file import load_config
from tests.daemon_process import Home, call_cli, eventually, run_cli
from tests.daemon_thread import DaemonThread, daemon_thread
from tests.fake_provider import Provider
from tests.fake_provider.client import running as running_provider
from tests.terminal import terminal

KEY = "sk-tests-right-key"
LISTEN = '[listen]\nhttp = "off"\ntcp = "off"\n'


@pytest.fixture
def guarded() -> Iterator[Provider]:
    """A provider that answers 401 unless the key is right."""
    with running_provider(key=KEY) as provider:
        yield provider


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonThread]:
    home = Home(tmp_path / "home")
    home.write_config(LISTEN)
    with daemon_thread(home) as running:
        yield running


def init(daemon: DaemonThread, provider: Provider, *arguments: str, **environment: str) -> dict[str, object]:
    options = ("--provider", "openai", "--base-url", f"{provider.url}/v1", "--model", "m", "--no-input", "--json")
    done = run_cli(daemon.home, "init", *options, *arguments, **environment)
    document: dict[str, object] = json.loads(done.stdout)
    return document | {"exit": done.returncode}


def find_model(daemon: DaemonThread, name: str = "own", **environment: str) -> tuple[str, str]:
    """The level and message of what doctor says about a model."""
    done = run_cli(daemon.home, "doctor", "--json", **environment)
    found = [each for each in json.loads(done.stdout)["data"]["findings"] if each["message"].startswith(name)]
    assert len(found) == 1, found
    return found[0]["level"], found[0]["message"]


def test_a_key_set_after_the_daemon_started_is_stored_and_used_at_once(daemon: DaemonThread, guarded: Provider) -> None:
    done = init(daemon, guarded, "--api-key-env", "LATE_KEY", LATE_KEY=KEY)

    assert done["exit"] == 0
    assert load_config(daemon.home.path / "config.toml")[0].models["own"].api_key == "secret:LATE_KEY"
    assert daemon.cli("ask", "moot", "hello").returncode == 0
    (listed,) = daemon.cli_json("secrets", "list")["data"]["secrets"]
    assert listed["scope"]["configuration_only"], "an agent may not use the key of a model"
    # It is used by every request, and those are not counted.
    assert re.search(r"LATE_KEY .* -  +not counted ", daemon.cli("secrets", "list").stdout)
    assert find_model(daemon) == ("ok", "own (default) is ready.")
    # A replaced key is used by the next request, without a reload.
    run_cli(daemon.home, "secrets", "set", "LATE_KEY", "--from-env", "NEW", NEW="sk-tests-wrong-key")
    refused = daemon.cli("ask", "moot", "hello")
    assert "does not accept the key in the secret 'LATE_KEY' (401)" in refused.stderr
    call_cli(daemon.home, "secrets", "rm", "LATE_KEY", "--yes")
    assert find_model(daemon, LATE_KEY=KEY)[0] == "error"
    assert KEY not in (daemon.home.path / "config.toml").read_text() + daemon.home.log.read_text()


def test_another_model_of_a_server_is_set_up_with_the_key_that_is_stored(
    daemon: DaemonThread, guarded: Provider
) -> None:
    assert init(daemon, guarded, "--api-key-env", "LATE_KEY", LATE_KEY=KEY)["exit"] == 0
    guarded.tells({"/v1/models": {"data": [{"id": "other", "max_model_len": 24000}]}})
    address = ("--base-url", f"{guarded.url}/v1")

    assert daemon.cli("init", *address, "--model", "second", "--no-input").returncode == 0
    own = load_config(daemon.home.path / "config.toml")[0].models["own"]
    assert (own.model, own.api_key) == ("second", "secret:LATE_KEY")
    # The daemon lists the models, because only it can read the key.
    assert daemon.cli("init", *address, "--no-input").returncode == 0
    own = load_config(daemon.home.path / "config.toml")[0].models["own"]
    assert (own.model, own.api_key, own.window) == ("other", "secret:LATE_KEY", 24000)
    with terminal(daemon.home, "init", *address, "--model", "third") as person:
        person.wait_for("(empty keeps the stored one, not shown):")
        person.enter("")
        assert person.wait_for_exit() == 0
    with terminal(daemon.home, "init", *address, "--model", "fourth") as person:
        person.wait_for("(empty keeps the stored one, not shown):")
        person.enter("sk-tests-wrong-key")
        assert person.wait_for_exit() == 1
    own = load_config(daemon.home.path / "config.toml")[0].models["own"]
    assert (own.model, own.api_key) == ("third", "secret:LATE_KEY")
    assert daemon.cli("ask", "moot", "hello").returncode == 0


def test_where_there_is_no_keyring_the_vault_is_named(daemon: DaemonThread, guarded: Provider) -> None:
    backend = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring", "LATE_KEY": KEY}
    done = init(daemon, guarded, "--api-key-env", "LATE_KEY", "--key-store", "keyring", **backend)

    assert done["exit"] == 78
    error = done["error"]
    assert isinstance(error, dict)
    assert error["message"] == "there is no keyring here"
    assert error["fix"] == "Use --key-store vault. Nothing was written."
    assert (daemon.home.path / "config.toml").read_text() == LISTEN


def test_a_keyring_that_the_daemon_cannot_use_is_reported_as_such(daemon: DaemonThread, guarded: Provider) -> None:
    backend = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "LATE_KEY": KEY}
    done = init(daemon, guarded, "--api-key-env", "LATE_KEY", "--key-store", "keyring", **backend)

    assert done["exit"] == 1
    error = done["error"]
    assert isinstance(error, dict)
    assert "the daemon cannot use own" in error["message"]
    assert "with --key-store vault" in error["fix"]
    assert "--key-store env" not in error["fix"]


def test_a_wrong_key_is_refused_and_nothing_is_stored(daemon: DaemonThread, guarded: Provider) -> None:
    done = init(daemon, guarded, "--api-key-env", "BAD_KEY", BAD_KEY="sk-tests-wrong-key")

    assert done["exit"] == 1
    assert "does not accept the given key (401)" in str(done["error"])
    assert daemon.cli_json("secrets", "list")["data"]["secrets"] == []
    assert (daemon.home.path / "config.toml").read_text() == LISTEN


def test_a_key_that_only_this_shell_has_is_found_missing_and_repaired(daemon: DaemonThread, guarded: Provider) -> None:
    daemon.home.write_config(
        f'default_model = "own"\n{LISTEN}[models.own]\nprovider = "openai"\nbase_url = "{guarded.url}/v1"\n'
        'model = "m"\napi_key = "env:SHELL_KEY"\nretries = 0\n'
    )
    daemon.cli("reload")

    # doctor has the key in its environment; the daemon has not, and it is the daemon that needs it.
    level, message = find_model(daemon, SHELL_KEY=KEY)
    assert (level, "SHELL_KEY, which is not set for the daemon" in message) == ("error", True)
    done = run_cli(daemon.home, "init", "--no-input", "--json", SHELL_KEY=KEY)

    assert json.loads(done.stdout)["data"]["api_key"] == "secret:SHELL_KEY"
    assert "error:" not in done.stderr, "it was repaired"
    assert daemon.cli("ask", "moot", "hello").returncode == 0


def test_a_daemon_without_the_variable_is_reported_if_the_key_is_not_stored(
    daemon: DaemonThread, guarded: Provider
) -> None:
    done = init(daemon, guarded, "--api-key-env", "MY_KEY", "--key-store", "env", MY_KEY=KEY)

    assert done["exit"] == 1
    error = done["error"]
    assert isinstance(error, dict)
    assert "the daemon cannot use own" in error["message"]


def test_a_person_is_asked_for_the_key_and_it_is_not_shown(
    daemon: DaemonThread, guarded: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    arguments = ("init", "--base-url", f"{guarded.url}/v1", "--model", "m")
    with terminal(daemon.home, *arguments, columns=60) as person:
        person.wait_for("shown):")
        # The terminal would break a longer line inside a word.
        assert max(map(len, person.seen.splitlines())) <= 60
        person.enter(KEY)
        person.wait_for("OWN_API_KEY")
        assert person.wait_for_exit() == 0
        assert KEY not in person.seen
    assert daemon.cli("ask", "moot", "hello").returncode == 0


def test_every_command_says_that_a_broken_configuration_is_not_in_use(daemon: DaemonThread) -> None:
    daemon.home.write_config(f"{LISTEN}[limits]\nsteps = 'many'\n")
    # Said before a reload too: the edited file is not in use.
    assert "config.toml:5: `steps` must be a whole number" in daemon.cli("rules").stderr.replace("\n  ", " ")
    daemon.cli("reload")

    for command in (("ps",), ("agent", "list"), ("models",), ("rules",)):
        done = daemon.cli(*command)
        assert "config.toml:5: `steps` must be a whole number" in done.stderr.replace("\n  ", " "), command
        assert "The previous configuration is used until" in done.stderr.replace("\n  ", " ")
    daemon.home.write_config(LISTEN)
    daemon.cli("reload")
    assert "previous configuration" not in daemon.cli("ps").stderr


def test_a_broken_configuration_with_several_errors_says_how_many_and_where_all_are(daemon: DaemonThread) -> None:
    daemon.home.write_config(f"{LISTEN}unknown = 1\n[limits]\nsteps = 'many'\nseconds = 'long'\n")
    warned = daemon.cli("ps").stderr.replace("\n  ", " ")
    assert "`steps` must be a whole number" in warned
    # The unknown key is no error.
    assert "The file has 1 more error; `moot doctor` shows all. The previous configuration" in warned
    levels = {
        each["message"].rpartition(":")[2].split("`")[1]: each["level"]
        for each in json.loads(daemon.cli("doctor", "--json").stdout)["data"]["findings"]
        if each["check"] == "config"
    }
    assert levels == {"unknown": "warning", "steps": "error", "seconds": "error"}
    reloaded = daemon.cli("reload").stderr.replace("\n  ", " ")
    assert reloaded.count("error: ") == 2
    assert "warning: " in reloaded
    daemon.home.write_config(LISTEN)
    daemon.cli("reload")


def test_every_command_says_that_an_edited_configuration_is_not_in_use_yet(daemon: DaemonThread) -> None:
    daemon.home.write_config(LISTEN)
    daemon.cli("reload")
    daemon.home.write_config(f"{LISTEN}[limits]\nsteps = 7\n")

    warned = daemon.cli("ps").stderr.replace("\n  ", " ")
    assert "config.toml has changed. The previous configuration is used until `moot reload`.\n" in warned
    findings = [each for each in daemon.cli_json("doctor")["data"]["findings"] if each["check"] == "config"]
    assert [(each["level"], each["fix"]) for each in findings] == [("ok", ""), ("warning", "Run: moot reload")]
    assert "has changed" not in (reloaded := daemon.cli("reload")).stderr
    assert "limits" in reloaded.stdout
    assert daemon.cli("ps").stderr == ""
    # What is changed back is in use again.
    daemon.home.write_config(LISTEN)
    daemon.home.write_config(f"{LISTEN}[limits]\nsteps = 7\n")
    assert daemon.cli("ps").stderr == ""
    daemon.home.write_config(LISTEN)
    daemon.cli("reload")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 401}, "requires a key (401)"),
        ({"status": 404, "body": '{"error":{"code":"model_not_found","message":"no"}}'}, "does not have it (404)"),
        ({"status": 404}, "The address of model 'own' was not found"),
        ({"status": 407}, "the proxy needs a login"),
    ],
)
def test_refusals_are_told_apart(
    daemon: DaemonThread, provider: Provider, answer: dict[str, object], said: str
) -> None:
    provider.program(answer)

    error = init(daemon, provider)["error"]

    assert isinstance(error, dict)
    assert said in error["message"]


@contextmanager
def proxy_answering(status: int) -> Iterator[str]:
    """The address of a proxy that answers every GET with a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("http://127.255.255.255/v1", 0, "There is no network connection to 127.255.255.255 for model 'openai'"),
        ("http://models.example/v1", 407, "the proxy needs a login: it answered 407"),
        ("http://models.example/v1", 401, "does not accept the key in OPENAI_API_KEY (401)"),
        ("http://models.example/v1", 404, "does not answer or does not list its models"),
    ],
)
def test_a_list_of_models_that_cannot_be_read_is_explained_as_a_completion_is(
    daemon: DaemonThread, address: str, status: int, said: str
) -> None:
    with proxy_answering(status) as proxy:
        variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": address, "HTTP_PROXY": proxy if status else ""}
        done = run_cli(daemon.home, "init", "--provider", "openai", "--no-input", "--json", **variables)

    assert said in json.loads(done.stdout)["error"]["message"]
    assert (daemon.home.path / "config.toml").read_text() == LISTEN


def test_why_the_key_of_the_provider_is_not_sent_to_an_own_server_is_said(
    daemon: DaemonThread, guarded: Provider
) -> None:
    error = init(daemon, guarded, OPENAI_API_KEY=KEY)["error"]

    assert isinstance(error, dict)
    assert "OPENAI_API_KEY is set, but was not sent: it is for OpenAI's own address." in error["fix"]
    assert init(daemon, guarded, "--api-key-env", "OPENAI_API_KEY", OPENAI_API_KEY=KEY)["exit"] == 0


def test_a_proxy_of_the_shell_that_the_daemon_does_not_have_is_named(daemon: DaemonThread) -> None:
    address = ("init", "--base-url", "http://models.invalid/v1", "--model", "m", "--no-input", "--json")
    for proxy in ("", "http://127.0.0.1:9"):
        error = json.loads(run_cli(daemon.home, *address, HTTP_PROXY=proxy).stdout)["error"]
        assert error["fix"].startswith("Check the address (--base-url).")
        assert ("HTTP_PROXY is set here, but the daemon was started before" in error["fix"]) is bool(proxy)


def test_requests_to_models_go_through_the_proxy_with_its_login(daemon: DaemonThread, provider: Provider) -> None:
    # The provider understands whole addresses, as a proxy does.
    login = f"http://me:hush@127.0.0.1:{provider.port}"
    run_cli(daemon.home, "secrets", "set", "PROXY", "--from-env", "P", P=login)
    daemon.home.write_config(
        f'default_model = "far"\n{LISTEN}[network]\nproxy = "secret:PROXY"\n[models.far]\nprovider = "openai"\n'
        'base_url = "http://models.example/v1"\nmodel = "m"\nwindow = 32000\n'
    )
    provider.tells({"/v1/models": {"data": [{"id": "n", "context_length": 24000}]}})
    # Lets the daemon read the file first.
    done = daemon.cli("init", "--base-url", "http://models.example/v1", "--model", "n", "--no-input")
    assert (done.returncode, "Context window: 24000 tokens" in done.stdout) == (0, True), done
    assert daemon.cli("ask", "moot", "hello").returncode == 0

    assert provider.requests()[-1]["path"] == "/v1/chat/completions"
    assert provider.requests()[-1]["host"] == "models.example"
    assert provider.requests()[-1]["login"] == "Basic bWU6aHVzaA=="
    # A login that is replaced is used at once, not only when no connection is open any more.
    run_cli(daemon.home, "secrets", "set", "PROXY", "--from-env", "P", P=login.replace("hush", "new"))
    assert daemon.cli("ask", "moot", "hello again").returncode == 0
    assert provider.requests()[-1]["login"] == "Basic bWU6bmV3"


def test_init_lists_models_through_a_proxy_that_only_the_daemon_can_read(
    daemon: DaemonThread, provider: Provider
) -> None:
    login = f"http://me:hush@127.0.0.1:{provider.port}"
    # The daemon has not read this file yet.
    daemon.home.write_config(f'{LISTEN}[network]\nproxy = "secret:PROXY"\n')
    variables = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://models.example/v1"}
    command = ("init", "--provider", "openai", "--no-input", "--json")
    error = json.loads(run_cli(daemon.home, *command, **variables).stdout)["error"]
    assert "the models of OpenAI cannot be listed: `proxy` in [network] needs" in error["message"]
    assert error["fix"] == "Run: moot secrets set PROXY"
    assert provider.requests() == []

    run_cli(daemon.home, "secrets", "set", "PROXY", "--from-env", "P", P=login)
    provider.tells({"/v1/models": {"data": [{"id": "gpt-9"}, {"id": "gpt-9-mini"}]}})
    done = run_cli(daemon.home, *command, **variables)
    assert json.loads(done.stdout)["data"]["model"] == "gpt-9-mini", done.stdout
    assert provider.requests()[-1]["login"] == "Basic bWU6aHVzaA=="


async def test_a_login_in_the_keyring_is_hidden_before_its_first_use(
    home: Home, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {("moot", "proxy"): "http://me:hush-5e1c90-hush@127.0.0.1:1"}
    ring = types.ModuleType("keyring")
    ring.errors = types.ModuleType("keyring.errors")  # type: ignore[attr-defined]
    ring.errors.KeyringError = OSError
    ring.get_password = lambda place, name: kept.get((place, name))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    monkeypatch.setitem(sys.modules, "keyring.errors", ring.errors)
    # The server of the model is on this machine, so the proxy is never used.
    model = f'[models.m]\nprovider = "openai"\nbase_url = "{provider.url}/v1"\nmodel = "m"\nwindow = 32000\n'
    home.write_config(f'default_model = "m"\n{LISTEN}[network]\nproxy = "keyring:proxy"\n{model}retries = 1\n')
    with daemon_thread(home) as daemon:

        def shown() -> str:
            provider.program(
                {"status": 403, "body": json.dumps({"error": {"message": "me:hush-5e1c90-hush is wrong"}})}
            )
            done = daemon.cli("ask", "moot", "hello")
            return done.stdout + done.stderr

        # It is read in the background, because a keyring may ask for a password first.
        assert await eventually(lambda: "hush-5e1c90" not in shown())


@pytest.mark.parametrize("place", ["vault", "environment"])
def test_a_login_that_a_proxy_repeats_in_its_answer_is_shown_nowhere(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    password, user = "hush%2Fhush-5e1c90", "me"
    login = f"http://{user}:{password}@127.0.0.1:{provider.port}"
    plain = password.replace("%2F", "/")
    basic = base64.b64encode(f"{user}:{plain}".encode()).decode()
    home = Home(tmp_path / "home")
    if place == "environment":
        monkeypatch.setenv("HTTP_PROXY", login)
    proxy = '[network]\nproxy = "secret:PROXY"\n' if place == "vault" else ""
    model = '[models.far]\nprovider = "openai"\nbase_url = "http://far.example/v1"\nmodel = "m"\nwindow = 32000\n'
    home.write_config(f'default_model = "far"\n{LISTEN}{proxy}{model}retries = 1\n')
    with daemon_thread(home) as daemon:
        if place == "vault":
            run_cli(home, "secrets", "set", "PROXY", "--from-env", "P", P=login)
        echo = {"error": {"message": f"denied: Basic {basic}, {user}:{plain}, {plain}, {password}", "code": basic}}
        for status in (407, 403, 502, 404):
            provider.program({"status": status, "body": json.dumps(echo), "repeat": 2})
            daemon.cli("ask", "moot", "hello")
        run = daemon.cli_json("ps", "-a")["data"][0]["run_id"]
        shown = "".join(
            "".join((done.stdout, done.stderr))
            for done in (
                daemon.cli("history", "moot"), daemon.cli("trace", run, "--json"), daemon.cli("doctor", "--json"),
                daemon.cli("status", "--json"), daemon.cli("export", "moot"), daemon.cli("models", "--json"),
                daemon.cli("ps", "-a", "--json"), daemon.cli("ask", "moot", "hello"),
            )
        )  # fmt: skip
    assert "denied" in shown
    everything = shown.encode() + home.log.read_bytes() + home.on_disk()
    assert [each for each in (plain, password, basic) if each.encode() in everything] == []
