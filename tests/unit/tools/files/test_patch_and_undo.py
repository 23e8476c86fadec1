"""Several files change together or not at all, and every change of the file tools can be taken back and made again."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.config import FilesConfig
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, Forbidden, MootError, NotFound, TooLarge
from moot.domain.visible import NOT_SHOWN
from moot.tools.files import change, change_log, file_state, file_tools, patch_tool
from moot.tools.files.change_log import ChangeLog
from moot.tools.files.confined_tool import ConfinedTool
from moot.tools.files.file_change import Moved, UndoRequest
from moot.tools.files.off_limits import OffLimits
from tests.change_logs import SECRET, make_log
from tests.unit.tools.files.test_files import context

OFF_LIMITS = OffLimits()


class Desk:
    """A working directory, the tools and their log."""

    def __init__(self, top: Path, config: FilesConfig | None = None) -> None:
        self.cwd, self.folder = top / "work", top / "log"
        self.cwd.mkdir()
        self.log = self.reopen(config)

    def reopen(self, config: FilesConfig | None = None) -> ChangeLog:
        self.log = make_log(self.folder, config)
        self.log.recover(OFF_LIMITS)
        made = file_tools.tools(off_limits=OFF_LIMITS, config=config, log=self.log, clock=SystemClock())
        self.tools: dict[str, Any] = {tool.spec.name: tool for tool in made}
        return self.log

    async def __call__(self, name: str, **arguments: Any) -> str:
        return str(await self.tools[name](arguments, context(self.cwd)))

    async def patch(self, *changes: dict[str, Any]) -> str:
        return await self("fs_patch", changes=list(changes))

    def move(self, **wanted: Any) -> Moved:
        return self.log.move(UndoRequest(**wanted), OFF_LIMITS)

    def tree(self) -> dict[str, str]:
        found = {}
        for path in sorted(self.cwd.rglob("*")):
            name = str(path.relative_to(self.cwd))
            found[name] = f"-> {os.readlink(path)}" if path.is_symlink() else "/" if path.is_dir() else path.read_text()
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def start(desk: Desk) -> dict[str, str]:
    (desk.cwd / "a.py").write_bytes(b"x = 1\r\ny = 2\r\n")
    (desk.cwd / "b.py").write_text("b\n")
    (desk.cwd / "run.sh").write_text("#!/bin/sh\n")
    (desk.cwd / "run.sh").chmod(0o754)
    await desk("fs_read", path="a.py")
    return desk.tree()


PATCH: tuple[dict[str, Any], ...] = (
    {"path": "a.py", "oldText": "x = 1\n", "newText": "x = 10\n"},
    {"path": "a.py", "oldText": "y = 2", "newText": "y = 20"},
    {"path": "new/deep/c.py", "content": "c\n"},
    {"path": "b.py", "delete": True},
    {"path": "run.sh", "moveTo": "bin/run"},
)


async def test_a_patch_edits_creates_deletes_and_renames(desk: Desk) -> None:
    before = await start(desk)
    shown = await desk.tools["fs_patch"].preview({"changes": list(PATCH)}, context(desk.cwd))
    assert "run.sh is renamed to bin/run" in shown
    assert [line for line in shown.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))] == [
        "-x = 1", "-y = 2", "+x = 10", "+y = 20", "+c", "-b",
    ]  # fmt: skip
    assert desk.tree() == before
    told = await desk.patch(*PATCH)
    assert told.splitlines() == [
        "Changed a.py, 16 bytes.", "Created new/deep/c.py, 2 bytes.", "Deleted b.py.", "run.sh is gone.",
        "Created bin/run, 10 bytes.",
    ]  # fmt: skip
    after = desk.tree()
    assert after == {
        "a.py": "x = 10\ny = 20\n", "bin": "/", "bin/run": "#!/bin/sh\n", "new": "/", "new/deep": "/",
        "new/deep/c.py": "c\n",
    }  # fmt: skip
    assert (desk.cwd / "a.py").read_bytes() == b"x = 10\r\ny = 20\r\n"
    assert stat.S_IMODE((desk.cwd / "bin/run").stat().st_mode) == 0o754
    assert desk.move(is_dry=True).diff
    assert desk.tree() == after
    desk.move()
    assert desk.tree() == before
    assert stat.S_IMODE((desk.cwd / "run.sh").stat().st_mode) == 0o754
    desk.move(is_redo=True)
    assert desk.tree() == after


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([], "1 to 100 changes"),
        ([{"content": "x"}], "change 1 has no path"),
        (["x"], "change 1 has no path"),
        ([{"path": "n"}], "exactly one of"),
        ([{"path": "n", "content": "x", "delete": True}], "exactly one of"),
        ([{"path": "n", "content": 5}], "must be of type string"),
        ([{"path": "n", "delete": True}], "there is no file n"),
        ([{"path": "n", "oldText": "x", "newText": "y"}], "there is no file n"),
        ([{"path": "b.py", "oldText": "b", "newText": "c"}], "b.py has not been read"),
        ([{"path": "b.py", "moveTo": "a.py"}], "a.py already exists"),
        ([{"path": "../out", "content": "x"}], "outside the working directory"),
        ([{"path": "b.py", "moveTo": "/etc/x"}], "is not in the working directory"),
        ([{"path": "b.py", "content": "1"}, {"path": "a.py", "oldText": "nowhere", "newText": "y"}], "does not occur"),
        ([{"path": "b.py", "content": "1"}, {"path": ".git/hooks/x", "content": "1"}], "is off limits"),
    ],
)
async def test_a_patch_with_one_wrong_change_changes_nothing(desk: Desk, changes: list[Any], told: str) -> None:
    before = await start(desk)
    (desk.cwd / ".git/hooks").mkdir(parents=True)
    with pytest.raises(MootError) as error:
        await desk.tools["fs_patch"].check({"changes": changes}, context(desk.cwd))
    assert told in error.value.message
    with pytest.raises(MootError):
        await desk.patch(*changes)
    assert {name: text for name, text in desk.tree().items() if not name.startswith(".git")} == before


async def test_a_patch_that_fails_in_the_middle_is_taken_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await start(desk)
    real, count = file_state.put, 0

    def put(*arguments: Any) -> None:
        nonlocal count
        count += 1
        if count == 5:
            raise Forbidden("no more", fix="")
        real(*arguments)

    monkeypatch.setattr(change_log, "put", put)
    with pytest.raises(Forbidden, match="no more"):
        await desk.patch(*PATCH)
    assert desk.tree() == before
    with pytest.raises(NotFound, match="nothing to undo"):
        desk.move()


@pytest.mark.parametrize("passes", range(1, 9))
@pytest.mark.parametrize("act", ["patch", "undo", "redo", "forced"])
async def test_a_crash_in_the_middle_leaves_all_or_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, passes: int, act: str
) -> None:
    """The process ends between two files: nothing of it runs any more, and the next one looks at the log."""

    class Crash(BaseException):
        pass

    before = await start(desk)
    if act != "patch":
        await desk.patch(*PATCH)
    if act == "redo":
        desk.move()
    if act == "forced":
        (desk.cwd / "a.py").write_text("mine\n")
    began = desk.tree()
    count = 0

    def reach(_point: str) -> None:
        nonlocal count
        count += 1
        if count == passes:
            raise Crash

    with monkeypatch.context() as dying:
        dying.setattr(change_log, "reach", reach)
        dying.setattr(ChangeLog, "_revert", lambda *_: None)
        try:
            if act == "patch":
                await desk.patch(*PATCH)
            else:
                desk.move(is_redo=act == "redo", is_forced=act == "forced")
            crashed = False
        except Crash:
            crashed = True
    desk.reopen()
    if crashed:
        assert desk.tree() == began
    # Whatever it was, it can be undone or made from here.
    if act in ("undo", "forced") and crashed:
        desk.move(is_forced=act == "forced")
        assert desk.tree() == before
    elif act == "redo" and crashed:
        desk.move(is_redo=True)
    elif crashed:
        await start(desk)
        await desk.patch(*PATCH)


async def test_each_tool_can_be_undone_in_turn_and_made_again(desk: Desk) -> None:
    (desk.cwd / "src/sub").mkdir(parents=True)
    (desk.cwd / "src/sub/x").write_text("x\n")
    (desk.cwd / "src/link").symlink_to("sub/x")
    states = [desk.tree()]
    for name, arguments in (
        ("fs_write", {"path": "made/for/it.txt", "content": "one\n"}),
        ("fs_write", {"path": "made/for/it.txt", "content": "two\n"}),
        ("fs_edit", {"path": "made/for/it.txt", "oldText": "two", "newText": "three"}),
        ("fs_mkdir", {"path": "empty/folder"}),
        ("fs_delete", {"path": "src/link"}),
        ("fs_delete", {"path": "src"}),
    ):
        await desk(name, **arguments)
        states.append(desk.tree())
    desk.reopen()
    for state in reversed(states[:-1]):
        desk.move()
        assert desk.tree() == state
    with pytest.raises(NotFound, match="nothing to undo"):
        desk.move()
    for state in states[1:]:
        desk.move(is_redo=True)
        assert desk.tree() == state
    with pytest.raises(NotFound, match="nothing to redo"):
        desk.move(is_redo=True)


async def test_what_changed_since_is_kept_unless_it_is_forced_and_then_it_comes_back(desk: Desk) -> None:
    await desk("fs_write", path="a", content="1\n")
    await desk("fs_write", path="a", content="2\n")
    (desk.cwd / "a").write_text("mine\n")
    with pytest.raises(Conflict, match="a changed since") as error:
        desk.move()
    assert "--force" in error.value.sentence
    assert "-mine" in desk.move(is_dry=True, is_forced=True).diff
    assert (desk.cwd / "a").read_text() == "mine\n"
    desk.move(is_forced=True)
    assert (desk.cwd / "a").read_text() == "1\n"
    assert desk.move(is_redo=True).change.tool == "fs_write"
    assert (desk.cwd / "a").read_text() == "mine\n"
    # The change by the agent is not lost by that, nor is the one before it.
    desk.move()
    assert (desk.cwd / "a").read_text() == "1\n"
    desk.move()
    assert not (desk.cwd / "a").exists()


async def test_what_cannot_be_undone_says_so(desk: Desk, tmp_path: Path) -> None:
    await desk("fs_write", path="d/a", content="1\n")
    await desk("fs_write", path="d/a", content="2\n")
    (desk.cwd / "d/a").unlink()
    (desk.cwd / "d").rmdir()
    with pytest.raises(Conflict, match="the folder d is gone, so d/a cannot be restored"):
        desk.move(is_forced=True)
    desk.cwd.rename(tmp_path / "elsewhere")
    with pytest.raises(Conflict, match="working directory .* is gone"):
        desk.move()
    (tmp_path / "elsewhere").rename(desk.cwd)
    (desk.cwd / "d").mkdir()
    (desk.cwd / "d/a").write_text("2\n")
    for kept in (desk.folder / "contents").iterdir():
        kept.unlink()
    with pytest.raises(MootError, match="no longer kept"):
        desk.move()
    assert (desk.cwd / "d/a").read_text() == "2\n"


async def test_a_link_in_place_of_a_folder_is_not_followed_out(desk: Desk, tmp_path: Path) -> None:
    await desk("fs_write", path="d/a", content="1\n")
    await desk("fs_write", path="d/a", content="2\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a").write_text("2\n")
    (desk.cwd / "d").rename(desk.cwd / "e")
    (desk.cwd / "d").symlink_to(tmp_path / "outside")
    with pytest.raises(Forbidden):
        desk.move(is_forced=True)
    assert (tmp_path / "outside/a").read_text() == "2\n"


async def test_which_change_is_meant(desk: Desk) -> None:
    runs = {
        "mine": context(desk.cwd),
        "other": replace(context(desk.cwd), key=ConversationKey("crab", "tg:1"), run_id="run-2"),
        "mate": replace(
            context(desk.cwd),
            key=ConversationKey("operator", "run:3"),
            root=ConversationKey("crab", "user"),
            run_id="arun-3",
            root_id="run-1",
        ),
    }
    for name, run in runs.items():
        await desk.tools["fs_write"]({"path": name, "content": "x"}, run)
    assert desk.move(is_dry=True).change.paths[0].path == "mate"
    assert desk.move(is_dry=True, key=ConversationKey("crab", "tg:1")).change.paths[0].path == "other"
    # What a teammate did belongs to the conversation and the run it did it for.
    assert desk.move(is_dry=True, key=ConversationKey("crab", "user")).change.paths[0].path == "mate"
    assert desk.move(is_dry=True, run_id="run-1").change.paths[0].path == "mate"
    assert desk.move(is_dry=True, run_id="run-2").change.paths[0].path == "other"
    desk.log.forget(ConversationKey("crab", "user"))
    assert desk.move().change.paths[0].path == "other"
    with pytest.raises(NotFound):
        desk.move()


async def test_what_is_kept_is_private_bounded_and_goes(tmp_path: Path) -> None:
    config = FilesConfig(undo_bytes=4_000)
    desk = Desk(tmp_path, config)
    for number in range(6):
        await desk("fs_write", path="a", content=f"{number}" * 900)
    contents = list((desk.folder / "contents").iterdir())
    assert sum(each.stat().st_size for each in contents) <= 4_000
    for each in (*contents, *desk.folder.glob("*.json")):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    assert stat.S_IMODE(desk.folder.stat().st_mode) == 0o700
    desk.move()
    desk.move()
    with pytest.raises(NotFound):
        desk.move()
    # Nothing is kept: a patch is still all or nothing.
    desk.reopen(FilesConfig(undo_bytes=0))
    await desk("fs_write", path="b", content="x")
    assert list((desk.folder / "contents").iterdir()) == []


async def test_a_deletion_too_large_to_keep_is_made_and_cannot_be_undone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moot.tools.files.change_tools.MOST_KEPT", 10)
    await desk("fs_write", path="a", content="1")
    (desk.cwd / "big").mkdir()
    (desk.cwd / "big/file").write_text("x" * 100)
    await desk("fs_delete", path="big")
    assert desk.tree() == {"a": "1"}
    with pytest.raises(Conflict, match="cannot be undone: big/file has 100 bytes"):
        desk.move()
    # What came before it can still be reached.
    assert desk.move(is_forced=True).change.tool == "fs_write"
    assert desk.tree() == {}


async def test_two_daemons_that_share_a_folder_overwrite_no_change_of_each_other(desk: Desk) -> None:
    """One has read the log before the other wrote to it."""
    first = desk.tools
    desk.reopen()
    for tools, name in ((first, "a"), (desk.tools, "b"), (first, "c")):
        await tools["fs_write"]({"path": name, "content": name}, context(desk.cwd))
    desk.reopen()
    assert [desk.move().change.paths[0].path for _ in range(3)] == ["c", "b", "a"]
    assert desk.tree() == {}


async def test_a_log_that_is_damaged_hinders_nobody(desk: Desk) -> None:
    await desk("fs_write", path="a", content="1")
    (desk.folder / "0000000009.json").write_text("{not json")
    desk.reopen()
    desk.move()
    assert desk.tree() == {}


async def test_edits_need_a_read_and_a_grant_is_enough(desk: Desk) -> None:
    await start(desk)
    changes = {"changes": [{"path": "b.py", "oldText": "b", "newText": "B"}]}
    bound = await desk.tools["fs_patch"].bind(changes, context(desk.cwd))
    granted = replace(context(desk.cwd), agreed=bound, granted=True)
    (desk.cwd / "b.py").write_text("b and more\n")
    with pytest.raises(Conflict, match="changed since it was approved"):
        await desk.tools["fs_patch"](changes, granted)
    (desk.cwd / "b.py").write_text("b\n")
    await desk.tools["fs_patch"](changes, granted)
    assert (desk.cwd / "b.py").read_text() == "B\n"
    with pytest.raises(BadRequest):
        await desk.patch(*({"path": f"f{number}", "content": ""} for number in range(101)))


async def test_a_patch_too_large_to_be_taken_back_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await start(desk)
    monkeypatch.setattr(change_log, "MOST_KEPT", 3)
    with pytest.raises(MootError, match="too large"):
        await desk.patch(*PATCH)
    assert desk.tree() == before


async def test_a_patch_of_large_files_is_refused_before_all_of_them_are_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch_tool, "MOST_KEPT", 1_000)
    for number in range(20):
        (desk.cwd / f"{number}.txt").write_text("x" * 500)
    read = []
    plain = ConfinedTool._read

    def note(self: Any, ground: Any, spot: Any, most: int) -> Any:
        read.append(spot.path)
        return plain(self, ground, spot, most)

    monkeypatch.setattr(ConfinedTool, "_read", note)
    with pytest.raises(TooLarge, match="too large together"):
        await desk.patch(*({"path": f"{number}.txt", "moveTo": f"m{number}.txt"} for number in range(20)))
    assert len(read) < 5
    # Several changes of one file read it once.
    read.clear()
    await desk.patch({"path": "0.txt", "content": "a b"}, {"path": "0.txt", "oldText": "a", "newText": "c"})
    assert read == ["0.txt"]


async def test_the_differences_of_a_patch_are_compared_within_one_bound(desk: Desk) -> None:
    """Comparing costs up to the square of the lines: a hundred files may not take a hundred times as long."""
    for number in range(3):
        (desk.cwd / f"{number}.txt").write_text("".join(f"{line}\n" for line in range(1_900)))
    after = "".join(f"{line}\n" for line in range(1, 1_901))
    changes = [{"path": f"{number}.txt", "content": after} for number in range(3)]
    shown = await desk.tools["fs_patch"].preview({"changes": changes}, context(desk.cwd))
    assert [line for line in shown.split("\n") if "too many to compare" in line or line.startswith("---")] == [
        "--- a/0.txt",
        f"1.txt: 1900 lines become 1900; not shown, too many to compare: {NOT_SHOWN}",
        f"2.txt: 1900 lines become 1900; not shown, too many to compare: {NOT_SHOWN}",
    ]


async def test_a_folder_with_too_many_entries_is_not_deleted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change, "_MOST_REMOVED", 5)
    (desk.cwd / "many" / "inner").mkdir(parents=True)
    for number in range(3):
        (desk.cwd / "many" / f"{number}").write_text("")
        (desk.cwd / "many" / "inner" / f"{number}").write_text("")
    with pytest.raises(TooLarge, match="more than 5 files"):
        await desk("fs_delete", path="many")
    assert len(desk.tree()) == 8
    await desk("fs_delete", path="many/inner")
    await desk("fs_delete", path="many")
    assert desk.tree() == {}


async def test_files_that_have_grown_since_are_not_all_read_to_undo_a_patch(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number}.txt" for number in range(5)]
    await desk.patch(*({"path": name, "content": "a"} for name in names))
    monkeypatch.setattr(change_log, "MOST_KEPT", 1_000)
    for name in names:
        (desk.cwd / name).write_text("x" * 400)
    with pytest.raises(TooLarge, match=r"2\.txt"):
        desk.move(is_forced=True)
    assert len(desk.tree()["0.txt"]) == 400


async def test_a_content_with_a_stored_secret_is_kept_sealed_and_restored(desk: Desk) -> None:
    (desk.cwd / ".env").write_text("KEY=stored-secret\n")

    await desk("fs_delete", path=".env")
    assert not [path for path in desk.folder.rglob("*") if path.is_file() and SECRET in path.read_bytes()]
    desk.reopen()
    desk.move()

    assert desk.tree() == {".env": "KEY=stored-secret\n"}
