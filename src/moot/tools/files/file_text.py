"""Text operations on file contents: detect binary data, number lines, edit by line, diff. Pure."""

import difflib
import re
from collections.abc import Callable

from msgspec import Struct

from moot.domain.errors import BadRequest, Conflict, TooLarge
from moot.domain.visible import NOT_SHOWN, one_row

_SNIFFED = 8192
# Beyond this, comparing two texts line by line takes longer than a person will wait for an approval.
_MOST_COMPARED_LINES = 4_000
_MOST_COMPARED_BYTES = 400_000
_CONTEXT = 3
# Large enough to show everything that would be written to whoever approves the change.
# The mark that replaces a secret in displayed text.
SECRET_SHOWN = "[SECRET:"
_MARK = re.compile(rf"{re.escape(SECRET_SHOWN)}[^\]\n]{{1,100}}\]")


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:_SNIFFED]


def decode_text(data: bytes) -> str:
    r"""Decode as UTF-8; invalid bytes become \xNN."""
    return data.decode("utf-8", "backslashreplace")


def split_lines(data: bytes) -> list[bytes]:
    """Split into lines with their line ends. A last line without one counts."""
    lines = data.split(b"\n")
    last = lines.pop()
    whole = [line + b"\n" for line in lines]
    return [*whole, last] if last else whole


def count_lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def number_lines(lines: list[bytes], first: int) -> list[bytes]:
    return [b"%6d\t%s" % (number, line) for number, line in enumerate(lines, first)]


def encode_content(content: str, most: int) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise BadRequest("the content has an incomplete character", fix="Send valid Unicode.") from None
    if len(data) > most:
        raise TooLarge(f"the content has {len(data)} bytes; at most {most} are written", fix="Write it in parts.")
    return data


def check_marks(path: str, before: bytes, content: str, redact: Callable[[str], str]) -> None:
    """Refuse content that contains a redaction mark: it would overwrite the secret it stands for."""
    marks = set(_MARK.findall(content))
    if not marks:
        return
    held = decode_text(before)
    shown = redact(held)
    if lost := sorted(mark for mark in marks if mark in shown and mark not in held):
        raise Conflict(
            f"{path} holds a secret that is only shown as {lost[0]}, and would lose it",
            fix="Do not change the line with the secret; edit the other lines with fs_edit.",
        )


class DiffBudget(Struct):
    """What may still be compared; one for all differences that are shown together."""

    lines: int = _MOST_COMPARED_LINES
    size: int = _MOST_COMPARED_BYTES

    def take(self, lines: int, size: int) -> bool:
        """Return whether a comparison of this size fits, and count it if so."""
        if lines > self.lines or size > self.size:
            return False
        self.lines, self.size = self.lines - lines, self.size - size
        return True


def render_diff(path: str, before: bytes | None, after: bytes | None, budget: DiffBudget | None = None) -> str:
    """A unified diff for approval; None means no file. Complete, or says that it was shortened."""
    old, new, path = before or b"", after or b"", one_row(path)
    if b"\0" in old or b"\0" in new:
        return f"{path}: {len(old)} bytes become {len(new)} bytes; not shown, this is not text: {NOT_SHOWN}"
    # Carriage returns are shown, unless they end every line of both, or nothing else changes.
    is_quiet = (_has_only_crlf(old) and _has_only_crlf(new)) or _unify_ends(old) == _unify_ends(new)
    end = b"\r\n" if is_quiet else b"\n"
    old_lines, new_lines = _diff_lines(old, end), _diff_lines(new, end)
    compared = bool(old_lines and new_lines)
    budget = budget or DiffBudget()
    if compared and not budget.take(len(old_lines) + len(new_lines), len(old) + len(new)):
        return f"{path}: {len(old_lines)} lines become {len(new_lines)}; not shown, too many to compare: {NOT_SHOWN}"
    names = ("/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}")
    lines = list(difflib.unified_diff(old_lines, new_lines, *names, lineterm="", n=_CONTEXT))
    return "\n".join(lines) if lines else f"{path}: {_describe_line_ends(before, new)}"


def _describe_line_ends(before: bytes | None, new: bytes) -> str:
    if before is None:
        return "a new, empty file"
    return "nothing changes" if before == new else "only line ends change"


def _has_only_crlf(data: bytes) -> bool:
    return not data or data.count(b"\r\n") == data.count(b"\n") == data.count(b"\r")


def _unify_ends(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def _diff_lines(data: bytes, end: bytes) -> list[str]:
    return [decode_text(line.removesuffix(b"\n").removesuffix(end[:-1])) for line in split_lines(data)]
