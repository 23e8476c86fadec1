"""Moot's own files are hidden by what they are, not by their names: bind mounts and hard links do not show them."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from moot.tools.files import mount_table
from moot.tools.files.mount_table import Mounted, Region
from tests.escape.exec_kit import Bench
from tests.escape.test_exec_escape import furnish

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="the sandbox is made of Linux namespaces")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    furnish(made)
    (made.home / "agents").mkdir()
    return made


def test_what_is_mounted_a_second_time_is_not_seen_either(tmp_path: Path) -> None:
    """Mounts are made in a namespace of their own: the attempts are those of mounted_files.py."""
    words = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*words, "true"], capture_output=True, timeout=30, check=False).returncode != 0:
        pytest.skip("mounts can be made by root only")
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}"]
    done = subprocess.run(
        [*words, *command, str(Path(__file__).with_name("mounted_files.py"))],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


async def test_a_hard_link_of_moots_own_file_is_not_seen(bench: Bench) -> None:
    (bench.work / "sub").mkdir()
    os.link(bench.home / "data" / "moot.db", bench.work / "sub" / "copy")
    os.link(bench.home / "config.toml", bench.work / "settings")
    (bench.work / "other").write_text("seen")
    os.link(bench.work / "other", bench.work / "same")
    said = await bench.say(
        "cat sub/copy settings; grep -rs canary .; echo evil > settings; mv settings x; rm sub/copy; cat same"
    )
    assert "canary" not in said
    assert said.endswith("seen")
    assert (bench.home / "config.toml").read_text() == "canary-of-the-config"
    assert (bench.work / "settings").exists()


async def test_a_package_that_shares_files_with_the_program_is_not_written(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv fills virtual environments with links to one cache, so a project's may have the same files as Moot's own."""
    monkeypatch.setattr("moot.tools.sandbox.view.own_code_folders", lambda: [str(tmp_path / "program")])
    cached, own = tmp_path / "program" / "lib" / "click", bench.work / ".venv" / "lib" / "site-packages"
    cached.mkdir(parents=True)
    (own / "click").mkdir(parents=True)
    (own / "other").mkdir()
    for name in ("click/core.py", "six.py"):
        (cached.parent / name).write_text("as it was\n")
        (own / name).hardlink_to(cached.parent / name)
    (bench.work / "here.py").hardlink_to(cached / "core.py")
    said = await bench.say(
        "echo changed >> here.py; cd .venv/lib/site-packages; "
        "for file in click/core.py six.py other/own.py new.py; do echo changed >> $file; done; "
        "cat click/core.py six.py other/own.py new.py; mv click other-click"
    )
    assert "as it was\nas it was\nchanged\nchanged\n" in said
    assert "Read-only file system" in said
    assert [path.read_text() for path in (cached / "core.py", cached.parent / "six.py")] == ["as it was\n"] * 2
    assert (own / "click").is_dir()


async def test_files_of_a_workspace_do_not_keep_hard_links_from_being_found(bench: Bench) -> None:
    room = bench.home / "data" / "workspaces" / "one"
    for number in range(2_100):
        (room / str(number)).touch()
    (bench.home / "data" / "zz").mkdir()
    (bench.home / "data" / "zz" / "key").write_text("canary-of-the-key")
    os.link(bench.home / "data" / "zz" / "key", bench.work / "copy")
    assert "canary" not in await bench.say("cat copy")


async def test_moots_own_folder_is_not_lent_even_where_it_is_listed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    furnish(bench)
    bench.settings["readable"] = (str(bench.home / "data"), str(bench.home))
    said = await bench.say(f"cat {bench.home}/data/moot.db {bench.home}/config.toml; ls {bench.home}/data")
    assert "canary" not in said


def test_a_region_is_found_in_a_mount_that_shows_it_what_is_above_it_or_a_part_of_it() -> None:
    region = Region("8:1", "/home/u/moot")
    assert region.find_mount_point(Mounted(1, "/", "8:1", "/")) == "/home/u/moot"
    assert region.find_mount_point(Mounted(2, "/x", "8:1", "/home/u")) == "/x/moot"
    assert region.find_mount_point(Mounted(3, "/y", "8:1", "/home/u/moot")) == "/y"
    assert region.find_mount_point(Mounted(4, "/z", "8:1", "/home/u/moot/data")) == "/z"
    assert region.find_mount_point(Mounted(5, "/a", "8:1", "/home/u/moot2")) == ""
    assert region.find_mount_point(Mounted(6, "/b", "8:2", "/")) == ""
    mounts = [Mounted(1, "/", "8:1", "/@home"), Mounted(7, "/own/moot/data", "9:1", "/part")]
    assert Region("9:1", "/part") in mount_table.find_regions(["/own/moot"], mounts)
    assert Region("9:1", "/part") not in mount_table.find_regions(["/own/moot"], mounts, spared="/own/moot/data")
