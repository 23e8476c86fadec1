"""An edit changes the one place that is meant, keeps every other byte, and only a file that was read."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from moot.daemon.clock import SystemClock
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, Conflict, MootError
from moot.domain.ports.tool import RunContext
from moot.tools.files import file_tools
from moot.tools.files.edits import LineEdit, TextEdit, read_edit
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.read_files import ReadFiles
from tests.change_logs import make_log
from tests.unit.tools.files.test_files import FileTools, context


def edited(data: bytes, old: str, new: str) -> bytes:
    return TextEdit(old=old, content=new).apply(data, "f")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\nb\nc\n", "b", "B", b"a\nB\nc\n"),
        (b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
        (b"a\nb", "b", "b\nc", b"a\nb\nc"),
        # CRLF stays, whichever line endings were sent.
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb\r\n", "z\r\n", b"z\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb\nc\nd\r\n", "b\nc", "b\nx\nc", b"a\r\nb\nx\nc\nd\r\n"),
        (b"a\r\nb\r\n", "\nb", "\nc", b"a\r\nc\r\n"),
        # A byte order mark stays, sent along or not.
        (b"\xef\xbb\xbfa\nb\n", "a", "x", b"\xef\xbb\xbfx\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", "\ufeffa", "x", b"\xef\xbb\xbfx\nb\n"),
        (b"\xef\xbb\xbfa\nb\n", "\ufeffa", "\ufeffx", b"\xef\xbb\xbfx\nb\n"),
        # Bytes that are not UTF-8 are left alone.
        (b"\xff\xfe one\ntwo\n", "two", "2", b"\xff\xfe one\n2\n"),
        ("zwölf ß\n".encode(), "ß", "ss", "zwölf ss\n".encode()),
    ],
)
def test_everything_but_the_text_stays_byte_for_byte(before: bytes, old: str, new: str, after: bytes) -> None:
    assert edited(before, old, new) == after


@pytest.mark.parametrize(
    ("data", "old", "told"),
    [
        (b"x\ny\nx\nx\n", "x", "oldText occurs 3 times in f, at lines 1, 3, 4. Add"),
        (b"aaa", "aa", "oldText occurs 2 times in f, at lines 1, 1"),
        (b"z\n" * 2000, "z", "occurs 1000 or more times in f, at lines 1, 2, 3, 4, 5 and 995 more"),
        (b"if a:\n\treturn\n", "if a:\n    return\n", "Line 1 differs only in whitespace"),
        (b"one\ntwo\n", "     1\tone\n     2\ttwo", "Leave out the line numbers"),
        (b"one\ntwo\n", "three", "oldText does not occur in f. Read it again"),
        (b"", "x", "does not occur"),
    ],
)
def test_where_it_cannot_be_meant_the_error_says_why(data: bytes, old: str, told: str) -> None:
    with pytest.raises(Conflict) as error:
        edited(data, old, "new")
    assert told in error.value.sentence


@given(
    st.lists(st.sampled_from([b"alpha", b"", b" beta", b"\xff"]), max_size=6),
    st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=6, max_size=6),
    st.sampled_from(["one", "one\ntwo", "", "\n", "one\r\ntwo\r\n"]),
)
def test_what_is_around_the_place_is_never_touched(lines: list[bytes], ends: list[bytes], new: str) -> None:
    before = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    data = before + b"THIS\r\nPLACE" + before
    after = edited(data, "THIS\nPLACE", new)
    assert after.startswith(before)
    assert after.endswith(before)
    assert after[len(before) : len(after) - len(before)].replace(b"\r\n", b"\n") == new.replace("\r\n", "\n").encode()


def test_an_edit_by_lines_keeps_a_byte_order_mark() -> None:
    data = b"\xef\xbb\xbfa\nb\n"
    assert LineEdit(start=1, end=1, content="x").apply(data, "f") == b"\xef\xbb\xbfx\nb\n"
    assert LineEdit(start=2, end=2, content="x").apply(data, "f") == b"\xef\xbb\xbfa\nx\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"content": "x"},
        {"oldText": "a"},
        {"newText": "a"},
        {"oldText": "a", "newText": "b", "startLine": 1},
        {"oldText": "a", "newText": "a"},
        {"oldText": "", "newText": "a"},
        {"startLine": 1, "content": "x"},
        {"startLine": 1, "endLine": 1},
    ],
)
def test_an_edit_is_described_in_one_way(arguments: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        read_edit(arguments)


async def test_only_what_was_read_as_it_is_can_be_edited(tmp_path: Path) -> None:
    files = FileTools(tmp_path)
    (tmp_path / "f").write_text("one\n" + "two\n" * 600)
    change = {"path": "f", "oldText": "one", "newText": "1"}
    for _ in range(2):
        with pytest.raises(Conflict, match="has not been read"):
            await files("fs_edit", **change)
        with pytest.raises(Conflict, match="has not been read"):
            await files.tools["fs_edit"].check(change, context(tmp_path))
        # Only reading counts.
        await files("fs_stat", path="f")
        await files("fs_search", pattern="one")
    await files("fs_read", path="./f", limit=1)
    (tmp_path / "f").write_text("one\nTWO\n")
    with pytest.raises(Conflict, match="changed since it was read"):
        await files("fs_edit", **change)
    # A short file is part of the error, so that it is read by then.
    (tmp_path / "link").symlink_to("f")
    await files("fs_edit", **(change | {"path": "link"}))
    # What it wrote itself it knows.
    await files("fs_edit", path="f", startLine=2, endLine=2, content="2")
    assert (tmp_path / "f").read_text() == "1\n2\n"
    await files("fs_write", path="g", content="a\n")
    await files("fs_edit", path="g", oldText="a", newText="b")


async def test_an_error_contains_the_file_only_if_it_could_be_read_without_asking(tmp_path: Path) -> None:
    is_free = True
    made = file_tools.tools(
        off_limits=OffLimits(), log=make_log(tmp_path / "log"), reads_freely=lambda: is_free, clock=SystemClock()
    )
    edit: Any = next(tool for tool in made if tool.spec.name == "fs_edit")
    (tmp_path / "f").write_text("one\n")
    change = {"path": "f", "oldText": "one", "newText": "1"}
    reader = context(tmp_path)

    async def error(run: RunContext) -> str:
        with pytest.raises(Conflict) as raised:
            await edit.check(change, run)
        return raised.value.fix

    # A teammate that was not given fs_read would have to be granted it.
    assert "one" not in await error(replace(reader, offered=()))
    is_free = False
    assert "one" not in await error(reader)
    is_free = True
    # Nothing of that counted as a read.
    assert "It contains:\none\n" in await error(reader)


async def test_who_reads_and_who_forgets(tmp_path: Path) -> None:
    reads = ReadFiles()
    made = file_tools.tools(off_limits=OffLimits(), reads=reads, log=make_log(tmp_path / "log"), clock=SystemClock())
    tools: dict[str, Any] = {tool.spec.name: tool for tool in made}
    (tmp_path / "f").write_text("one\n")
    parent = context(tmp_path)
    teammate = replace(parent, key=ConversationKey("operator", "run:1"), run_id="run-1")
    change = {"path": "f", "oldText": "one", "newText": "1"}

    async def may(run: Any) -> bool:
        try:
            await tools["fs_edit"].check(change, run)
        except MootError:
            return False
        return True

    await tools["fs_read"]({"path": "f"}, teammate)
    assert (await may(parent), await may(teammate)) == (False, True)
    # What was granted has been seen by the owner, whatever has been forgotten since.
    bound = await tools["fs_edit"].bind(change, parent)
    assert "now has" in await tools["fs_edit"](change, replace(parent, agreed=bound, granted=True))
    (tmp_path / "f").write_text("one\n")
    # The turn in which a compaction happens keeps its messages.
    reads.forget(teammate.key, but_of="run-1")
    assert await may(teammate)
    reads.forget(teammate.key, but_of="run-2")
    assert not await may(teammate)


def test_a_missing_text_of_many_equal_lines_is_looked_for_in_linear_time() -> None:
    """Comparing at every line would take hours: a million lines, each the beginning of ten thousand equal ones."""
    with pytest.raises(Conflict) as caught:
        TextEdit(old="a\n" * 10_000 + "b", content="c").apply(b"a\n" * 1_000_000, "many.txt")
    assert "Read it again" in caught.value.fix
    with pytest.raises(Conflict) as caught:
        TextEdit(old="a\n" * 10_000 + "b", content="c").apply(b"a\n" * 50_000 + b" b\n", "many.txt")
    assert "Line 40001 differs only in whitespace" in caught.value.fix
