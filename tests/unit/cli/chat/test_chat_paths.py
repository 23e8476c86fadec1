"""`@path` in a chat: what is completed, and what the agent receives."""

import asyncio
import os
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from moot.cli.chat.completion import ChatCompleter
from moot.cli.chat.file_index import FileIndex, find_paths
from moot.cli.chat.outgoing import parse_outgoing

AGENTS = {"bob": "a guest", "README.md": "an agent with an odd name"}
PATHS = {"src/main.py", "notes.txt", "my notes.txt", "bob", "README.md", "src"}


def folder(path: Path) -> Path:
    for name in ("src/main.py", "src/Matrix.py", "build/out.py", "notes/my notes.txt", "main.md", "src/odd\nname.py"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).touch()
    (path / ".gitignore").write_text("build/\n")
    return path


async def complete(index: FileIndex, typed: str) -> list[str]:
    completer = ChatCompleter({}, lambda: AGENTS, index)
    found = completer.get_completions_async(Document(typed), CompleteEvent())
    return [typed[: len(typed) + each.start_position] + each.text async for each in found]


async def test_paths_are_completed_anywhere_and_ignored_files_are_not(tmp_path: Path) -> None:
    index = FileIndex(lambda: str(folder(tmp_path)))

    assert await complete(index, "see @ma") == ["see @main.md ", "see @src/main.py ", "see @src/Matrix.py "]
    assert await complete(index, "see @src/m") == ["see @src/main.py ", "see @src/Matrix.py "]
    assert await complete(index, "@notes") == ["@notes/", '@"notes/my notes.txt" ']
    assert await complete(index, 'read @"notes/m') == ['read @"notes/my notes.txt" ']
    assert await complete(index, "see @out") == []
    # A name that fits goes first, and what is no mention is left alone.
    assert await complete(index, "@b") == ["@bob "]
    assert await complete(index, "me@ma") == []
    assert await complete(FileIndex(lambda: ""), "see @ma") == []
    assert await complete(FileIndex(lambda: str(tmp_path / "nowhere")), "see @ma") == []


async def test_many_files_leave_the_loop_free(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / str(number)).mkdir()
    for number in range(3_000):
        os.close(os.open(tmp_path / str(number % 50) / f"file{number}.txt", os.O_CREAT))
    index = FileIndex(lambda: str(tmp_path))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    assert (await index.find("file29"))[0] == "29/file29.txt"
    counting.cancel()
    # Whoever types was served all the time: the listing and the search are elsewhere.
    assert turns > 20


def test_the_best_fit_is_first_and_there_are_few() -> None:
    paths = [(path, path) for path in ["b/a", "a", "ba", "a/", "a/b", *(f"x/a{number}" for number in range(99))]]
    assert find_paths(paths, "a")[:4] == ["a", "a/", "a/b", "b/a"]
    assert len(find_paths(paths, "a")) == 50


@pytest.mark.parametrize(
    ("typed", "guest", "content"),
    [
        ("see @src/main.py, please", "", "see src/main.py, please"),
        ("see @src/main.py", "", "see src/main.py"),
        ('read @"my notes.txt" now', "", 'read "my notes.txt" now'),
        ("ask @nobody about it", "", "ask @nobody about it"),
        ("mail me@notes.txt", "", "mail me@notes.txt"),
        ("@notes.txt what is in it?", "", "notes.txt what is in it?"),
        # An agent goes before a file of the same name, and a name that is neither is a guest, which does not exist.
        ("@bob look at @notes.txt", "bob", "look at notes.txt"),
        ("@README.md hello", "README.md", "hello"),
        ("@stranger hello", "stranger", "hello"),
    ],
)
def test_a_path_stands_for_itself(typed: str, guest: str, content: str) -> None:
    outgoing = parse_outgoing(typed, primary="ada", agents=AGENTS, is_path=PATHS.__contains__)
    assert (outgoing.typed, outgoing.guest, outgoing.content) == (typed, guest, content)
