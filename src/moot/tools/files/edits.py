"""Edits of a text file: by unique text or by line numbers. Line endings and a byte order mark are kept. Pure."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from moot.domain.errors import BadRequest, Conflict
from moot.tools.files.file_text import split_lines

_MARK = "\ufeff".encode()
_MOST_SHOWN = 5
_MOST_COUNTED = 1_000


class LineEdit(Struct, frozen=True, kw_only=True):
    """Lines start..end, counted from 1, are replaced by the content. One line past the end appends."""

    start: int
    end: int
    content: str

    def apply(self, data: bytes, _path: str) -> bytes:
        mark = _MARK if data.startswith(_MARK) else b""
        lines = split_lines(data.removeprefix(mark))
        total = len(lines)
        if not 1 <= self.start <= total + 1:
            raise BadRequest(f"there is no line {self.start}", fix=f"The file has {total} lines, counted from 1.")
        if self.end < self.start:
            raise BadRequest(
                f"endLine {self.end} comes before startLine {self.start}", fix="Give the last line to replace."
            )
        if self.end > max(total, self.start):
            raise BadRequest(f"there is no line {self.end}", fix=f"The file has {total} lines, counted from 1.")
        before, replaced, after = lines[: self.start - 1], lines[self.start - 1 : self.end], lines[self.end :]
        newline = b"\r\n" if (replaced or before or [b""])[-1].endswith(b"\r\n") else b"\n"
        content = _with_newlines(self.content, newline).removeprefix(mark)
        if before and not before[-1].endswith(b"\n"):
            before[-1] += newline
        if not content.endswith(newline) and (after or not replaced or replaced[-1].endswith(b"\n")):
            content += newline
        return b"".join([mark, *before, content, *after])


class TextEdit(Struct, frozen=True, kw_only=True):
    """A text that occurs exactly once is replaced. Whether lines end with LF or CRLF makes no difference."""

    old: str
    content: str

    def apply(self, data: bytes, path: str) -> bytes:
        text = _LineFeeds(data)
        old = _with_newlines(self.old, b"\n")
        found = text.find_all(old)
        if not found:
            raise Conflict(f"oldText does not occur in {path}", fix=_explain_missing(text.data, old))
        if len(found) > 1:
            raise Conflict(
                f"oldText occurs {_count(found)} times in {path}, at {_name_lines(text.data, found)}",
                fix="Add the lines around the one you mean, so that it occurs once.",
            )
        start, end = text.locate(found[0]), text.locate(found[0] + len(old))
        replaced = data[start:end]
        if start == 0 and replaced.startswith(_MARK):
            start = len(_MARK)
        newline = b"\r\n" if b"\r\n" in (replaced if b"\n" in replaced else data) else b"\n"
        content = _with_newlines(self.content, newline)
        return data[:start] + content.removeprefix(_MARK if start == len(_MARK) else b"") + data[end:]


def read_edit(arguments: Mapping[str, Any]) -> LineEdit | TextEdit:
    """Return the edit that the arguments describe, in one of the two ways."""
    by_text, by_lines = "oldText" in arguments, "startLine" in arguments or "endLine" in arguments
    if by_text == by_lines:
        raise BadRequest(
            "an edit needs oldText and newText, or startLine, endLine and content",
            fix="Give one of the two, not both." if by_text else "Give one of the two.",
        )
    wanted = ("newText",) if by_text else ("startLine", "endLine", "content")
    for name in wanted:
        if name not in arguments:
            raise BadRequest(f"missing {name} parameter", fix="Nothing was changed.")
    if not by_text:
        return LineEdit(start=arguments["startLine"], end=arguments["endLine"], content=arguments["content"])
    if not arguments["oldText"]:
        raise BadRequest("oldText is empty", fix="Give the text that is to be replaced.")
    if arguments["oldText"] == arguments["newText"]:
        raise BadRequest("oldText and newText are the same", fix="Nothing was changed.")
    return TextEdit(old=arguments["oldText"], content=arguments["newText"])


class _LineFeeds:
    """A file's content with every line ending as LF, and where each byte of it is in the file."""

    def __init__(self, data: bytes) -> None:
        self.data = data.replace(b"\r\n", b"\n")
        # The offsets, in `data`, of the line endings that were shortened.
        self._shortened: list[int] = []
        at = data.find(b"\r\n")
        while at >= 0:
            self._shortened.append(at - len(self._shortened))
            at = data.find(b"\r\n", at + 2)

    def locate(self, offset: int) -> int:
        """Return the offset in the file."""
        return offset + bisect_left(self._shortened, offset)

    def find_all(self, text: bytes) -> list[int]:
        """Return where the text begins, overlapping occurrences included."""
        found: list[int] = []
        at = self.data.find(text)
        while at >= 0 and len(found) < _MOST_COUNTED:
            found.append(at)
            at = self.data.find(text, at + 1)
        return found


def _with_newlines(text: str, newline: bytes) -> bytes:
    try:
        return text.encode().replace(b"\r\n", b"\n").replace(b"\n", newline)
    except UnicodeEncodeError:
        raise BadRequest("the text contains half of a character", fix="Send whole Unicode characters.") from None


def _explain_missing(data: bytes, old: bytes) -> str:
    """Say why a text does not occur: most often its whitespace differs, or line numbers were copied with it."""
    wanted = [line.strip() for line in old.strip().split(b"\n")]
    if all(line.partition(b"\t")[0].isdigit() for line in wanted if line):
        return "Leave out the line numbers."
    at = _find_lines([line.strip() for line in data.split(b"\n")], wanted)
    return f"Line {at} differs only in whitespace: copy it exactly." if at else "Read it again and copy it exactly."


def _count(found: Sequence[int]) -> str:
    return str(len(found)) if len(found) < _MOST_COUNTED else f"{_MOST_COUNTED} or more"


def _name_lines(data: bytes, found: Sequence[int]) -> str:
    numbers = [str(data.count(b"\n", 0, at) + 1) for at in found[:_MOST_SHOWN]]
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return f"lines {', '.join(numbers)}{more}"


def _find_lines(lines: Sequence[bytes], wanted: Sequence[bytes]) -> int:
    """Return the number of the first of consecutive lines, counted from 1; 0 if they do not occur. In linear time."""
    whole = b"\n".join([b"", *lines, b""])
    at = whole.find(b"\n".join([b"", *wanted, b""]))
    return whole.count(b"\n", 0, at) + 1 if at >= 0 else 0
