"""Attempts to get out of the working directory, or at Moot's own files, through the file tools. None may succeed."""

import asyncio
import contextlib
import ctypes
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from moot.daemon.clock import SystemClock
from moot.domain.ask import Question
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Forbidden, MootError, Unavailable
from moot.domain.ports.tool import RunContext
from moot.tools.files import confined_paths, file_tools
from moot.tools.files.off_limits import OffLimits
from tests.change_logs import make_log

SECRET = "the secret"
SWAPS = int(os.environ.get("MOOT_SWAPS", "2000"))
ATTEMPTS = 120

LOG = make_log(Path(tempfile.mkdtemp(prefix="moot-log-")))


async def _nobody(questions: Sequence[Question]) -> str:
    raise AssertionError(questions)


def at(cwd: Path | str) -> RunContext:
    key = ConversationKey("crab", "user")
    return RunContext(run_id="r", key=key, speaker="crab", cwd=str(cwd), emit=lambda _event: None, ask=_nobody)


class FileTools:
    def __init__(self, cwd: Path | str, off_limits: OffLimits) -> None:
        self.cwd = str(cwd)
        self.tools: dict[str, Any] = {
            tool.spec.name: tool for tool in file_tools.tools(off_limits=off_limits, log=LOG, clock=SystemClock())
        }

    def __call__(self, name: str, **arguments: Any) -> str:
        return str(asyncio.run(self.tools[name](arguments, at(self.cwd))))

    def preview(self, name: str, **arguments: Any) -> str:
        return str(asyncio.run(self.tools[name].preview(arguments, at(self.cwd))))

    def every(self, path: str) -> None:
        """Every tool refuses this path."""
        for name, rest in CALLS.items():
            with pytest.raises(MootError):
                self(name, path=path, **rest)


CALLS: dict[str, dict[str, Any]] = {
    "fs_read": {},
    "fs_list": {},
    "fs_stat": {},
    "fs_write": {"content": "owned"},
    "fs_edit": {"startLine": 1, "endLine": 1, "content": "owned"},
    "fs_mkdir": {},
    "fs_delete": {},
}


class Scene:
    """A working directory with something secret beside it."""

    def __init__(self, top: Path) -> None:
        self.cwd = top / "cwd"
        self.cwd.mkdir()
        self.outside = top / "outside"
        self.outside.mkdir()
        self.secret = self.outside / "secret"
        self.secret.write_text(SECRET)
        self.moot = self.cwd / ".moot"
        self.off_limits = OffLimits(places=[str(self.moot / name) for name in ("config.toml", "data", "run")])
        self.files = FileTools(self.cwd, self.off_limits)

    def check(self) -> None:
        assert self.secret.read_text() == SECRET
        assert [entry.name for entry in self.outside.iterdir()] == ["secret"]


@pytest.fixture(params=["openat2", "walk"])
def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Everything holds with the kernel's lookups and with our own."""
    if request.param == "walk":
        monkeypatch.setattr(confined_paths, "kernel_resolves", lambda: False)
    elif not confined_paths.kernel_resolves():
        pytest.skip("this kernel has no openat2")
    scene = Scene(tmp_path)
    yield scene
    scene.check()


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "../outside",
        "..",
        "../",
        "./../outside/secret",
        "sub/../../outside/secret",
        "sub/../../../../../../etc/passwd",
        "sub//..//..//outside/secret",
        "../cwd/../outside/secret",
        "\0../outside/secret",
        "sub\0/../../outside/secret",
        "../outside/new-file",
        "../new-folder",
    ],
)
def test_traversal_is_refused(scene: Scene, path: str) -> None:
    (scene.cwd / "sub").mkdir()
    scene.files.every(path)
    assert sorted(entry.name for entry in scene.cwd.parent.iterdir()) == ["cwd", "outside"]


@pytest.mark.parametrize(
    "path", ["..%2foutside%2fsecret", "..\\outside\\secret", "~/x", "$HOME/x", "．．/outside/secret"]
)
def test_traversal_in_disguise_is_an_ordinary_name(scene: Scene, path: str) -> None:
    scene.files("fs_write", path=path, content="here")
    assert sum(len(names) for _, _, names in os.walk(scene.cwd)) == 1


