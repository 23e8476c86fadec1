"""A change to a file that was allowed is made to what was looked at, and to nothing else."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.errors import Conflict
from moot.domain.ports.tool import RunContext
from moot.tools.files import file_tools
from moot.tools.files.off_limits import OffLimits
from tests.change_logs import make_log
from tests.unit.shelves import context

LOG = make_log(Path(tempfile.mkdtemp(prefix="moot-log-")))
TOOLS: dict[str, Any] = {
    tool.spec.name: tool for tool in file_tools.tools(off_limits=OffLimits(), log=LOG, clock=SystemClock())
}
WRITE = {"path": "docs/a.txt", "content": "new\n"}
EDIT = {"path": "docs/a.txt", "startLine": 2, "endLine": 2, "content": "TWO\n"}
DELETE = {"path": "docs/a.txt"}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    tmp_path = tmp_path.resolve()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a.txt").write_text("theirs\nx\n")
    return tmp_path


def at(cwd: Path) -> RunContext:
    return replace(context(), cwd=str(cwd))


async def agreed(name: str, arguments: dict[str, Any], cwd: Path) -> RunContext:
    """The run after its owner has looked at the call."""
    return replace(at(cwd), agreed=await TOOLS[name].bind(arguments, at(cwd)))


def everything(here: Path) -> list[tuple[str, str]]:
    return sorted((str(path), path.read_text()) for path in here.rglob("*") if path.is_file())


def rewritten(here: Path) -> None:
    (here / "docs/a.txt").write_text("one\nTOW\nthree\n")


def gone(here: Path) -> None:
    (here / "docs/a.txt").unlink()


def linked(here: Path) -> None:
    gone(here)
    (here / "docs/a.txt").symlink_to("../other/a.txt")


def swapped(here: Path) -> None:
    (here / "docs").rename(here / "was")
    (here / "docs").symlink_to("other")


@pytest.mark.parametrize(("name", "arguments"), [("fs_write", WRITE), ("fs_edit", EDIT), ("fs_delete", DELETE)])
async def test_a_change_is_made_when_nothing_has_changed(here: Path, name: str, arguments: dict[str, Any]) -> None:
    await TOOLS["fs_read"](DELETE, at(here))
    run = await agreed(name, arguments, here)
    # The same content written anew is the same content.
    (here / "docs/a.txt").write_text("one\ntwo\nthree\n")
    await TOOLS[name](arguments, run)
    after = {"fs_write": "new\n", "fs_edit": "one\nTWO\nthree\n"}.get(name)
    assert ((here / "docs/a.txt").read_text() if after else None) == after
    assert (here / "docs/a.txt").exists() is bool(after)


@pytest.mark.parametrize("meanwhile", [rewritten, gone, linked, swapped])
@pytest.mark.parametrize(("name", "arguments"), [("fs_write", WRITE), ("fs_edit", EDIT), ("fs_delete", DELETE)])
async def test_a_change_is_refused_when_the_file_is_another_by_then(
    here: Path, name: str, arguments: dict[str, Any], meanwhile: Callable[[Path], None]
) -> None:
    run = await agreed(name, arguments, here)
    meanwhile(here)
    before = everything(here)
    with pytest.raises(Conflict, match="changed since it was approved") as told:
        await TOOLS[name](arguments, run)
    assert "Check it again" in told.value.fix
    assert everything(here) == before


async def test_a_new_file_is_not_written_through_a_link_put_in_its_way(here: Path) -> None:
    arguments = {"path": "fresh/deep/a.txt", "content": "x\n"}
    run = await agreed("fs_write", arguments, here)
    (here / "fresh").symlink_to("other")
    with pytest.raises(Conflict, match="changed since it was approved"):
        await TOOLS["fs_write"](arguments, run)
    assert not (here / "other/deep").exists()


async def test_a_new_file_in_new_folders_is_written_as_agreed(here: Path) -> None:
    arguments = {"path": "fresh/deep/a.txt", "content": "x\n"}
    await TOOLS["fs_write"](arguments, await agreed("fs_write", arguments, here))
    assert (here / "fresh/deep/a.txt").read_text() == "x\n"


async def test_a_call_that_was_shown_to_fail_does_not_succeed_later(here: Path) -> None:
    arguments = {"path": "other", "content": "x\n"}
    assert "This will fail" in await TOOLS["fs_write"].preview(arguments, at(here))
    run = await agreed("fs_write", arguments, here)
    (here / "other").rename(here / "else")
    with pytest.raises(Conflict, match="changed since it was approved"):
        await TOOLS["fs_write"](arguments, run)


async def test_a_folder_that_grew_is_not_deleted(here: Path) -> None:
    run = await agreed("fs_delete", {"path": "docs"}, here)
    (here / "docs/precious.txt").write_text("1")
    with pytest.raises(Conflict, match="changed since it was approved"):
        await TOOLS["fs_delete"]({"path": "docs"}, run)
    assert (here / "docs/precious.txt").exists()
    (here / "docs/precious.txt").unlink()
    await TOOLS["fs_delete"]({"path": "docs"}, run)
    assert not (here / "docs").exists()


@pytest.mark.parametrize("path", ["link/info/x", "link/x"])
async def test_the_preview_says_where_a_path_over_a_link_really_leads(here: Path, path: str) -> None:
    (here / "link").symlink_to("other")
    shown = await TOOLS["fs_write"].preview({"path": path, "content": "1\n"}, at(here))
    real = f"{here}/{path.replace('link', 'other', 1)}"
    assert shown.startswith(f"{path} resolves to {real}\n")
    assert "resolves to" not in await TOOLS["fs_write"].preview(WRITE, at(here))


async def test_a_diff_is_shown_whole_or_says_that_it_is_not(here: Path) -> None:
    long = {"path": "docs/a.txt", "content": "x\n" * 1500 + "y" * 3000 + "TAIL\n"}
    assert "TAIL" in await TOOLS["fs_write"].preview(long, at(here))
    (here / "docs/a.txt").write_text("old\n" * 5000)
    assert "not shown, too many to compare" in await TOOLS["fs_write"].preview(long, at(here))
    hidden = {"path": "docs/a.txt", "content": "x\n" * 9000 + "\0"}
    assert "not shown, this is not text" in await TOOLS["fs_write"].preview(hidden, at(here))


def test_the_line_of_a_call_names_the_whole_path() -> None:
    path = "a/" * 90 + "end.txt"
    assert path in TOOLS["fs_write"].line({"path": path, "content": ""})
