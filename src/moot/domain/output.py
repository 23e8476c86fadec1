"""Results too long for a model: shortening, and reading in pages. Pure."""

from collections.abc import Iterator

from msgspec import Struct

# A longer line is split, so that a result without line breaks can be paged too.
LINE_LENGTH = 2_000
# The share of a shortened result taken from its end, where errors and totals are.
_TAIL_SHARE = 0.3
_SAMPLE = 4_096
# Undecodable bytes become this character; text has few of them.
_UNREADABLE = "\ufffd"
_BINARY_SHARE = 0.1


class Output(Struct, frozen=True, kw_only=True):
    """A stored result."""

    ref: str
    tool: str
    content: str
    taint: frozenset[str] = frozenset()
    created_at: float = 0.0


def is_binary(content: str) -> bool:
    """Whether the content is binary data that was decoded as text."""
    sample = content[:_SAMPLE]
    return sample.count(_UNREADABLE) > len(sample) * _BINARY_SHARE


def shorten(content: str, budget: int, *, ref: str = "") -> tuple[str, int]:
    """Return the beginning and end of a content over its budget, and how many characters were left out.

    A note in the middle says what is missing and, with `ref`, how to read it.
    """
    if len(content) <= budget:
        return content, 0
    tail = int(budget * _TAIL_SHARE)
    head_end = _line_end(content, budget - tail)
    tail_start = _line_start(content, len(content) - tail)
    cut = tail_start - head_end
    how = f'; read them with tool_output_get, ref "{ref}"' if ref else ""
    return f"{content[:head_end]}\n[… {cut} characters left out{how} …]\n{content[tail_start:]}", cut


def _line_end(content: str, at: int) -> int:
    """Return the end of the line before `at`, if it is near; else `at`."""
    found = content.rfind("\n", max(0, at - LINE_LENGTH // 4), at)
    return at if found < 0 else found


def _line_start(content: str, at: int) -> int:
    found = content.find("\n", at, at + LINE_LENGTH // 4)
    return at if found < 0 else found + 1


def lines(content: str) -> Iterator[str]:
    """Yield the lines of a content; long lines in pieces.

    The content is never split all at once, so size does not matter.
    """
    start = 0
    while start < len(content):
        found = content.find("\n", start)
        end = len(content) if found < 0 else found
        if end - start > LINE_LENGTH:
            yield content[start : start + LINE_LENGTH]
            start += LINE_LENGTH
        else:
            yield content[start:end]
            start = end + 1


class Page(Struct, frozen=True, kw_only=True):
    """A page of lines. `offset` counts from 0; `next_offset` is the next page, or 0 at the end."""

    content: str
    total_lines: int
    offset: int
    lines: int
    next_offset: int = 0


def page(content: str, *, offset: int, limit: int, characters: int) -> Page:
    """Return at most `limit` lines from `offset` and at most `characters`, but always at least one line."""
    taken: list[str] = []
    total = room = 0
    full = False
    for total, line in enumerate(lines(content), start=1):
        if total <= offset or full:
            continue
        full = len(taken) >= limit or (bool(taken) and room + len(line) > characters)
        if not full:
            taken.append(line)
            room += len(line) + 1
    end = offset + len(taken)
    return Page(
        content="\n".join(taken),
        total_lines=total,
        offset=offset,
        lines=len(taken),
        next_offset=end if taken and end < total else 0,
    )
