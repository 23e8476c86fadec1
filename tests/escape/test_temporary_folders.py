"""Folders below /tmp, /var/tmp and /dev/shm: what is given to a command is seen where it is, the rest is private."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from moot.tools.sandbox.view import LENT
from tests.escape.exec_kit import Bench

CANARY = "canary-of-a-temporary-folder"


# Nothing below /dev is a project or part of a search path.
AT_WORK = pytest.mark.parametrize("root", ["/tmp", "/var/tmp"])
EVERYWHERE = pytest.mark.parametrize("root", ["/tmp", "/var/tmp", "/dev/shm"])


@pytest.fixture
def place(root: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=root, prefix="moot-") as folder:
        (Path(folder) / "private").write_text(CANARY)
        yield Path(folder)


@pytest.fixture
def project(place: Path) -> Bench:
    return Bench(place)


@AT_WORK
async def test_a_command_works_in_a_project_there(project: Bench) -> None:
    assert await project.say("echo made > file && pwd && cat file") == f"{project.work}\nmade\n"
    assert (project.work / "file").read_text() == "made\n"
    assert CANARY not in await project.say(f"cat {project.work.parent}/private; grep -r canary /tmp /var/tmp; true")


@AT_WORK
async def test_a_command_works_in_the_folder_of_a_conversation_there(project: Bench) -> None:
    room = project.home / "data" / "workspaces" / "moot"
    room.mkdir(parents=True)
    (project.home / "data" / "moot.db").write_text(CANARY)
    assert await project.say("echo made > file && cat file", cwd=room) == "made\n"
    assert CANARY not in await project.say("cat ../../moot.db; true", cwd=room)


@AT_WORK
async def test_the_programs_of_a_search_path_there_run(place: Path, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    program = place / "bin" / "greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho greeted\n")
    program.chmod(0o755)
    bench.search_path = str(program.parent)
    said = await bench.say(f"greet; cat {place}/private; echo x > {program}")
    assert "greeted" in said
    assert CANARY not in said
    assert program.read_text().endswith("greeted\n")


@EVERYWHERE
async def test_a_readable_folder_there_is_seen(place: Path, tmp_path: Path) -> None:
    (place / "shared").mkdir()
    (place / "shared" / "note").write_text("shared note\n")
    bench = Bench(tmp_path, readable=(str(place / "shared"),))
    said = await bench.say(f"cat {place}/shared/note {place}/private; echo x > {place}/shared/note")
    assert "shared note" in said
    assert CANARY not in said
    assert (place / "shared" / "note").read_text() == "shared note\n"


@EVERYWHERE
async def test_what_a_command_writes_beside_it_stays_its_own(place: Path, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    file = place.parent / f"{place.name}-left"
    assert await bench.say(f"echo own > {file} && cat {file}") == "own\n"
    assert not file.exists()
    assert "No such file" in await bench.say(f"cat {file}")


@AT_WORK
async def test_a_home_reached_by_a_link_there(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    link = project.work.parent / "linked"
    link.symlink_to(project.work.parent)
    monkeypatch.setenv("HOME", str(link / "person"))
    (project.work.parent / "person" / "code").mkdir(parents=True)
    code = link / "person" / "code"
    assert await project.say("echo made > file && pwd", cwd=code) == f"{project.work.parent}/person/code\n"
    assert (code / "file").read_text() == "made\n"
    assert "No such file" in await project.say(f"ls {LENT} {link}", cwd=code)