def test_absolute_paths_are_refused(scene: Scene) -> None:
    for path in (
        "/etc/passwd",
        "//etc/passwd",
        str(scene.secret),
        f"{scene.cwd}-not",
        f"{scene.cwd}/../outside/secret",
    ):
        scene.files.every(path)


def test_a_folder_whose_name_begins_like_the_working_directory_is_outside(scene: Scene) -> None:
    sibling = scene.cwd.with_name("cwd-sibling")
    sibling.mkdir()
    (sibling / "f").write_text(SECRET)
    with pytest.raises(Forbidden):
        scene.files("fs_read", path=str(sibling / "f"))


def test_a_link_to_etc_is_refused(scene: Scene) -> None:
    (scene.cwd / "etc").symlink_to("/etc")
    (scene.cwd / "passwd").symlink_to("/etc/passwd")
    for path in ("etc/passwd", "etc/moot-was-here", "passwd"):
        for name in ("fs_read", "fs_list", "fs_stat", "fs_write", "fs_edit", "fs_mkdir"):
            with pytest.raises(MootError):
                scene.files(name, path=path, **CALLS[name])
    assert not Path("/etc/moot-was-here").exists()
    assert Path("/etc/passwd").read_text().startswith("root:")


@pytest.mark.parametrize("target", ["../outside", "sub/../../outside", "./.././outside"])
def test_a_relative_link_that_leads_out_is_refused(scene: Scene, target: str) -> None:
    (scene.cwd / "sub").mkdir()
    (scene.cwd / "out").symlink_to(target)
    scene.files.every("out/secret")
    with pytest.raises(MootError):
        scene.files("fs_list", path="out")


def test_dots_through_a_link_are_refused(scene: Scene) -> None:
    """`out/..` is the parent of where the link leads, not of the link."""
    deep = scene.outside.with_name("deep") / "er"
    deep.mkdir(parents=True)
    (scene.cwd / "out").symlink_to(deep)
    scene.files.every("out/../../outside/secret")
    scene.files.every("out/../../cwd/x")


def test_a_chain_of_links_that_ends_outside_is_refused(scene: Scene) -> None:
    (scene.cwd / "d").mkdir()
    (scene.cwd / "a").symlink_to("d/b")
    (scene.cwd / "d/b").symlink_to("../c")
    (scene.cwd / "c").symlink_to("../outside/secret")
    for name in ("fs_read", "fs_stat", "fs_write", "fs_edit"):
        with pytest.raises(MootError):
            scene.files(name, path="a", **CALLS[name])


def test_a_loop_of_links_ends(scene: Scene) -> None:
    (scene.cwd / "a").symlink_to("b")
    (scene.cwd / "b").symlink_to("a")
    for name in ("fs_read", "fs_stat", "fs_write", "fs_mkdir"):
        with pytest.raises(MootError):
            scene.files(name, path="a", **CALLS[name])


def test_writing_to_a_dangling_link_makes_nothing_outside(scene: Scene) -> None:
    (scene.cwd / "new").symlink_to("../outside/new")
    for name in ("fs_write", "fs_mkdir"):
        with pytest.raises(MootError):
            scene.files(name, path="new", **CALLS[name])


def test_deleting_a_link_to_a_folder_outside_deletes_the_link_alone(scene: Scene) -> None:
    (scene.cwd / "out").symlink_to(scene.outside)
    scene.files("fs_delete", path="out")
    assert not (scene.cwd / "out").is_symlink()


def test_a_magic_link_of_proc_is_refused(scene: Scene) -> None:
    (scene.cwd / "self").symlink_to("/proc/self/exe")
    with pytest.raises(MootError):
        scene.files("fs_read", path="self")


