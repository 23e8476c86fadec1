"""MCP servers are put into and taken out of a configuration without touching the rest of it."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from moot.cli import output
from moot.cli.mcp import mcp
from moot.cli.mcp_edit import read, with_server, without_server
from moot.domain.errors import BadRequest, ConfigError, Conflict, MootError, NotFound

KEPT = '# mine\ndefault_model = "scripted" # really\n\n[models.scripted]\nprovider = "scripted"\n'


def test_a_server_is_added_and_everything_else_stays() -> None:
    text = with_server(KEPT, "files", {"command": "npx", "args": ["-y", "some"], "env": {"LEVEL": "debug"}})
    assert text.startswith(KEPT)
    assert tomllib.loads(text)["mcp"]["files"] == {"command": "npx", "args": ["-y", "some"], "env": {"LEVEL": "debug"}}
    more = with_server(text, "other", {"url": "https://x.example/mcp"})
    assert list(tomllib.loads(more)["mcp"]) == ["files", "other"]
    left = without_server(more, "files")
    assert list(tomllib.loads(left)["mcp"]) == ["other"]
    assert "mcp" not in tomllib.loads(without_server(left, "other"))
    assert left.startswith(KEPT)


def test_a_server_that_is_there_is_not_overwritten_and_one_that_is_not_cannot_be_removed() -> None:
    text = with_server("", "a", {"command": "x"})
    with pytest.raises(Conflict):
        with_server(text, "a", {"command": "y"})
    with pytest.raises(NotFound):
        without_server(text, "b")
    with pytest.raises(NotFound):
        without_server("", "b")


@pytest.mark.parametrize("text", ["mcp = 5", "this is not TOML", "[mcp]\na = 1\n[mcp]"])
def test_a_configuration_that_is_broken_is_left_alone(text: str) -> None:
    with pytest.raises(MootError):
        with_server(text, "a", {"command": "x"})


def run(home: Path, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MOOT_HOME", str(home))
    output.use_json(False)
    done = CliRunner().invoke(mcp, list(arguments))
    output.use_json(False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_adding_and_removing_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = run(
        tmp_path,
        "add",
        "files",
        "--json",
        "--env",
        "API_KEY=env:MY_KEY",
        "--",
        "npx",
        "-y",
        "some",
        monkeypatch=monkeypatch,
    )
    assert json.loads(added)["data"] == {
        "name": "files", "config": str(tmp_path / "config.toml"), "reloaded": False,
    }  # fmt: skip
    table = tomllib.loads(read(tmp_path / "config.toml"))["mcp"]["files"]
    assert table == {"command": "npx", "args": ["-y", "some"], "env": {"API_KEY": "env:MY_KEY"}}
    assert (tmp_path / "config.toml").stat().st_mode & 0o777 == 0o600
    run(tmp_path, "add", "web", "--url", "https://x.example/mcp", "--safety", "moderate", monkeypatch=monkeypatch)
    assert "Removed files" in run(tmp_path, "rm", "files", monkeypatch=monkeypatch)
    assert list(tomllib.loads(read(tmp_path / "config.toml"))["mcp"]) == ["web"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "a"),
        ("add", "a", "--url", "https://x.example/mcp", "--", "npx"),
        ("add", "A__b", "--", "npx"),
        ("add", "a", "--url", "file:///etc/passwd"),
        ("add", "a", "--url", "https://u:p@x.example/"),
        ("add", "a", "--env", "novalue", "--", "npx"),
    ],
)
def test_what_makes_no_server_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    with pytest.raises(BadRequest):
        run(tmp_path, *arguments, monkeypatch=monkeypatch)
    assert not (tmp_path / "config.toml").exists()


def test_a_secret_in_clear_is_refused_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as refused:
        run(tmp_path, "add", "a", "--env", "API_TOKEN=canary-7", "--", "npx", monkeypatch=monkeypatch)
    assert "canary-7" not in refused.value.message + refused.value.fix
    assert not (tmp_path / "config.toml").exists()
