"""A commit in the sandbox carries its owner's name, the repository's own comes before it, and nothing else is told."""

import asyncio
import platform
import subprocess
from pathlib import Path

import pytest

from moot.tools.sandbox.environment import PATH
from moot.tools.sandbox.git_author import GitAuthor
from moot.tools.sandbox.output_buffer import OutputBuffer
from moot.tools.sandbox.plan import Command
from tests.escape.exec_kit import Bench

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the sandbox is made of Linux namespaces")

NAME = 'Ada "the \\ first" L'
COMMIT = (
    "test -d .git || git init -q . && touch a && git add a && git commit -qm one"
    " && git log --format='%an <%ae> %cn <%ce>'"
)


def git(*words: str) -> None:
    subprocess.run(["git", *words], timeout=30, check=True)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    home = tmp_path / "me"
    home.mkdir()
    for variable in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(home))
    settings = {
        "user.email": "ada@example.org",
        "user.name": NAME,
        "user.signingKey": "canary-of-the-key",
        "credential.helper": "!echo canary-of-the-helper",
        "url.https://canary-of-the-token@example.org/.insteadOf": "https://example.org/",
        "core.pager": "canary-of-the-pager",
    }
    for key, value in settings.items():
        git("config", "--file", str(home / ".gitconfig"), key, value)
    return Bench(tmp_path)


async def test_a_commit_in_the_sandbox_is_by_its_owner(bench: Bench) -> None:
    assert await bench.say(COMMIT) == f"{NAME} <ada@example.org> {NAME} <ada@example.org>\n"


async def test_the_identity_of_a_repository_comes_before_the_owners(bench: Bench) -> None:
    git("init", "-q", str(bench.work))
    for key, value in (("user.name", "Work"), ("user.email", "work@example.org")):
        git("-C", str(bench.work), "config", key, value)
    assert await bench.say(COMMIT) == "Work <work@example.org> Work <work@example.org>\n"


async def test_a_command_can_set_a_name_for_itself(bench: Bench) -> None:
    said = await bench.say(f"git config --global user.name Bob; {COMMIT}")
    assert said == "Bob <ada@example.org> Bob <ada@example.org>\n"
    assert await bench.say("git config --get user.name") == f"{NAME}\n"


async def test_nothing_else_of_the_owners_settings_is_seen(bench: Bench) -> None:
    said = await bench.say("git config --list --show-origin; cat ~/.gitconfig; env; ls -a ~; grep -r canary ~ /.moot")
    assert "ada@example.org" in said
    assert "canary" not in said


async def test_a_repository_has_no_say_in_who_the_owner_is(bench: Bench) -> None:
    git("init", "-q", str(bench.work))
    hostile = bench.work / "hostile"
    (bench.work / ".git" / "config").write_text(f"[core]\n\tfsmonitor = touch {hostile}\n\tpager = touch {hostile}\n")
    assert NAME.encode()[:3] in await asyncio.to_thread(GitAuthor(PATH).settings)
    assert not hostile.exists()


async def test_a_program_that_is_no_command_of_an_agents_is_told_no_name(bench: Bench) -> None:
    tape = OutputBuffer(65_536)
    argv = ("/bin/sh", "-c", "ls -a ~; git config --list; echo over")
    process = await bench.sandbox().start(Command(argv=argv, cwd=str(bench.work)), output=tape)
    process.limit(30)
    await process.over()
    assert "over" in tape.text()
    assert "ada@example.org" not in tape.text()


def test_a_name_that_is_set_later_is_found_after_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    empty = bench.work / "empty"
    empty.mkdir()
    monkeypatch.setenv("HOME", str(empty))
    author = GitAuthor(PATH, lambda: now)
    assert author.settings() == b""
    (empty / ".gitconfig").write_text("[user]\n\tname = Eve\n")
    assert author.settings() == b""
    now = 61.0
    assert author.settings() == b'[user]\n\tname = "Eve"\n'


def test_where_there_is_no_git_nobody_is_named(bench: Bench) -> None:
    assert GitAuthor([str(bench.work)]).settings() == b""