def test_links_that_stay_inside_work_with_the_kernel_and_are_refused_without(scene: Scene) -> None:
    (scene.cwd / "real").mkdir()
    (scene.cwd / "real/f").write_text("fine")
    (scene.cwd / "way").symlink_to("real")
    (scene.cwd / "file").symlink_to("real/f")
    if confined_paths.kernel_resolves():
        assert scene.files("fs_read", path="way/f") == scene.files("fs_read", path="file") == "fine"
        scene.files("fs_write", path="file", content="through")
        assert (scene.cwd / "file").is_symlink()
        assert (scene.cwd / "real/f").read_text() == "through"
    else:
        for path in ("way/f", "file"):
            with pytest.raises(Forbidden, match="link"):
                scene.files("fs_read", path=path)


# ---- Moot's own files -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", [".moot/config.toml", ".moot/data", ".moot/data/moot.db", ".moot/run/moot.sock"])
def test_moots_own_files_are_refused_before_they_exist(scene: Scene, path: str) -> None:
    scene.files.every(path)
    assert not (scene.moot / "config.toml").exists()
    assert not (scene.moot / "data").exists()


@pytest.mark.parametrize("path", [".MOOT/config.toml", ".moot/CONFIG.TOML", ".moot/Data/moot.db"])
def test_other_spellings_never_make_moots_own_files(scene: Scene, path: str) -> None:
    scene.moot.mkdir()
    with contextlib.suppress(MootError):
        scene.files("fs_write", path=path, content="owned")
    assert not (scene.moot / "config.toml").exists()
    assert not (scene.moot / "data").exists()


def test_moots_own_files_are_refused_once_they_exist(scene: Scene) -> None:
    (scene.moot / "data").mkdir(parents=True)
    (scene.moot / "data/moot.db").write_text(SECRET)
    (scene.moot / "config.toml").write_text("x")
    (scene.cwd / "way").symlink_to(".moot/data")
    (scene.cwd / "file").symlink_to(".moot/data/moot.db")
    (scene.cwd / "config").symlink_to(".moot/config.toml")
    for path in (".moot/data/moot.db", ".moot/data", ".moot/config.toml", "way/moot.db", ".moot/x/../data/moot.db"):
        scene.files.every(path)
    for path in ("file", "config", "way"):
        for name in ("fs_read", "fs_list", "fs_stat", "fs_write", "fs_edit"):
            with pytest.raises(MootError):
                scene.files(name, path=path, **CALLS[name])
    assert (scene.moot / "data/moot.db").read_text() == SECRET
    assert SECRET not in scene.files.preview("fs_write", path="file", content="x")
    assert SECRET not in scene.files.preview("fs_delete", path=".moot/data/moot.db")


def test_a_link_in_place_of_moots_folder_does_not_open_a_way(scene: Scene) -> None:
    """Somebody makes Moot's folder a link before Moot makes it: writing where it leads is writing there."""
    (scene.cwd / "trap").mkdir()
    scene.moot.symlink_to("trap")
    with pytest.raises(Forbidden):
        scene.files("fs_write", path="trap/config.toml", content="owned")
    with pytest.raises(MootError):
        scene.files("fs_write", path=".moot/config.toml", content="owned")
    assert list((scene.cwd / "trap").iterdir()) == []


def test_the_place_a_dangling_link_of_moots_leads_to_is_refused(scene: Scene) -> None:
    scene.moot.mkdir()
    (scene.moot / "config.toml").symlink_to("../innocent.toml")
    with pytest.raises(Forbidden):
        scene.files("fs_write", path="innocent.toml", content="owned")
    assert not (scene.cwd / "innocent.toml").exists()


def test_a_folder_that_holds_moots_files_is_not_deleted(scene: Scene) -> None:
    (scene.cwd / "p").mkdir()
    places = scene.cwd / "p/q/data"
    places.mkdir(parents=True)
    (places / "moot.db").write_text(SECRET)
    files = FileTools(scene.cwd, OffLimits(places=[str(places)]))
    for path in ("p", "p/q", "p/q/data"):
        with pytest.raises(Forbidden):
            files("fs_delete", path=path)
    assert (places / "moot.db").read_text() == SECRET


