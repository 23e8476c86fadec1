"""The command line itself: fast help, lazy parts, one document with --json."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from moot.cli import main
from moot.cli.render.terminal import render_table

HEAVY = ("aiohttp", "rich", "prompt_toolkit", "google.protobuf", "asyncio", "apsw", "msgspec", "moot.client.connection")


def moot(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "moot", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env=os.environ | environment,
    )


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom moot.cli.main import run\nrun(['--help'])\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert done.stderr.strip() == "[]"
    assert all(f"  {name} " in done.stdout for name in main.COMMANDS)


def test_every_command_in_the_table_exists_and_its_help_says_something() -> None:
    for name, entry in main.COMMANDS.items():
        command = main.load_command(entry.target)
        assert command.help, name
        assert entry.help.endswith("."), name


def test_every_command_but_the_foreground_ones_has_json() -> None:
    for name, entry in main.COMMANDS.items():
        command = main.load_command(entry.target)
        leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
        for leaf in leaves:
            flags = {flag for parameter in leaf.params for flag in parameter.opts}
            assert "--json" in flags or name in ("serve", "chat"), leaf.name


def test_an_unknown_command_is_a_usage_error_with_a_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["frobnicate"]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "frobnicate" in seen.err
    assert "moot --help" in seen.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--json", "frobnicate"],
        ["ask", "--json"],
        ["history", "--json", "--nonsense"],
        ["tokens", "--json", "--nonsense"],
    ],
)
def test_a_usage_error_with_json_is_one_document(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))

    code = main.run(arguments)

    document = json.loads(capsys.readouterr().out)
    assert code == 2
    assert document["ok"] is False
    assert set(document["error"]) == {"type", "message", "fix"}
    assert document["error"]["type"] == "usage"


def test_json_as_text_after_two_dashes_is_not_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["frobnicate", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_no_arguments_without_a_terminal_show_the_short_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([]) == 0
    assert "moot --help " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "near"), [(["hstory"], "moot history"), (["tokens", "lst"], "moot tokens list"), (["zzz"], "")]
)
def test_a_near_miss_of_a_command_is_suggested(typed: list[str], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(typed) == 2
    told = capsys.readouterr().err
    assert (f"Did you mean: {near}" if near else "--help` shows") in told
    assert told.count("Did you mean") == bool(near)


def test_a_near_miss_of_a_value_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["mode", "ada", "wrok"]) == 2
    told = capsys.readouterr().err
    assert "is not one of 'plan', 'ask', 'work', 'free'." in " ".join(told.split())
    assert "Did you mean work?" in told


def test_the_version_is_printed() -> None:
    done = moot("--version")

    assert done.returncode == 0
    assert done.stdout.startswith("moot ")


def test_a_reader_that_has_enough_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m moot --help | head -1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.stdout.startswith("Usage")
    assert done.stderr == ""


def test_a_bug_is_one_line_unless_a_traceback_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(main.COMMANDS, "status", main.CommandEntry("x", "moot.cli.absent:nothing", "Broken."))

    assert main.run(["status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "internal_error"
    monkeypatch.setenv("MOOT_TRACEBACK", "1")
    with pytest.raises(ModuleNotFoundError):
        main.run(["status"])


def test_a_table_is_aligned_by_what_is_seen_and_nothing_in_it_is_raw() -> None:
    lines = render_table(["NAME", "TITLE"], [["世界", "a\x1b[1m"], ["ada", "b\nc"]]).splitlines()

    assert lines == ["NAME  TITLE", "世界  a␛[1m", "ada   b c"]


@pytest.mark.parametrize(("typed", "meant"), [("aks", "moot ask"), ("conversation-s", "moot conversations")])
def test_a_command_that_is_not_there_gets_a_suggestion(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([typed]) == 2
    assert f"Did you mean: {meant}" in capsys.readouterr().err
    assert main.run(["zzzzzz"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_quota_is_not_reported_as_a_bug(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_options: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / "moot.pid"))

    monkeypatch.delenv("MOOT_TRACEBACK", raising=False)
    monkeypatch.setattr(main.moot, "main", fail)

    assert main.run(["up"]) == 69
    said = capsys.readouterr().err
    assert f"Cannot write in {tmp_path}: the disk or your quota is full" in " ".join(said.split())
    assert "bug" not in said
