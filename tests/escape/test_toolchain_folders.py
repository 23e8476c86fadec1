"""The user's toolchain in the sandbox: its programs run, and nothing becomes readable but programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moot.domain.config import SandboxConfig
from moot.tools.sandbox.toolchain import find_toolchain, list_search_path
from tests.escape.exec_kit import Bench

CANARY = "canary-of-the-toolchain"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a programmer, with documents and keys beside the programs."""
    folder = tmp_path / "people" / "me"
    secrets = (
        ".cargo/credentials.toml", ".cargo/config.toml", ".npmrc", ".netrc", ".pypirc", ".ssh/id_rsa", "papers/bin/tax",
        ".local/share/app/data", ".local/bin/.netrc", ".nvm/versions/node/v22/etc/npmrc", "tools/app/pip.conf",
        "tools/app/.env", ".config/app/token",
    )  # fmt: skip
    for name in secrets:
        put(folder / name, CANARY)
    put(folder / ".cargo/bin/cargo", "#!/bin/sh\necho cargo of $RUSTUP_HOME\n")
    put(folder / ".rustup/settings.toml", "version = 1")
    put(folder / ".nvm/versions/node/v22/bin/node", "#!/bin/sh\necho node\n")
    (folder / ".nvm/versions/node/v22/lib/node_modules").mkdir(parents=True)
    put(folder / ".local/share/uv/tools/lint/bin/lint", "#!/bin/sh\necho lint\n")
    put(folder / ".local/share/uv/tools/lint/pyvenv.cfg", "")
    (folder / ".local/bin/lint").symlink_to(folder / ".local/share/uv/tools/lint/bin/lint")
    (folder / ".local/bin/tax").symlink_to(folder / "papers/bin/tax")
    put(folder / ".pyenv/versions/3.11.9/bin/python3.11", "#!/bin/sh\necho python of pyenv\n")
    put(folder / ".pyenv/versions/3.11.9/lib/python3.11/os.py", "")
    (folder / ".pyenv/versions/3.11").symlink_to("3.11.9")
    put(folder / "tools/app/pyvenv.cfg", "home = /anywhere")
    put(folder / "tools/app/bin/serve", "#!/bin/sh\necho serve of $VIRTUAL_ENV\n")
    (folder / "tools/app/bin/python").symlink_to(folder / ".pyenv/versions/3.11/bin/python3.11")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def path_of(person: Path, *names: str) -> str:
    return ":".join(str(person / name) for name in names)


PROGRAMS = (".cargo/bin", ".nvm/versions/node/v22/bin", ".local/bin", "tools/app/bin")


async def test_the_programs_of_the_user_run_and_cannot_be_changed(tmp_path: Path, person: Path) -> None:
    bench = Bench(tmp_path)
    bench.search_path = path_of(person, *PROGRAMS)
    said = await bench.say(f"cargo; node; lint; serve; python; echo x > {person}/tools/app/bin/serve")
    assert said.splitlines()[1:7] == [
        "Output:",
        f"cargo of {person}/.rustup",
        "node",
        "lint",
        f"serve of {person}/tools/app",
        "python of pyenv",
    ]
    assert "Read-only file system" in said or "Permission denied" in said
    bench.search_path = ""
    assert "not found" in await bench.say("cargo")


async def test_nothing_but_programs_becomes_readable(tmp_path: Path, person: Path) -> None:
    bench = Bench(tmp_path)
    bench.home.mkdir()
    put(bench.home / "data/bin/moot.db", CANARY)
    odd = (
        str(bench.home / "data/bin"),
        str(person),
        "/",
        "/tmp",
        "/proc/self",
        f"{person}/.ssh",
        f"{person}/.config",
        ".",
    )
    bench.search_path = ":".join((path_of(person, *PROGRAMS), *odd))
    found = await bench.say(f"cat {bench.home}/data/bin/moot.db; grep -rl {CANARY} {person} 2>/dev/null; true")
    assert "canary" not in found.replace("No such file", "")
    assert str(person) not in found
    listed = await bench.say(f"ls -A {person} {person}/.local {person}/.local/share {person}/.cargo {person}/tools")
    assert (
        set(listed.split()) & {"papers", ".ssh", ".config", "credentials.toml", "config.toml", ".npmrc", "data"}
        == set()
    )


async def test_what_an_agent_writes_makes_nothing_readable(tmp_path: Path, person: Path) -> None:
    bench = Bench(tmp_path)
    put(bench.work / ".venv/pyvenv.cfg", "home = /anywhere")
    put(bench.work / ".venv/bin/own", "#!/bin/sh\necho own\n")
    put(person / "papers/lib/python3.11/letter", CANARY)
    (bench.work / ".venv/bin/python").symlink_to(person / ".pyenv/versions/3.11/bin/python3.11")
    bench.search_path = path_of(bench.work, ".venv/bin", "moved/bin", "gone")
    assert (await bench.say("own; python")).splitlines() == ["own", "python of pyenv"]
    # A virtual environment can be changed where one works.
    assert await bench.say("echo more > .venv/bin/new && cat .venv/bin/new") == "more\n"
    papers = person / "papers"
    await bench.say(
        f"ln -sf {papers}/bin/tax .venv/bin/tax; ln -sf {papers}/bin/tax .venv/bin/python3; ln -s {papers} moved"
    )
    await bench.say(f"ln -s {papers}/bin gone; rm .venv/pyvenv.cfg; ln -s {papers}/bin/tax .venv/pyvenv.cfg")
    for place in (bench.work, tmp_path / "elsewhere"):
        place.mkdir(exist_ok=True)
        assert "canary" not in await bench.say(
            f"cat {papers}/bin/tax {papers}/lib/python3.11/letter {bench.work}/gone/*", cwd=place
        )


def test_what_is_readable_is_listed_and_can_be_turned_off(tmp_path: Path, person: Path) -> None:
    toolchain = find_toolchain(path_of(person, *PROGRAMS), cwd=str(tmp_path / "work"), own=[])
    readable = [os.path.relpath(folder, person) for folder in toolchain.readable]
    assert sorted(readable) == [
        ".cargo/bin",
        ".local/bin",
        ".local/share/uv/tools/lint",
        ".nvm/versions/node/v22",
        ".pyenv/versions/3.11.9",
        ".rustup",
        "tools/app",
    ]
    hidden = {os.path.relpath(path, person) for path in toolchain.hidden}
    assert hidden == {".local/bin/.netrc", ".nvm/versions/node/v22/etc/npmrc", "tools/app/pip.conf", "tools/app/.env"}
    off = SandboxConfig(toolchain=False, search_path=("~/.cargo/bin",))
    assert list_search_path(off, path_of(person, *PROGRAMS)) == f"{person}/.cargo/bin"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    place = tmp_path / "venvs" / "app"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (packages,) = place.glob("lib/python3.*/site-packages")
    (packages / "greeting.py").write_text("WORDS = 'from the environment'\n")
    return place


async def test_a_virtual_environment_outside_of_the_working_directory_works(tmp_path: Path, environment: Path) -> None:
    bench = Bench(tmp_path)
    bench.search_path = str(environment / "bin")
    said = await bench.say("python -c 'import greeting, json, sys; print(greeting.WORDS, sys.prefix)'")
    assert said == f"from the environment {environment}\n"