def test_a_hard_link_to_one_of_moots_files_is_not_read(scene: Scene) -> None:
    (scene.moot / "data/deep").mkdir(parents=True)
    (scene.moot / "data/deep/key").write_text(SECRET)
    os.link(scene.moot / "data/deep/key", scene.cwd / "innocent")
    for name in ("fs_read", "fs_edit"):
        with pytest.raises(Forbidden):
            scene.files(name, path="innocent", **CALLS[name])
    assert SECRET not in scene.files.preview("fs_write", path="innocent", content="x")
    assert SECRET not in scene.files.preview("fs_delete", path="innocent")
    scene.files("fs_write", path="innocent", content="mine")
    assert (scene.moot / "data/deep/key").read_text() == SECRET


def test_a_hard_link_to_a_file_outside_is_never_written_through(scene: Scene) -> None:
    os.link(scene.secret, scene.cwd / "f")
    scene.files("fs_read", path="f")
    scene.files("fs_edit", path="f", startLine=1, endLine=1, content="mine")
    scene.files("fs_write", path="f", content="mine again")
    scene.files("fs_delete", path="f")


# ---- odd working directories -----------------------------------------------------------------------


def test_the_root_of_the_machine_is_no_working_directory(scene: Scene) -> None:
    for cwd in ("/", "//", "/etc/..", str(scene.cwd / "root")):
        if cwd.endswith("root"):
            (scene.cwd / "root").symlink_to("/")
        files = FileTools(cwd, scene.off_limits)
        for name, rest in CALLS.items():
            with pytest.raises(Forbidden, match="whole machine"):
                files(name, path="tmp", **rest)


@pytest.mark.parametrize("cwd", ["/proc", "/proc/self", "/sys", "/dev", "/dev/fd"])
def test_the_kernels_own_folders_are_no_working_directory(scene: Scene, cwd: str) -> None:
    with pytest.raises(MootError):
        FileTools(cwd, scene.off_limits)("fs_list", path=".")


def test_moots_own_folders_are_no_working_directory(scene: Scene) -> None:
    (scene.moot / "data/inner").mkdir(parents=True)
    for cwd in (scene.moot / "data", scene.moot / "data/inner"):
        with pytest.raises(Forbidden):
            FileTools(cwd, scene.off_limits)("fs_list", path=".")


def test_a_workspace_inside_moots_data_can_be_worked_in_but_not_left(scene: Scene) -> None:
    data = scene.moot / "data"
    (data / "workspaces/ada-1").mkdir(parents=True)
    (data / "workspaces/bob-2").mkdir()
    (data / "moot.db").write_text(SECRET)
    off_limits = OffLimits(places=[str(data)], workspaces=str(data / "workspaces"))
    files = FileTools(data / "workspaces/ada-1", off_limits)
    files("fs_write", path="a/b", content="mine")
    assert files("fs_read", path="a/b") == "mine"
    for path in ("../../moot.db", "../bob-2/x", str(data / "moot.db")):
        with pytest.raises(Forbidden):
            files("fs_read", path=path)
    for cwd in (data / "workspaces", data):
        with pytest.raises(Forbidden):
            FileTools(cwd, off_limits)("fs_list", path=".")
    with pytest.raises(Forbidden):
        FileTools(scene.cwd, off_limits)("fs_read", path=".moot/data/workspaces/ada-1/a/b")


def test_no_working_directory_is_no_permission(scene: Scene) -> None:
    for cwd in ("", ".", "relative"):
        with pytest.raises(Unavailable):
            FileTools(cwd, scene.off_limits)("fs_list", path=".")
    with pytest.raises(MootError):
        FileTools(scene.cwd / "gone", scene.off_limits)("fs_list", path=".")


# ---- special files ----------------------------------------------------------------------------------


def test_a_named_pipe_holds_nobody_up(scene: Scene) -> None:
    os.mkfifo(scene.cwd / "pipe")
    for name in ("fs_read", "fs_list", "fs_write", "fs_edit", "fs_mkdir"):
        with pytest.raises(MootError):
            scene.files(name, path="pipe", **CALLS[name])


