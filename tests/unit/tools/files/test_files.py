"""The file tools do what they say, beneath the working directory, whatever the files are like."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moot.daemon.clock import SystemClock
from moot.domain.ask import Question
from moot.domain.config import FilesConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, Forbidden, MootError, NotFound, TooLarge
from moot.domain.ports.tool import Previews, Renders, RunContext
from moot.domain.prompt import Safety
from moot.domain.visible import show
from moot.tools.files import file_tools
from moot.tools.files.change import check_unchanged
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.read_tools import FsRead
from tests.change_logs import make_log


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(questions)


def context(cwd: Path | str) -> RunContext:
    key = ConversationKey("crab", "user")
    return RunContext(
        run_id="r", key=key, speaker="crab", cwd=str(cwd), emit=lambda _event: None, ask=_nobody, offered=(FsRead.spec,)
    )


SMALL = FilesConfig(read_bytes=1000, window_bytes=5000, write_bytes=1000, entries=5)


class FileTools:
    """The file tools on one folder."""

    def __init__(self, cwd: Path, config: FilesConfig | None = None) -> None:
        self.cwd = cwd
        made = file_tools.tools(
            off_limits=OffLimits(places=[str(cwd / ".moot")]),
            config=config,
            log=make_log(cwd.parent / "log", config),
            clock=SystemClock(),
        )
        self.tools: dict[str, Any] = {tool.spec.name: tool for tool in made}

    async def __call__(self, name: str, **arguments: Any) -> str:
        return str(await self.tools[name](arguments, context(self.cwd)))

    async def json(self, name: str, **arguments: Any) -> Any:
        return msgspec.json.decode(await self(name, **arguments))

    async def preview(self, name: str, **arguments: Any) -> str:
        return str(await self.tools[name].preview(arguments, context(self.cwd)))


@pytest.fixture
def files(tmp_path: Path) -> FileTools:
    return FileTools(tmp_path)


def test_each_tool_is_as_safe_as_it_says_and_can_be_told_in_a_line(files: FileTools) -> None:
    assert {name: tool.spec.safety for name, tool in files.tools.items()} == {
        "fs_read": Safety.SAFE,
        "fs_list": Safety.SAFE,
        "fs_search": Safety.SAFE,
        "fs_glob": Safety.SAFE,
        "fs_write": Safety.DANGEROUS,
        "fs_edit": Safety.DANGEROUS,
        "fs_patch": Safety.DANGEROUS,
        "fs_mkdir": Safety.MODERATE,
        "fs_delete": Safety.DANGEROUS,
        "fs_stat": Safety.SAFE,
    }
    for name, tool in files.tools.items():
        assert isinstance(tool, Renders)
        said = tool.line(
            {
                "path": "a\n\x1b[2Jb",
                "content": "xyz",
                "startLine": 1,
                "endLine": 2,
                "pattern": "x",
                "changes": [{"path": "a"}],
            }
        )
        assert "a" in said
        assert show(said).isprintable(), said
        assert isinstance(tool, Previews) == (name in ("fs_write", "fs_edit", "fs_patch", "fs_delete"))


def test_required_parameters_are_named_in_the_schemas(files: FileTools) -> None:
    required = {name: tool.spec.parameters["required"] for name, tool in files.tools.items()}
    assert required["fs_read"] == required["fs_list"] == required["fs_stat"] == ["path"]
    assert required["fs_write"] == ["path", "content"]
    assert required["fs_edit"] == ["path"]


async def test_what_was_written_is_read_and_its_folders_were_made(files: FileTools) -> None:
    assert "5 bytes" in await files("fs_write", path="a/b/c.txt", content="one\n2")
    assert await files("fs_read", path="a/b/c.txt") == "one\n2"
    assert await files("fs_read", path=str(files.cwd / "a/b/c.txt")) == "one\n2"
    assert await files("fs_read", path="a/../a/./b//c.txt") == "one\n2"


async def test_a_window_says_where_it_is_and_how_long_the_file_is(files: FileTools) -> None:
    (files.cwd / "f").write_text("1\n2\n3\n4\n5")
    assert await files.json("fs_read", path="f", offset=2, limit=2) == {
        "content": "2\n3\n", "totalLines": 5, "size": 9, "offset": 2, "limit": 2,
    }  # fmt: skip
    assert (await files.json("fs_read", path="f", offset=4))["content"] == "4\n5"
    assert (await files.json("fs_read", path="f", offset=9))["content"] == ""
    assert (await files.json("fs_read", path="f", limit=1))["content"] == "1\n"
    with pytest.raises(BadRequest):
        await files("fs_read", path="f", offset=0)


async def test_lines_can_be_numbered_as_an_edit_counts_them(files: FileTools) -> None:
    (files.cwd / "f").write_text("x\ny\n")
    assert await files("fs_read", path="f", lineNumbers=True) == "     1\tx\n     2\ty\n"
    assert (await files.json("fs_read", path="f", offset=2, lineNumbers=True))["content"] == "     2\ty\n"


async def test_a_binary_file_is_not_read_as_text_but_described(files: FileTools) -> None:
    (files.cwd / "b").write_bytes(b"\x7fELF\0\0")
    with pytest.raises(BadRequest, match="not text"):
        await files("fs_read", path="b")
    assert (await files.json("fs_stat", path="b"))["size"] == 6
    with pytest.raises(BadRequest, match="not text"):
        await files("fs_edit", path="b", startLine=1, endLine=1, content="x")


async def test_bytes_that_are_not_utf8_are_shown_and_survive_an_edit_elsewhere(files: FileTools) -> None:
    (files.cwd / "latin").write_bytes(b"caf\xe9\nsecond\n")
    assert await files("fs_read", path="latin") == "caf\\xe9\nsecond\n"
    await files("fs_edit", path="latin", startLine=2, endLine=2, content="zweite")
    assert (files.cwd / "latin").read_bytes() == b"caf\xe9\nzweite\n"


async def test_a_name_that_is_not_utf8_is_listed(files: FileTools) -> None:
    (files.cwd / os.fsdecode(b"\xff.txt")).write_text("")
    assert [entry["name"] for entry in await files.json("fs_list", path=".")] == ["\\xff.txt"]


async def test_a_list_has_the_agreed_fields_and_is_bounded(tmp_path: Path) -> None:
    files = FileTools(tmp_path, SMALL)
    for name in "gfedcba":
        (tmp_path / name).write_text(name)
    listed = await files.json("fs_list", path=".")
    assert [entry["name"] for entry in listed[:-1]] == ["a", "b", "c", "d", "e"]
    assert listed[-1] == {"more": 2}
    assert listed[0] == {"name": "a", "size": 1}
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to("c")
    listed = await files.json("fs_list", path=".")
    assert listed[:3] == [
        {"name": "a", "isDir": True},
        {"name": "b", "size": 1, "isLink": True},
        {"name": "c", "size": 1},
    ]
    full = await files.json("fs_list", path=".", details=True)
    assert set(full[0]) == {"path", "name", "size", "isDir", "modTime", "mode"}
    assert full[2]["mode"].startswith("-rw")


async def test_a_list_of_five_entries_is_short(files: FileTools) -> None:
    for name in ("README.md", "pyproject.toml", "notes.txt", "main.py"):
        (files.cwd / name).write_text("x" * 1000)
    (files.cwd / "src").mkdir()
    assert len(await files("fs_list", path=".")) < 200


async def test_a_description_has_the_agreed_fields(files: FileTools) -> None:
    (files.cwd / "f").write_text("1\n2")
    told = await files.json("fs_stat", path="f")
    assert set(told) == {"path", "size", "lines", "modTime", "isDir", "permission"}
    assert (told["size"], told["lines"], told["isDir"]) == (3, 2, False)
    assert (await files.json("fs_stat", path="."))["isDir"] is True
    with pytest.raises(NotFound):
        await files("fs_stat", path="gone")


async def test_too_much_is_refused_both_ways(tmp_path: Path) -> None:
    files = FileTools(tmp_path, SMALL)
    (tmp_path / "big").write_text("line\n" * 400)
    with pytest.raises(TooLarge):
        await files("fs_read", path="big")
    assert (await files.json("fs_read", path="big", offset=399))["content"] == "line\nline\n"
    (tmp_path / "huge").write_text("line\n" * 4000)
    with pytest.raises(TooLarge):
        await files("fs_read", path="huge", limit=1)
    with pytest.raises(TooLarge):
        await files("fs_write", path="w", content="x" * 1001)
    assert not (tmp_path / "w").exists()


async def test_an_edit_replaces_its_lines_and_no_other(files: FileTools) -> None:
    (files.cwd / "f").write_text("1\n2\n3\n4\n")
    await files("fs_read", path="f")
    await files("fs_edit", path="f", startLine=2, endLine=3, content="two\nthree\nmore")
    assert (files.cwd / "f").read_text() == "1\ntwo\nthree\nmore\n4\n"
    await files("fs_edit", path="f", startLine=6, endLine=6, content="end")
    assert (files.cwd / "f").read_text() == "1\ntwo\nthree\nmore\n4\nend\n"


async def test_an_edit_keeps_line_ends_and_a_missing_last_one(files: FileTools) -> None:
    (files.cwd / "dos").write_bytes(b"1\r\n2\r\n3")
    await files("fs_read", path="dos", limit=1)
    await files("fs_edit", path="dos", startLine=2, endLine=2, content="a\nb")
    assert (files.cwd / "dos").read_bytes() == b"1\r\na\r\nb\r\n3"
    await files("fs_edit", path="dos", startLine=4, endLine=4, content="z")
    assert (files.cwd / "dos").read_bytes() == b"1\r\na\r\nb\r\nz"


@pytest.mark.parametrize(("start", "end"), [(0, 1), (4, 4), (2, 1), (1, 3), (-1, 2)])
async def test_an_edit_outside_the_file_changes_nothing(files: FileTools, start: int, end: int) -> None:
    (files.cwd / "f").write_text("1\n2\n")
    await files("fs_read", path="f")
    with pytest.raises(BadRequest):
        await files("fs_edit", path="f", startLine=start, endLine=end, content="x")
    assert (files.cwd / "f").read_text() == "1\n2\n"


def test_an_edit_does_not_write_over_what_changed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1\n")
    with ConfinedFolder(str(tmp_path), OffLimits()) as ground:
        spot = ground.spot("f")
        _, seen = ground.open_file(spot)
        (tmp_path / "f").write_text("somebody else\n")
        with pytest.raises(Conflict):
            check_unchanged(spot, seen)


async def test_a_written_file_keeps_its_mode_but_no_set_user_bit(files: FileTools) -> None:
    script = files.cwd / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o4751)
    await files("fs_write", path="run.sh", content="#!/bin/sh\ntrue\n")
    assert script.stat().st_mode & 0o7777 == 0o751


async def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    files: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files.cwd / "f").write_text("old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(MootError, match="No space left"):
        await files("fs_write", path="f", content="new")
    assert [(entry.name, entry.read_text()) for entry in files.cwd.iterdir()] == [("f", "old")]


async def test_a_write_does_not_go_through_a_hard_link(
    files: FileTools, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "f"
    outside.write_text("theirs")
    os.link(outside, files.cwd / "f")
    await files("fs_write", path="f", content="ours")
    assert (outside.read_text(), (files.cwd / "f").read_text()) == ("theirs", "ours")


async def test_a_folder_is_deleted_with_everything_in_it_but_not_what_links_lead_to(
    files: FileTools, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "kept").write_text("kept")
    (files.cwd / "d/e").mkdir(parents=True)
    (files.cwd / "d/e/f").write_text("123")
    (files.cwd / "d/out").symlink_to(outside)
    assert "2 files, 2 folders" in await files("fs_delete", path="d")
    assert not (files.cwd / "d").exists()
    assert (outside / "kept").read_text() == "kept"


async def test_folders_nested_too_deep_are_refused_before_anything_goes(files: FileTools) -> None:
    deep = files.cwd / "d" / "/".join("x" * 120)
    deep.mkdir(parents=True)
    (files.cwd / "d" / "a").write_text("")
    with pytest.raises(BadRequest, match="nested"):
        await files("fs_delete", path="d")
    assert (files.cwd / "d" / "a").exists()


@pytest.mark.parametrize("path", [".", "./", "sub/..", "sub/."])
async def test_the_working_directory_itself_is_never_deleted(files: FileTools, path: str) -> None:
    (files.cwd / "sub").mkdir()
    for given in (path, str(files.cwd)):
        with pytest.raises(Forbidden):
            await files("fs_delete", path=given)
    assert (files.cwd / "sub").is_dir()


async def test_folders_are_made_with_those_above_and_twice_is_no_error(files: FileTools) -> None:
    for _ in range(2):
        await files("fs_mkdir", path="a/b/c/")
    assert (files.cwd / "a/b/c").is_dir()
    (files.cwd / "file").write_text("")
    with pytest.raises(Conflict):
        await files("fs_mkdir", path="file/sub")


@pytest.mark.parametrize("path", ["new/../../out", "new/deep/../../../out", "../out"])
async def test_a_path_that_leads_out_makes_no_folder_on_the_way(files: FileTools, path: str) -> None:
    with pytest.raises(Forbidden):
        await files("fs_mkdir", path=path)
    with pytest.raises(Forbidden):
        await files("fs_write", path=f"{path}/file", content="x")
    assert not (files.cwd / "new").exists()
    assert not (files.cwd.parent / "out").exists()


async def test_a_write_is_shown_as_a_diff_before_it_happens(files: FileTools) -> None:
    (files.cwd / "f").write_text("1\n2\n")
    shown = await files.preview("fs_write", path="f", content="1\ntwo\n")
    assert shown.splitlines() == ["--- a/f", "+++ b/f", "@@ -1,2 +1,2 @@", " 1", "-2", "+two"]
    assert (files.cwd / "f").read_text() == "1\n2\n"
    new = await files.preview("fs_write", path="no/such/folder/f", content="x\n")
    assert new.splitlines()[:2] == ["--- /dev/null", "+++ b/no/such/folder/f"]
    assert not (files.cwd / "no").exists()


async def test_an_edit_and_a_deletion_are_shown_too(files: FileTools) -> None:
    (files.cwd / "f").write_text("1\n2\n")
    assert "+zwei" in await files.preview("fs_edit", path="f", startLine=2, endLine=2, content="zwei")
    assert "-1" in await files.preview("fs_delete", path="f")
    (files.cwd / "d/e").mkdir(parents=True)
    (files.cwd / "d/e/g").write_text("123")
    assert await files.preview("fs_delete", path="d") == "deletes d/ with 1 file in 2 folders, 3 bytes"
    assert (await files.preview("fs_edit", path="f", startLine=9, endLine=9, content="x")).startswith("This will fail")


async def test_a_diff_is_whole_or_says_that_it_is_not_and_a_change_far_right_still_shows(files: FileTools) -> None:
    (files.cwd / "f").write_text("")
    shown = await files.preview("fs_write", path="f", content="line\n" * 9000)
    assert shown.splitlines()[3:] == ["+line"] * 9000
    (files.cwd / "f").write_text("other\n" * 9000)
    assert "not shown" in await files.preview("fs_write", path="f", content="line\n" * 9000)
    (files.cwd / "wide").write_text("a" * 5000 + "x\n")
    wide = await files.preview("fs_write", path="wide", content="a" * 5000 + "y\n")
    assert len([line for line in wide.splitlines() if line.startswith(("-aaa", "+aaa"))]) == 2
    (files.cwd / "unix").write_text("a\n")
    assert "line ends" in await files.preview("fs_write", path="unix", content="a\r\n")


async def test_slow_files_do_not_hold_the_loop(files: FileTools, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work waits in a thread for something only the loop can do."""
    loop = asyncio.get_running_loop()
    went_on = asyncio.Event()
    fsync = os.fsync

    def slow(file: int) -> None:
        async def go_on() -> None:
            went_on.set()

        asyncio.run_coroutine_threadsafe(go_on(), loop).result(timeout=10)
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow)
    await files("fs_write", path="f", content="x")
    assert went_on.is_set()


