"""docs/writing-a-tool.md, followed word for word: its files are written, its commands run, its output compared."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.daemon_process import PATIENCE, Home, run_cli

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "writing-a-tool.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
_EXIT = re.compile(r"\(exit (\d+)\)")
# Only looks, so it may look again until a run that goes on by itself has come that far.
_LOOKS = "cat"
# An id as it is shown; no two runs have the same.
_ASK = re.compile(r"\bask-[a-z0-9]{6}\b")


@dataclass
class Command:
    line: str
    expected: list[str] = field(default_factory=list)
    code: int = 0


@dataclass
class Follower:
    """Somebody who does what the guide says, in the configuration folder."""

    home: Home
    site: Path

    def write(self, path: str, text: str) -> None:
        target = self.home.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def run(self, line: str) -> "subprocess.CompletedProcess[str]":
        program, *arguments = shlex.split(line)
        python = [sys.executable, "-m"]
        command = {
            "moot": [*python, "moot", *arguments],
            # Into a folder of the test's own, and from nowhere but the given folder.
            "pip": [*python, "pip", arguments[0], "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
            + ["--target", str(self.site), *arguments[1:]],
        }.get(program, [program, *arguments])
        path = os.pathsep.join(filter(None, [str(self.site), os.environ.get("PYTHONPATH", "")]))
        return subprocess.run(
            command,
            cwd=self.home.path,
            env=self.home.environment(PYTHONPATH=path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            check=False,
        )

    def obey(self, command: Command) -> None:
        deadline = time.monotonic() + PATIENCE
        line = _ASK.sub(lambda _: self.find_ask(), command.line)
        done = self.run(line)
        while line.startswith(_LOOKS) and not _fits(command, done) and time.monotonic() < deadline:
            done = self.run(line)
        assert _fits(command, done), f"{command}\n{done.returncode}\n{done.stdout}\n{done.stderr}"

    def find_ask(self) -> str:
        """The id of the open ask, in place of the one that the guide names."""
        [ask] = json.loads(self.run("moot inbox --json").stdout)["data"]
        return str(ask["ask_id"])


def _fits(command: Command, done: "subprocess.CompletedProcess[str]") -> bool:
    """Whether the exit code and everything on stdout are as printed, and the other lines on stderr."""
    printed = done.stdout.splitlines()
    errors = iter(done.stderr.splitlines())
    told = [line for line in command.expected if not any(_same(line, each) for each in printed)]
    said = [line for line in command.expected if line not in told]
    return done.returncode == command.code and len(said) == len(printed) and all(
        any(_same(line, each) for each in errors) for line in told
    )  # fmt: skip


def _same(expected: str, line: str) -> bool:
    """`…` stands for what differs from one machine to the next."""
    return re.fullmatch(".*".join(re.escape(part) for part in expected.split("…")), line) is not None


def commands(text: str) -> Iterator[Command]:
    command: Command | None = None
    for line in text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command
            command = Command(line[2:])
        elif command is not None and (code := _EXIT.fullmatch(line)):
            command.code = int(code[1])
        elif command is not None:
            command.expected.append(line)
    if command is not None:
        yield command


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    home = Home(tmp_path / "home")
    home.path.mkdir(mode=0o700)
    (tmp_path / "site").mkdir()
    follower = Follower(home, tmp_path / "site")
    yield follower
    run_cli(home, "down", "--now")


def test_the_guide_holds_when_it_is_followed_word_for_word(follower: Follower) -> None:
    written, ran = [], []
    for language, text in _BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        file = _FILE.match(text)
        if file is not None:
            follower.write(file[1], text)
            written.append(file[1])
        elif language == "console":
            for command in commands(text):
                follower.obey(command)
                ran.append(command.line)

    assert len(written) == 7
    assert len(ran) == 11
    assert follower.home.failures() == []


def test_code_that_is_only_shown_is_a_tool_as_well() -> None:
    shown = [text for language, text in _BLOCK.findall(GUIDE.read_text(encoding="utf-8")) if language == "python"]
    names: list[str] = []
    for text in shown:
        if not _FILE.match(text):
            scope: dict[str, object] = {"__name__": "shown"}
            exec(compile(text, "guide", "exec"), scope)
            names += [name for name, value in scope.items() if hasattr(value, "__moot_tool__")]

    assert names == ["forecast"]
