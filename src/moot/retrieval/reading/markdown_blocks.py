"""Cuts Markdown at headings and keeps fenced code whole. Pure."""

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from moot.retrieval.reading.pieces import Block, cut_paragraphs

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_MOST_LEVEL = 6
_MOST_INDENT = 3
_MOST_HEADING = 200


def cut_markdown(lines: Sequence[str]) -> Iterator[Block]:
    """Yield blocks with the headings above them, such as "Install › Linux"."""
    path: list[tuple[int, str]] = []
    start = 0
    for place, level, title in _find_headings(lines):
        yield from _cut_part(lines, start, place, path)
        path = [each for each in path if each[0] < level] + [(level, title)]
        start = place
    yield from _cut_part(lines, start, len(lines), path)


def _find_headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    fence = ""
    for place, line in enumerate(lines):
        marks = _FENCE.match(line)
        if marks:
            fence = "" if fence and line.strip().startswith(fence) else fence or marks.group(1)
        elif not fence and (heading := _read_heading(line)) is not None:
            yield place, *heading


def _read_heading(line: str) -> tuple[int, str] | None:
    """Return the level and the text of a heading. Without a pattern: one takes long for a line of many spaces."""
    text = line.lstrip(" ")
    rest = text.lstrip("#")
    level = len(text) - len(rest)
    if len(line) - len(text) > _MOST_INDENT or not 1 <= level <= _MOST_LEVEL or not rest[:1].isspace():
        return None
    return level, rest.strip().rstrip("#").rstrip()


def _cut_part(lines: Sequence[str], start: int, end: int, path: list[tuple[int, str]]) -> Iterator[Block]:
    heading = " › ".join(title for _, title in path)[:_MOST_HEADING]
    for block in _join_fences(list(cut_paragraphs(lines[start:end])), lines[start:end]):
        yield replace(block, first=block.first + start, heading=heading)


def _join_fences(blocks: Sequence[Block], lines: Sequence[str]) -> Iterator[Block]:
    """Join the blocks that blank lines in fenced code have separated."""
    held: Block | None = None
    for each in blocks:
        block = each if held is None else Block(lines=tuple(lines[held.first - 1 : each.last]), first=held.first)
        held = block if sum(1 for line in block.lines if _FENCE.match(line)) % 2 else None
        if held is None:
            yield block
    if held is not None:
        yield held
