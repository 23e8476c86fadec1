"""Results too long for a model: how one is shortened, and how it is read in parts. Pure."""

from collections.abc import Iterator

from msgspec import Struct

# A longer line is read as several, so that a result of one endless line can be paged too.
LINE_LENGTH = 2_000
# The share of a result that is shown from its end: that is where errors and totals are.
_TAIL_SHARE = 0.3
_SAMPLE = 4_096
# What cannot be read as text arrives as this character; text has few of them.
_UNREADABLE = "\ufffd"
_BINARY_SHARE = 0.1


class Output(Struct, frozen=True, kw_only=True):
    """A result on the shelf."""

    ref: str
    tool: str
    content: str
    taint: frozenset[str] = frozenset()
    created_at: float = 0.0


def is_binary(content: str) -> bool:
    """Whether this is data that only looks like text because somebody decoded it."""
    sample = content[:_SAMPLE]
    return sample.count(_UNREADABLE) > len(sample) * _BINARY_SHARE


def shorten(content: str, budget: int, *, ref: str = "") -> tuple[str, int]:
    """The beginning and the end of a content that is over its budget, and how many characters were left out.

    What is left out is said in the middle, with how to get it where it was kept.
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
    """Back to the end of a line, unless that is far."""
    found = content.rfind("\n", max(0, at - LINE_LENGTH // 4), at)
    return at if found < 0 else found


def _line_start(content: str, at: int) -> int:
    found = content.find("\n", at, at + LINE_LENGTH // 4)
    return at if found < 0 else found + 1


def lines(content: str) -> Iterator[str]:
    """The lines of a content one by one, a long one in pieces. Nothing is split at once, however long it is."""
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
    """Some lines of a content. `offset` counts from 0; `next_offset` is where to read on, 0 at the end."""

    content: str
    total_lines: int
    offset: int
    lines: int
    next_offset: int = 0


def page(content: str, *, offset: int, limit: int, characters: int) -> Page:
    """At most `limit` lines from line `offset` on, and no more than so many characters; one line always fits."""
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
