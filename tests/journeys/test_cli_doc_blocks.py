"""The commands in the docs, typed as they stand there into a new home."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon_process import CONFIG, PATIENCE, Home, run_cli

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
[[rule]]
reply = "Morning Tide, by the harbour."
"""
# These set up a machine or need somebody at a terminal.
NOT_HERE = re.compile(r"\./dev (demo|test)|\bmoot (init|chat|models pull|doctor)\b|pip install")


def blocks(page: str) -> list[str]:
    """The blocks of a page that are commands."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(?:sh)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for block in found if re.search(r"^(\./dev )?moot ", block, re.MULTILINE)]


def commands() -> list[str]:
    pages = ("README.md", *(f"docs/{name}.md" for name in ("quickstart", "conversations", "guests", "memory")))
    return [page for page in pages if any(not NOT_HERE.search(block) for block in blocks(page))]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Home]:
    """A home with a model that answers and no agent but the built-in one."""
    home = Home(tmp_path / "home")
    home.write_config(CONFIG)
    home.write_script(SCRIPT)
    yield home
    run_cli(home, "down", "--now")


@pytest.mark.parametrize("page", commands())
def test_the_commands_of_a_page_work_as_they_stand_there(fresh: Home, tmp_path: Path, page: str) -> None:
    moot = tmp_path / "bin" / "moot"
    moot.parent.mkdir()
    moot.write_text(f'#!/bin/sh\nexec {sys.executable} -m moot "$@"\n')
    moot.chmod(0o755)
    (tmp_path / "checkout").mkdir()
    shutil.copy(ROOT / "README.md", tmp_path / "checkout")
    environment = fresh.environment()
    environment["PATH"] = f"{moot.parent}:{environment['PATH']}"

    for block in blocks(page):
        if NOT_HERE.search(block):
            continue
        done = subprocess.run(
            ["sh", "-e", "-c", block.replace("./dev moot", "moot")],
            cwd=tmp_path / "checkout",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


def test_pages_with_commands_are_tried() -> None:
    assert {"docs/quickstart.md", "docs/conversations.md", "docs/guests.md", "docs/memory.md"} <= set(commands())
