"""Names are exchanged for links while a file tool is at work: at every point of every tool, and in a real race."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from moot.domain.errors import MootError
from moot.tools.files import confined_paths
from moot.tools.files.ripgrep import Found, Hit
from moot.tools.user_message import SendUserMessage
from tests.daemon_process import CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.escape.test_files_beneath import SECRET, Scene, _exchange, at
from tests.escape.test_files_beneath import scene as scene  # noqa: PLC0414 - a fixture
from tests.scripting import made, say, script

HARMLESS = "harmless"
# The calls in which a tool learns where something is, or changes it.
WATCHED = ("open", "stat", "readlink", "mkdir", "rename", "unlink", "rmdir")
LINE = {"startLine": 1, "endLine": 1, "content": "owned"}


def run_tool(name: str, **rest: Any) -> Callable[[Scene, str], str]:
    def run(scene: Scene, path: str) -> str:
        return str(scene.files.tools[name]._do({"path": path, **rest}, at(scene.cwd)))

    return run


def preview(scene: Scene, path: str) -> str:
    return str(scene.files.tools["fs_edit"]._preview({"path": path, **LINE}, str(scene.cwd)))


def patch(scene: Scene, path: str) -> str:
    changes = [{"path": path, "content": "owned"}, {"path": "beside", "content": "owned"}]
    return str(scene.files.tools["fs_patch"]._do({"changes": changes}, at(scene.cwd)))


def search(scene: Scene, path: str) -> str:
    """What is shown if ripgrep itself was led out and has read the secret."""
    hits = [Hit(path=path, number=1, data=SECRET.encode(), end=len(SECRET))]
    return str(scene.files.tools["fs_search"]._report(Found(hits=hits), str(scene.cwd), ""))


def attach(scene: Scene, path: str) -> str:
    found = SendUserMessage(scene.off_limits)._measure([path], str(scene.cwd))
    # Only path and size are shown.
    return SECRET if any(each.size == len(SECRET) for each in found) else ""


TOOLS: dict[str, Callable[[Scene, str], str]] = {
    "fs_read": run_tool("fs_read"),
    "fs_list": run_tool("fs_list"),
    "fs_stat": run_tool("fs_stat"),
    "fs_write": run_tool("fs_write", content="owned"),
    "fs_edit": run_tool("fs_edit", **LINE),
    "fs_mkdir": run_tool("fs_mkdir"),
    "fs_delete": run_tool("fs_delete"),
    "fs_patch": patch,
    "fs_search": search,
    "preview": preview,
    "attachment": attach,
}


def test_every_file_tool_is_attacked(scene: Scene) -> None:
    # fs_glob only names files, which fs_search does in the same way.
    assert set(scene.files.tools) - {"fs_glob"} == set(TOOLS) - {"preview", "attachment"}


@contextmanager
def swapping_at(scene: Scene, point: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Exchange `d` for `link` just before the call with this number; the list has how many there were."""
    count = [0]
    is_swapped: list[bool] = []

    def watch(real: Callable[..., Any], *, by_name: bool = True) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            # Others work on handles alone, or on files of Moot.
            count[0] += not by_name or (bool(named.keys() & {"dir_fd", "src_dir_fd"}) and arguments[0] != "..")
            if count[0] == point and not is_swapped:
                is_swapped.append(True)
                with suppress(OSError):
                    # It may be gone by now.
                    _exchange(scene.cwd / "d", scene.cwd / "link")
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        for name in WATCHED:
            patched.setattr(os, name, watch(getattr(os, name)))
        # What is on disk does not matter here.
        patched.setattr(os, "fsync", lambda _file: None)
        patched.setattr(confined_paths, "_openat2", watch(confined_paths._openat2, by_name=False))
        yield count


def furnish_folder(scene: Scene, target: Path) -> None:
    (scene.cwd / "d").mkdir()
    (scene.cwd / "d" / "secret").write_text(HARMLESS)
    (scene.cwd / "link").symlink_to(os.path.relpath(target, scene.cwd))


def furnish_file(scene: Scene, target: Path) -> None:
    (scene.cwd / "d").write_text(HARMLESS)
    (scene.cwd / "link").symlink_to(os.path.relpath(target / "secret", scene.cwd))


def clear(scene: Scene) -> None:
    for name in ("d", "link", "beside"):
        path = scene.cwd / name
        if path.is_dir() and not path.is_symlink():
            for entry in path.iterdir():
                entry.rmdir() if entry.is_dir() else entry.unlink()
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("furnish", "path", "is_own"),
    [(furnish_folder, "d/secret", True), (furnish_file, "d", False)],
    ids=["folder to own files", "file to one outside"],
)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_name_that_is_exchanged_at_any_point_of_a_call_leads_nowhere(
    scene: Scene,
    tool: str,
    furnish: Callable[[Scene, Path], None],
    path: str,
    is_own: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = scene.moot / "data" if is_own else scene.outside
    if is_own:
        target.mkdir(parents=True)
        (target / "secret").write_text(SECRET)
    point, is_over = 0, False
    while not is_over:
        point += 1
        furnish(scene, target)
        shown = ""
        with swapping_at(scene, point, monkeypatch) as count:
            # Each conversation must have read what it edits; the swap may come in between.
            if tool in ("fs_edit", "preview"):
                with suppress(MootError):
                    run_tool("fs_read")(scene, path)
            try:
                shown = TOOLS[tool](scene, path)
            except MootError as error:
                shown = str(error)
            is_over = count[0] < point
        assert SECRET not in shown, point
        assert [(entry.name, entry.read_text()) for entry in target.iterdir()] == [("secret", SECRET)], point
        clear(scene)
    assert point > 3


def list_calls(number: int) -> list[dict[str, Any]]:
    """One call of each tool. They differ from step to step, so that they are not taken for a loop."""
    changes = [{"path": "d/secret", "content": HARMLESS}, {"path": "beside", "content": str(number)}]
    return [
        made("fs_read", path="d/secret"),
        made("fs_write", path="d/secret", content=HARMLESS),
        made("fs_edit", path="d/secret", startLine=1, endLine=1, content=HARMLESS),
        made("fs_patch", changes=changes),
        made("fs_search", pattern="the [s]ecret"),
        made("fs_stat", path="d/secret"),
    ]


def test_a_running_daemon_is_led_nowhere_by_names_that_are_exchanged_all_the_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    furnish_folder(scene, scene.outside)
    steps = [{"calls": list_calls(number)} for number in range(6)]
    home = Home(tmp_path / "home")
    config = CONFIG + '[security.interceptor]\npolicy = "none"\n'
    home.furnish(script=script({"match": ".", "steps": [*steps, say("Done.")]}), config=config)
    is_over, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not is_over.is_set():
            _exchange(scene.cwd / "d", scene.cwd / "link")
            swaps += 1

    with daemon_thread(home) as daemon:
        swapper = threading.Thread(target=swap)
        swapper.start()
        try:
            done = daemon.cli("ask", "ada", "go", "--cwd", str(scene.cwd), "--json")
        finally:
            is_over.set()
            swapper.join()
        history = daemon.cli("history", "ada", "--json").stdout
    assert done.returncode == 0, done.stderr
    assert swaps > len(steps)
    assert history.count("fs_read") >= 6
    assert HARMLESS in history
    assert SECRET not in history
    scene.check()