def test_a_socket_is_left_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scene.cwd)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
        for name in ("fs_read", "fs_write", "fs_edit"):
            with pytest.raises(Forbidden):
                scene.files(name, path="sock", **CALLS[name])


def test_a_device_is_left_alone(scene: Scene) -> None:
    try:
        os.mknod(scene.cwd / "null", 0o020666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    for name in ("fs_read", "fs_write", "fs_edit"):
        with pytest.raises(Forbidden):
            scene.files(name, path="null", **CALLS[name])


# ---- races --------------------------------------------------------------------------------------------


def _exchange(one: Path, other: Path) -> None:
    """Let two names change places in one step."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def _swapping(cwd: Path, enough: threading.Event, done: threading.Event) -> None:
    """Make `d` a folder, then a link that leads out, over and over."""
    try:
        swaps = 0
        while swaps < SWAPS or not enough.is_set():
            _exchange(cwd / "d", cwd / "link")
            swaps += 1
    finally:
        done.set()


def _raced(scene: Scene, attempt: Callable[[], str]) -> list[str]:
    """What attempts returned while `d` was swapped."""
    enough, done = threading.Event(), threading.Event()
    swapper = threading.Thread(target=_swapping, args=(scene.cwd, enough, done))
    got: list[str] = []
    swapper.start()
    try:
        while not done.is_set():
            try:
                got.append(attempt())
            except MootError as error:
                got.append(f"refused: {error.message}")
            if len(got) >= ATTEMPTS:
                enough.set()
    finally:
        enough.set()
        swapper.join()
    assert len(got) >= ATTEMPTS
    return got


@pytest.fixture
def swapped(scene: Scene) -> Scene:
    (scene.cwd / "d").mkdir()
    (scene.cwd / "d/secret").write_text("harmless")
    (scene.cwd / "link").symlink_to(scene.outside)
    return scene


def _read(scene: Scene, path: str) -> str:
    with confined_paths.ConfinedFolder(str(scene.cwd), scene.off_limits) as ground:
        file, _ = ground.open_file(ground.spot(path))
        return os.read(file, 100).decode()


def test_a_folder_swapped_for_a_link_is_never_read_through(swapped: Scene) -> None:
    got = _raced(swapped, lambda: _read(swapped, "d/secret"))
    assert SECRET not in got
    assert "harmless" in got


def test_a_folder_swapped_for_a_link_is_never_written_through(swapped: Scene) -> None:
    writer = swapped.files.tools["fs_write"]
    got = _raced(swapped, lambda: writer._do({"path": "d/secret", "content": "harmless"}, at(swapped.cwd)))
    assert any(said.startswith("Wrote") for said in got)
    swapped.check()


def test_a_folder_swapped_for_a_link_is_never_deleted_through(swapped: Scene) -> None:
    deleter = swapped.files.tools["fs_delete"]

    def attempt() -> str:
        return str(deleter._do({"path": "d/secret"}, at(swapped.cwd)))

    _raced(swapped, attempt)
    swapped.check()


def test_a_file_swapped_for_a_link_is_never_read_through(scene: Scene) -> None:
    (scene.cwd / "d").write_text("harmless")
    (scene.cwd / "link").symlink_to(scene.secret)
    got = _raced(scene, lambda: _read(scene, "d"))
    assert SECRET not in got
    assert "harmless" in got


def test_a_recursive_deletion_does_not_follow_a_folder_swapped_for_a_link(scene: Scene) -> None:
    """The inner folder is a link out whenever the deletion looks twice."""
    deleter = scene.files.tools["fs_delete"]
    for number in range(20):
        top = scene.cwd / f"top{number}"
        top.mkdir()
        (top / "d").mkdir()
        (top / "link").symlink_to(scene.outside)
        stop = threading.Event()

        def swap(top: Path = top, stop: threading.Event = stop) -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    _exchange(top / "d", top / "link")

        swapper = threading.Thread(target=swap)
        swapper.start()
        with contextlib.suppress(MootError):
            deleter._do({"path": f"top{number}"}, at(scene.cwd))
        stop.set()
        swapper.join()
        assert scene.secret.exists()
