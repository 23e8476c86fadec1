"""MCP servers are put into and taken out of a configuration without touching the rest of it."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moot.cli import output
from moot.cli.commands.mcp import mcp
from moot.cli.setup.mcp_edit import add_server, read_config, remove_server
from moot.cli.setup.mcp_paths import Surroundings, suggest_fix
from moot.domain.errors import BadRequest, ConfigError, Conflict, MootError, NotFound

KEPT = '# mine\ndefault_model = "scripted" # really\n\n[models.scripted]\nprovider = "scripted"\n'


def test_a_server_is_added_and_everything_else_stays() -> None:
    text = add_server(KEPT, "files", {"command": "npx", "args": ["-y", "some"], "env": {"LEVEL": "debug"}})
    assert text.startswith(KEPT)
    assert tomllib.loads(text)["mcp"]["files"] == {"command": "npx", "args": ["-y", "some"], "env": {"LEVEL": "debug"}}
    more = add_server(text, "other", {"url": "https://x.example/mcp"})
    assert list(tomllib.loads(more)["mcp"]) == ["files", "other"]
    left = remove_server(more, "files")
    assert list(tomllib.loads(left)["mcp"]) == ["other"]
    assert "mcp" not in tomllib.loads(remove_server(left, "other"))
    assert left.startswith(KEPT)


def test_a_server_that_is_there_is_not_overwritten_and_one_that_is_not_cannot_be_removed() -> None:
    text = add_server("", "a", {"command": "x"})
    with pytest.raises(Conflict):
        add_server(text, "a", {"command": "y"})
    with pytest.raises(NotFound):
        remove_server(text, "b")
    with pytest.raises(NotFound):
        remove_server("", "b")


@pytest.mark.parametrize("text", ["mcp = 5", "this is not TOML", "[mcp]\na = 1\n[mcp]"])
def test_a_configuration_that_is_broken_is_left_alone(text: str) -> None:
    with pytest.raises(MootError):
        add_server(text, "a", {"command": "x"})


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
        "--no-test",
        "--env",
        "API_KEY=env:MY_KEY",
        "--",
        "npx",
        "-y",
        "some",
        monkeypatch=monkeypatch,
    )
    assert json.loads(added)["data"] == {
        "name": "files", "config": str(tmp_path / "config.toml"), "reloaded": False, "readable": [], "server": None,
    }  # fmt: skip
    table = tomllib.loads(read_config(tmp_path / "config.toml"))["mcp"]["files"]
    assert table == {"command": "npx", "args": ["-y", "some"], "env": {"API_KEY": "env:MY_KEY"}}
    assert (tmp_path / "config.toml").stat().st_mode & 0o777 == 0o600
    web = ("add", "web", "--no-test", "--url", "https://x.example/mcp", "--safety", "moderate")
    run(tmp_path, *web, monkeypatch=monkeypatch)
    assert "Removed files" in run(tmp_path, "rm", "files", monkeypatch=monkeypatch)
    assert list(tomllib.loads(read_config(tmp_path / "config.toml"))["mcp"]) == ["web"]


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


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a server's script, in a home."""
    folder = tmp_path / "me" / "zoo"
    folder.mkdir(parents=True)
    (folder / "server.py").write_text("print()")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    return folder


def added(home: Path, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    said = run(home, "add", "zoo", "--no-test", *arguments, monkeypatch=monkeypatch)
    table: dict[str, Any] = tomllib.loads(read_config(home / "config.toml"))["mcp"]["zoo"]
    return said, table


def test_the_folder_of_a_script_is_lent_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zoo: Path) -> None:
    said, table = added(tmp_path, "--", "python3", str(zoo / "server.py"), "x.py", monkeypatch=monkeypatch)
    assert f"readable: {zoo} (the folder of server.py)" in said
    assert table == {"command": "python3", "args": [str(zoo / "server.py"), "x.py"], "readable": [str(zoo)]}


def test_a_script_that_is_named_from_here_or_by_a_link_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zoo: Path
) -> None:
    (tmp_path / "link").symlink_to(zoo)
    monkeypatch.chdir(tmp_path / "link")
    for number, name in enumerate(("server.py", str(tmp_path / "link" / "server.py"))):
        _, table = added(tmp_path / str(number), "--", "python3", name, monkeypatch=monkeypatch)
        assert (table["args"], table["readable"]) == ([str(zoo / "server.py")], [str(zoo)])


def test_nothing_is_lent_that_is_seen_anyway_or_where_there_is_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zoo: Path
) -> None:
    words = ("--", "python3", str(zoo / "server.py"))
    for number, options in enumerate((("--no-sandbox",), ("--cwd", str(zoo)), ("--readable", str(zoo.parent)))):
        said, table = added(tmp_path / str(number), *options, *words, monkeypatch=monkeypatch)
        assert "readable:" not in said
        assert table.get("readable", []) == list(options[1:] if "--readable" in options else ())


@pytest.mark.parametrize("place", [".", ".ssh", "../moot/agents"])
def test_a_home_a_private_place_and_moots_own_are_not_lent_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zoo: Path, place: str
) -> None:
    script = (zoo.parent / place / "server.py").resolve()
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("print()")
    with pytest.raises(BadRequest, match="is not made readable") as refused:
        added(tmp_path / "moot", "--", "python3", str(script), monkeypatch=monkeypatch)
    assert "to its own folder" in refused.value.fix
    assert not (tmp_path / "moot" / "config.toml").exists()


def test_a_server_takes_the_place_of_another_only_when_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zoo: Path
) -> None:
    added(tmp_path, "--", "npx", "one", monkeypatch=monkeypatch)
    with pytest.raises(Conflict):
        added(tmp_path, "--", "npx", "two", monkeypatch=monkeypatch)
    assert added(tmp_path, "--replace", "--", "npx", "two", monkeypatch=monkeypatch)[1]["args"] == ["two"]


def test_what_mends_a_server_names_only_folders_of_its_owners_words(tmp_path: Path, zoo: Path) -> None:
    around = Surroundings(sandbox={}, own=[tmp_path / "moot"])
    said = "it ended. It said: cannot open /etc/x or ~/.ssh"
    table = {"command": "python3", "args": [str(zoo / "server.py")], "network": True, "env": {"LEVEL": "a b"}}
    assert suggest_fix("zoo", table, said, around) == (
        f"It cannot read {zoo}. Allow it with: moot mcp add zoo --replace --network --readable {zoo}"
        f" --env 'LEVEL=a b' -- python3 {zoo}/server.py"
    )
    lent = {**table, "readable": [str(zoo)]}
    lacking = "MCP servers need an optional package that is not installed. Run: pip install 'moot[mcp]'"
    npx = {"command": "npx", "args": ["-y", "zoo"]}
    assert suggest_fix("zoo", npx, lacking, around) == "Install it, then run `moot down` and `moot mcp test zoo`."
    assert f"--readable {zoo} --readable DIR" in suggest_fix("zoo", lent, said, around)
    assert f'readable = ["{zoo}"]' in suggest_fix("zoo", {**table, "egress": False}, said, around)
    for other in ({**table, "sandbox": "off"}, {"url": "https://x.example"}):
        assert "[mcp.zoo] in config.toml" in suggest_fix("zoo", other, said, around)
    assert "--readable" not in suggest_fix("zoo", table, "there is no program 'python3'.", around)