@pytest.mark.parametrize(
    ("path", "name"), [("{above}/new.txt", "new.txt"), ("{above}", "."), ("/", "."), ("{above}/other/", "other")]
)
async def test_a_path_outside_is_refused_with_its_name_inside(files: FileTools, path: str, name: str) -> None:
    path = path.format(above=files.cwd.parent)
    for tool in ("fs_write", "fs_list", "fs_mkdir"):
        with pytest.raises(Forbidden) as refusal:
            await files(tool, path=path, content="x")
        assert str(files.cwd) in refusal.value.message
        assert refusal.value.fix.endswith(f": {name}")


def test_the_line_of_an_incomplete_call_names_no_lines_and_one_character_is_not_several(files: FileTools) -> None:
    lines = {name: tool.line for name, tool in files.tools.items() if isinstance(tool, Renders)}
    assert lines["fs_edit"]({"path": "a.txt"}).endswith("a.txt")
    assert lines["fs_edit"]({"path": "a.txt", "startLine": 1}).endswith("a.txt")
    assert lines["fs_edit"]({"path": "a.txt", "startLine": 1, "endLine": 2}).endswith("a.txt, lines 1 to 2")
    assert lines["fs_write"]({"path": "p.txt", "content": "x"}).endswith("p.txt (1 character)")
    assert lines["fs_write"]({"path": "p.txt", "content": "xy"}).endswith("p.txt (2 characters)")
