"""What was read of a project is kept until a file that decides it changes."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from moot.domain.project import Project
from moot.tools.files import project_stamps
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.project_approvals import ProjectApprovals
from moot.tools.files.project_files import ProjectReader


class Reader:
    """A reader of one project in `root`, seen from `root/src`, that counts how often it reads."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.cwd = self.root / "src"
        self.cwd.mkdir(parents=True)
        (self.root / ".git").mkdir()
        self.write(".git/HEAD", "ref: refs/heads/main\n")
        self.write("AGENTS.md", "Use tabs.")
        self.approvals = ProjectApprovals(folder / "approvals.json")
        self.edition = 0
        self.reads = 0
        self.reader = ProjectReader(
            off_limits=self._off_limits,
            approvals=self.approvals,
            max_bytes=lambda: 1_000,
            edition=lambda: self.edition,
        )

    def _off_limits(self) -> OffLimits:
        self.reads += 1
        return OffLimits()

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text, encoding="utf-8")

    async def read(self) -> Project:
        return await self.reader(str(self.cwd), with_files=True)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    # The files of a test are always new; here their time of change is to be trusted.
    monkeypatch.setattr(project_stamps, "_UNCERTAIN_NS", -(10**12))
    return Reader(tmp_path)


async def test_an_unchanged_project_is_read_once(reader: Reader) -> None:
    first = await reader.read()
    assert [file.text for file in first.files] == ["Use tabs."]
    assert await reader.read() is first
    # What agents write beside the instructions does not count.
    reader.write("src/notes.txt", "anything")
    assert await reader.read() is first
    assert reader.reads == 1


def _approve(reader: Reader) -> None:
    whole = reader.reader.read(str(reader.cwd))
    reader.approvals.approve([("AGENTS.md", file) for file in whole.files])


def _change_edition(reader: Reader) -> None:
    reader.edition += 1


def _link_elsewhere(reader: Reader) -> None:
    reader.write("OTHER.md", "Use tabs!")
    (reader.root / "AGENTS.md").unlink()
    os.symlink("OTHER.md", reader.root / "AGENTS.md")


CHANGES: dict[str, Callable[[Reader], object]] = {
    "the text": lambda reader: reader.write("AGENTS.md", "Use dots."),
    "the file is gone": lambda reader: (reader.root / "AGENTS.md").unlink(),
    "the file is a link": _link_elsewhere,
    "another file": lambda reader: reader.write("CLAUDE.md", "Be brief."),
    "a nearer file": lambda reader: reader.write("src/AGENTS.md", "Be brief."),
    "the branch": lambda reader: reader.write(".git/HEAD", "ref: refs/heads/next\n"),
    "a nearer repository": lambda reader: (reader.cwd / ".git").mkdir(),
    "an approval": _approve,
    "the edition": _change_edition,
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_read(reader: Reader, change: str) -> None:
    before = await reader.read()
    CHANGES[change](reader)
    reads = reader.reads
    after = await reader.read()
    assert reader.reads == reads + 1
    assert change == "the edition" or after != before
    assert after == reader.reader.read(str(reader.cwd))


async def test_a_file_that_has_just_changed_is_read_again(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_stamps, "_UNCERTAIN_NS", 10**12)
    await reader.read()
    await reader.read()
    assert reader.reads == 2


async def test_the_branch_of_a_worktree_is_kept_up_to_date(reader: Reader) -> None:
    linked = reader.root.parent / "repository"
    linked.mkdir()
    (linked / "HEAD").write_text("ref: refs/heads/one\n", encoding="utf-8")
    (reader.root / ".git" / "HEAD").unlink()
    (reader.root / ".git").rmdir()
    reader.write(".git", f"gitdir: {linked}\n")
    assert (await reader.read()).branch == "one"
    (linked / "HEAD").write_text("ref: refs/heads/two\n", encoding="utf-8")
    assert (await reader.read()).branch == "two"


@pytest.fixture
def move_to(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Yield a function that changes the time zone of the computer, as far as a test may."""
    with monkeypatch.context() as context:
        yield lambda zone: context.setenv("TZ", zone)
    time.tzset()


async def test_the_time_is_told_in_a_time_zone_that_was_changed(move_to: Callable[[str], None], tmp_path: Path) -> None:
    move_to("Europe/Berlin")
    time.tzset()
    reader = Reader(tmp_path)
    assert (await reader.read()).zone == "Europe/Berlin"
    move_to("Asia/Tokyo")
    assert (await reader.read()).zone == "Asia/Tokyo"
    assert f"{datetime.fromtimestamp(0).astimezone():%z}" == "+0900"
