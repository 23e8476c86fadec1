"""moot models: list, pull and test."""

import json
import os
import subprocess
import sys

from moot.models.pullable import MODELS
from tests import fork_server
from tests.daemon_process import PATIENCE, Home, LiveDaemon

SCRIPT = """
[[rule]]
reply = "Hello from the script."
"""


def pull(home: Home, name: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return fork_server.run(
        [sys.executable, "-m", "moot", "models", "pull", name, "--json"],
        env=home.environment(**environment),
        timeout=PATIENCE,
    )


def test_models_are_listed_with_the_default_and_what_is_missing(daemon: LiveDaemon) -> None:
    found = {each["name"]: each for each in daemon.cli_json("models")["data"]}

    assert found["scripted"]["default"] is True
    assert found["scripted"]["problem"] == ""
    assert "moot models pull qwen" in found["qwen"]["problem"]
    assert daemon.cli_json("models", "list")["data"] == list(found.values())


def test_people_see_a_table(daemon: LiveDaemon) -> None:
    done = daemon.cli("models")

    assert "scripted (default)" in done.stdout
    assert "moot models pull smollm2" in done.stdout


def test_one_real_completion_is_made(daemon: LiveDaemon) -> None:
    tested = daemon.cli_json("models", "test")["data"]

    assert (tested["name"], tested["content"]) == ("scripted", "Hello from the script.")


def test_testing_a_model_that_is_not_here_names_what_to_do(daemon: LiveDaemon) -> None:
    done = daemon.cli("models", "test", "qwen")
    unknown = daemon.cli("models", "test", "ghost")

    assert (done.returncode, "moot models pull qwen" in done.stderr) == (1, True)
    assert unknown.returncode == 6


def test_a_pull_without_an_index_says_where_to_put_the_file(home: Home) -> None:
    done = pull(
        home, "smollm2", PIP_CONFIG_FILE="/dev/null", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_EXTRA_INDEX_URL=""
    )

    error = json.loads(done.stdout)["error"]
    assert done.returncode == 69
    assert str(home.path / "data" / "models" / MODELS["smollm2"].file) in error["fix"]
    assert MODELS["smollm2"].sha256 in error["fix"]


def test_a_file_put_there_by_hand_must_be_the_model(home: Home) -> None:
    folder = home.path / "data" / "models"
    folder.mkdir(parents=True)
    (folder / MODELS["smollm2"].file).write_bytes(b"GGUF, but another")

    done = pull(home, "smollm2")

    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["type"] == "conflict"


def test_without_a_name_the_small_model_is_pulled_and_that_is_said(home: Home) -> None:
    done = fork_server.run(
        [sys.executable, "-m", "moot", "models", "pull"],
        env=home.environment(
            PIP_CONFIG_FILE="/dev/null", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_EXTRA_INDEX_URL=""
        ),
        timeout=PATIENCE,
    )

    assert done.returncode == 69
    assert "pulling smollm2" in done.stderr
    assert MODELS["smollm2"].file in done.stderr


def test_only_models_that_exist_can_be_pulled(home: Home) -> None:
    done = pull(home, "gpt-99")

    assert done.returncode == 2
    assert "smollm2" in json.loads(done.stdout)["error"]["message"]
    assert not os.path.exists(home.path / "data")
