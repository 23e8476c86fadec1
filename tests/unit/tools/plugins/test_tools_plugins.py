"""Plugins: files of the tools folder and entry points; what is broken is told and stops nothing."""

import asyncio
import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from moot.domain.conversation import ConversationKey
from moot.domain.ports.tool import RunContext
from moot.tools.plugins import loader
from moot.tools.plugins.loader import Plugins

GOOD = '''
from moot.tools import Safety, tool

@tool(safety=Safety.SAFE)
def {name}(text: str) -> str:
    """Say {word}."""
    return "{word}: " + text
'''


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "tools"
    path.mkdir(mode=0o700)
    known = set(sys.modules)
    yield path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(folder: Path, file: str, text: str) -> Path:
    path = folder / file
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def good(name: str, word: str = "word") -> str:
    return GOOD.format(name=name, word=word)


def load(folder: Path, *taken: str) -> Plugins:
    return Plugins(folder, taken=taken, points=list)


def names(loaded: Plugins) -> list[str]:
    return [tool.spec.name for tool in loaded.tools]


def flaws(loaded: Plugins) -> list[str]:
    return [str(flaw) for flaw in loaded.flaws]


def say(loaded: Plugins, name: str, text: str) -> object:
    async def nobody(_: object) -> str:
        raise AssertionError("nobody is asked here")

    context = RunContext(
        run_id="r", key=ConversationKey("ada", "user"), speaker="ada", cwd="/", emit=lambda _: None, ask=nobody
    )
    found = next(tool for tool in loaded.tools if tool.spec.name == name)
    return asyncio.run(found({"text": text}, context))


def test_every_file_of_the_folder_gives_its_tools(folder: Path) -> None:
    write(folder, "b.py", good("two") + good("three"))
    write(folder, "a.py", good("one"))
    write(folder, "_shared.py", "raise SystemExit")
    write(folder, "notes.txt", "not python")

    loaded = load(folder)

    assert names(loaded) == ["one", "two", "three"]
    assert flaws(loaded) == []
    assert say(loaded, "one", "x") == "word: x"


def test_types_written_as_text_are_understood(folder: Path) -> None:
    text = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Optional
from moot.tools import RunContext, tool

@dataclass
class Inner:
    word: str

@dataclass
class Outer:
    inner: Inner

@tool
def nested(text: str, outer: Outer | None = None, context: Optional[RunContext] = None) -> str:
    'Say.'
    return f"{text} {outer.inner.word if outer else ''} {context.speaker}"
