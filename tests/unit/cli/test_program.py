"""Hints name commands that work in the actual installation."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from moot.cli import program
from moot.cli.markdown.wrap import wrap_line
from moot.cli.render import flow


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    program._find_program.cache_clear()
    monkeypatch.delenv("MOOT_DEV", raising=False)
    program.use_commands(["up", "down", "agents"])


@pytest.mark.parametrize(
    ("prefix", "called", "expected"),
    [
        ("/home/me/.cache/uv/archive-v0/x1", "/home/me/.cache/uv/archive-v0/x1/bin/moot", "uvx moot"),
        ("/home/me/.local/pipx/.cache/a1", "/home/me/.local/pipx/.cache/a1/bin/moot", "pipx run moot"),
        ("/usr", "/usr/lib/python3/moot/__main__.py", None),
        ("/usr", "/usr/bin/pytest", "moot"),
        ("/opt/venv", "/opt/venv/bin/moot", "/opt/venv/bin/moot"),
    ],
)
def test_the_program_is_named_as_it_was_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prefix: str, called: str, expected: str | None
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    assert program.program_name() == (expected or f"{sys.executable} -m moot")


def test_a_script_on_the_path_is_named_by_its_name_and_one_beside_by_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "bin" / "moot"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent))
    assert program.program_name() == "moot"
    program._find_program.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    assert program.program_name() == os.path.join(".", "bin", "moot")


def test_only_commands_in_a_hint_are_replaced_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOT_DEV", "./dev moot")
    once = program.hint("Restart it: moot down; moot up. `moot agents` lists them; moot cannot read /usr/bin/moot up.")
    assert once == (
        "Restart it: ./dev moot down; ./dev moot up. `./dev moot agents` lists them; moot cannot read /usr/bin/moot up."
    )
    assert program.hint(once) == once


def test_a_command_that_the_daemon_has_written_for_its_interpreter_is_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOOT_DEV", "./dev moot")
    written = "Stop it first with `/opt/venv/bin/python -m moot down`, or `python3 -m moot stop`."
    assert program.hint(written) == written


@pytest.mark.parametrize(
    ("prefix", "called", "expected"),
    [
        ("/home/me/.local/share/pipx/venvs/moot", "moot", "pipx install --force 'moot[web]'"),
        ("/home/me/.local/share/uv/tools/moot", "moot", "uv tool install 'moot[web]'"),
        ("/home/me/.cache/uv/archive-v0/x1", "uvx moot", "uvx --from 'moot[web]' moot"),
    ],
)
def test_extras_are_installed_by_what_installed_moot(
    prefix: str, called: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_read_source", dict)
    assert program.install_command("moot[web]", prefix, called) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"url": "file:///home/me/my%20moot", "dir_info": {}}, "'/home/me/my moot[web]'"),
        ({"url": "file:///tmp/moot-1-py3-none-any.whl"}, "'/tmp/moot-1-py3-none-any.whl[web]'"),
        ({"url": "https://host/moot.whl", "archive_info": {}}, "'moot[web] @ https://host/moot.whl'"),
        (
            {"url": "https://host/moot", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "'moot[web] @ git+https://host/moot@12ab'",
        ),
    ],
)
def test_extras_are_installed_from_where_moot_came(
    source: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_read_source", lambda: source)
    command = program.install_command("moot[web]", "/home/me/.local/share/pipx/venvs/moot", "moot")
    assert command == f"pipx install --force {expected}"


def test_a_hint_names_the_installation_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_which", lambda _: None)
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    once = program.hint("Run: pip install 'moot[web]'")
    assert once == "Run: /opt/venv/bin/python -m pip install 'moot[web]'"
    assert program.hint(once) == once
    assert program.hint("Run: pip install 'moot[nats,nats-server]'").startswith("Run: /opt/venv/bin/python -m pip ")


def test_extras_are_installed_by_the_pip_of_this_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    pip = tmp_path / "bin" / "pip"
    pip.write_text("#!/bin/sh\n")
    pip.chmod(0o755)
    monkeypatch.setenv("PATH", str(pip.parent))
    assert program.install_command("moot[web]", str(tmp_path), "moot") == "pip install 'moot[web]'"
    # That of another environment would install Moot there.
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    assert (
        program.install_command("moot[web]", "/opt/venv", "moot") == "/opt/venv/bin/python -m pip install 'moot[web]'"
    )
    monkeypatch.setattr(program, "_has_pip", lambda: False)
    expected = "uv pip install --python /opt/venv/bin/python 'moot[web]'"
    assert program.install_command("moot[web]", "/opt/venv", "moot") == expected


@pytest.mark.parametrize(
    ("prefix", "has_pip", "expected"),
    [
        ("/home/me/.local/share/pipx/venvs/moot", True, "pipx uninstall moot"),
        ("/home/me/.local/share/uv/tools/moot", False, "uv tool uninstall moot"),
        ("/home/me/.cache/uv/archive-v0/x1", False, "uv cache clean moot"),
        ("/home/me/.local/pipx/.cache/a1", True, "rm -r /home/me/.local/pipx/.cache/a1"),
        ("/opt/venv", True, "/opt/venv/bin/python -m pip uninstall moot"),
        ("/opt/venv", False, "uv pip uninstall --python /opt/venv/bin/python moot"),
    ],
)
def test_moot_is_removed_by_what_installed_it(
    monkeypatch: pytest.MonkeyPatch, prefix: str, has_pip: bool, expected: str
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    monkeypatch.setattr(program, "_has_pip", lambda: has_pip)
    assert program.removal_command(prefix) == expected
    monkeypatch.setenv("MOOT_DEV", "/src/moot/dev moot")
    assert program.removal_command("/src/moot/.venv") == "rm -r /src/moot/.venv"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "There is one: moot inbox approve ask-1 --run, or deny it.",
            ["There is one:", "  /opt/moot/bin/moot inbox approve ask-1 --run, or deny", "  it."],
        ),
        ("`moot inbox show ask-1` shows it", ["`/opt/moot/bin/moot inbox show ask-1` shows", "  it"]),
        (
            "Not shown (moot inbox show a-very-long-name-that-is-wider-than-a-row) here",
            ["Not shown", "  (/opt/moot/bin/moot inbox show a-very-long-name-that-is-wider-than-a-row)", "  here"],
        ),
    ],
)
def test_no_row_ends_inside_a_command(monkeypatch: pytest.MonkeyPatch, text: str, rows: list[str]) -> None:
    monkeypatch.setenv("MOOT_DEV", "/opt/moot/bin/moot")
    program.use_commands(["inbox"])
    assert flow.wrap_text(program.hint(text), 55 if "deny" in text else 45, indent="  ").split("\n") == rows
    line = wrap_line([("class:notice", program.hint(text))], 55 if "deny" in text else 45)
    assert ["".join(part for _, part in row) for row in line] == rows