"""
    write(folder, "a.py", text)

    loaded = load(folder)

    assert flaws(loaded) == []
    inner = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    assert loaded.tools[0].spec.parameters["properties"] == {
        "text": {"type": "string"},
        "outer": {"type": "object", "properties": {"inner": inner}, "required": ["inner"]},
    }
    assert say(loaded, "nested", "x") == "x  ada"


def test_no_folder_is_no_tools(tmp_path: Path) -> None:
    assert names(load(tmp_path / "tools")) == []


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x = 1\ndef broken(:\n", 2, "it is not valid Python: invalid syntax"),
        ("import json\n\njson.loads('{')\n", 3, "it failed while loading: JSONDecodeError"),
        ("import nothing_of_this_name\n", 1, "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import sys\nsys.exit(3)\n", 2, "it failed while loading: SystemExit: 3"),
        ("x = 1\n", 1, "there is no function marked with @tool in it"),
        ("from moot.tools import tool\n\n@tool\ndef f(x: str): ...\n", 4, "f: it has no docstring"),
        ("from moot.tools import tool\n\n@tool\ndef f(\n  a: str,\n  b,\n):\n  'Do.'\n", 6, "f: 'b' has no type"),
        ("x = '\0'\n", 1, "null bytes"),
        ("# coding: utf-8\nx = '\udcff'\n", 1, ""),
    ],
)
def test_a_broken_file_is_told_with_its_line_and_the_others_load(
    folder: Path, text: str, line: int, reason: str
) -> None:
    path = folder / "a.py"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    write(folder, "b.py", good("fine"))

    loaded = load(folder)

    assert names(loaded) == ["fine"]
    assert len(loaded.flaws) == 1
    flaw = loaded.flaws[0]
    assert flaw.path == str(path)
    assert reason in flaw.reason
    assert not reason or flaw.line == line


def test_a_file_that_never_finishes_loading_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "LOAD_SECONDS", 0.2)
    write(folder, "a.py", "import threading\nthreading.Event().wait()\n")
    write(folder, "b.py", good("fine"))

    loaded = load(folder)

    assert names(loaded) == ["fine"]
    assert "took longer than 0.2 seconds" in loaded.flaws[0].reason


def test_what_a_file_prints_while_loading_stays_out_of_the_answer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "a.py", "print('hello from a plugin')\n" + good("fine"))

    load(folder)

    seen = capsys.readouterr()
    assert seen.out == ""
    assert "hello from a plugin" in seen.err


def test_names_are_taken_once_and_never_from_a_built_in_tool(folder: Path) -> None:
    write(folder, "a.py", good("fs_read") + good("mine"))
    second = write(folder, "b.py", good("mine") + good("mcp__x__y") + good("skill_x"))

    loaded = load(folder, "fs_read")

    assert names(loaded) == ["mine"]
    reasons = [flaw.reason for flaw in loaded.flaws]
    assert reasons[0] == "the name 'fs_read' belongs to a built-in tool; choose another"
    assert reasons[1].startswith("there is already a tool 'mine', at ")
    assert reasons[2].startswith("names that begin with mcp__ or skill_ are reserved for Moot")
    assert len(reasons) == 4
    assert (loaded.flaws[1].path, loaded.flaws[1].line) == (str(second), 5)


def test_a_file_that_anybody_could_write_is_not_run(folder: Path, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    write(folder, "a.py", f"open({str(proof)!r}, 'w')\n" + good("fine")).chmod(0o602)

    loaded = load(folder)

    assert names(loaded) == []
    assert "anybody on this machine could change it" in loaded.flaws[0].reason
    assert not proof.exists()


def test_nothing_is_run_from_a_folder_that_anybody_could_write(folder: Path) -> None:
    write(folder, "a.py", good("fine"))
    folder.chmod(0o777)

    loaded = load(folder)

    assert names(loaded) == []
    assert flaws(loaded)[0].startswith(f"{folder}:1: nothing in it is used: anybody on this machine")


def test_a_file_of_somebody_else_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "a.py", good("fine"))
    owner = os.geteuid()
    # Seen from another user's daemon, the same file is a stranger's.
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        os.chown(folder / "a.py", 4321, -1)

    loaded = load(folder)

    assert names(loaded) == []
    assert "not to you" in loaded.flaws[0].reason


def test_links_out_of_the_folder_and_pipes_are_not_run(folder: Path, tmp_path: Path) -> None:
    outside = write(tmp_path, "outside.py", good("outside"))
    (folder / "link.py").symlink_to(outside)
    (folder / "gone.py").symlink_to(folder / "nowhere.py")
    os.mkfifo(folder / "pipe.py")

    loaded = load(folder)

    assert names(loaded) == []
    assert [flaw.reason.split(";")[0].split(":")[0] for flaw in loaded.flaws] == [
        "it cannot be read",
        f"it is a link that leads out of {folder}",
        "it is not a regular file",
    ]


def test_reloading_takes_what_changed_and_leaves_alone_what_did_not(folder: Path) -> None:
    count = "from moot.tools import tool\nn = 0\n@tool\ndef count(text: str) -> str:\n"
    count += "    'Count.'\n    global n\n    n += 1\n    return str(n)\n"
    write(folder, "count.py", count)
    write(folder, "word.py", good("word", "old"))
    loaded = load(folder)
    assert say(loaded, "count", "") == "1"

    write(folder, "word.py", good("word", "new"))
    write(folder, "more.py", good("more"))
    loaded.reload()

    assert names(loaded) == ["count", "more", "word"]
    assert say(loaded, "count", "") == "2"
    assert say(loaded, "word", "x") == "new: x"


def test_a_file_that_breaks_keeps_its_last_good_version_until_it_is_gone(folder: Path) -> None:
    path = write(folder, "word.py", good("word", "old"))
    loaded = load(folder)

    write(folder, "word.py", "def (")
    loaded.reload()
    assert say(loaded, "word", "x") == "old: x"
    assert flaws(loaded)[0].startswith(f"{path}:1: it is not valid Python")

    write(folder, "word.py", good("word", "mended"))
    loaded.reload()
    assert (say(loaded, "word", "x"), flaws(loaded)) == ("mended: x", [])

    path.unlink()
    loaded.reload()
    assert names(loaded) == []


# ---- entry points ----


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "site"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    return root


def points(*values: str) -> list[EntryPoint]:
    return [EntryPoint(name=f"p{at}", value=value, group=loader.GROUP) for at, value in enumerate(values)]


def test_an_entry_point_gives_one_function_or_all_of_a_module(folder: Path, package: Path) -> None:
    write(package, "acme_whole.py", good("alpha") + good("beta"))
    write(package, "acme_one.py", good("gamma") + good("delta"))
    write(folder, "a.py", good("alpha"))

    loaded = Plugins(folder, taken=(), points=lambda: points("acme_whole", "acme_one:gamma"))

    assert names(loaded) == ["alpha", "beta", "gamma"]
    assert loaded.flaws[0].path == str(folder / "a.py")


def test_a_broken_entry_point_is_told_where_it_broke_and_tried_again(folder: Path, package: Path) -> None:
    broken = write(package, "acme_broken.py", "x = 1\nraise ValueError('not today')\n")
    write(package, "acme_empty.py", "x = 1\n")
    values = ("acme_broken", "acme_missing:tool", "acme_empty:x")

    loaded = Plugins(folder, taken=(), points=lambda: points(*values))

    assert names(loaded) == []
    assert flaws(loaded) == [
        f"{broken}:2: it failed while loading: ValueError: not today",
        "p1 = acme_missing:tool:1: it failed while loading: ModuleNotFoundError: No module named 'acme_missing'",
        "p2 = acme_empty:x:1: there is no function marked with @tool in it",
    ]
    write(package, "acme_broken.py", good("mended"))
    loaded.reload()
    assert names(loaded) == ["mended"]


def test_the_installed_packages_are_asked_for_entry_points(folder: Path, package: Path) -> None:
    write(package, "acme_installed.py", good("installed"))
    info = package / "acme-1.0.dist-info"
    info.mkdir()
    write(info, "METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    write(info, "entry_points.txt", f"[{loader.GROUP}]\nacme = acme_installed\n")

    assert "installed" in names(Plugins(folder, taken=()))
