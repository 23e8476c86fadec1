"""Cuts text into passages of similar length along its paragraphs, and knows the lines of each. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

# A passage has about this many characters, and at most so many.
TARGET, MOST = 900, 1_800
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


class Section(Struct, frozen=True, kw_only=True):
    """A part of a document: a page, or all of it. `has_lines`: whether its lines are those of the file."""

    text: str
    page: int = 0
    has_lines: bool = False
    # The line of the file that each line is from, if they are not the same; 0 if that is not known.
    origins: tuple[int, ...] = ()

    def find_line(self, number: int) -> int:
        """Return the line of the file; 0 if there is none."""
        if self.origins:
            return self.origins[min(number, len(self.origins)) - 1]
        return number if self.has_lines else 0


class Piece(Struct, frozen=True, kw_only=True):
    """A passage before it is analysed."""

    content: str
    heading: str = ""
    first_line: int = 0
    last_line: int = 0
    page: int = 0


class Block(Struct, frozen=True, kw_only=True):
    """Lines that belong together, numbered from 1."""

    lines: tuple[str, ...]
    first: int
    heading: str = ""

    @property
    def size(self) -> int:
        return sum(len(line) + 1 for line in self.lines)

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def cut_paragraphs(lines: Sequence[str]) -> Iterator[Block]:
    """Yield the blocks between blank lines."""
    start = 0
    for place in range(len(lines) + 1):
        if place == len(lines) or not lines[place].strip():
            if place > start:
                yield Block(lines=tuple(lines[start:place]), first=start + 1)
            start = place + 1


def cut_text(section: Section, cut: Callable[[Sequence[str]], Iterable[Block]] = cut_paragraphs) -> list[Piece]:
    """Return the passages of a section, whose blocks `cut` finds."""
    lines = section.text.split("\n")
    return [piece for group in _group(cut(lines)) for piece in _make_pieces(group, section, lines)]


def _group(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield neighbours under one heading that together have the length of a passage."""
    group: list[Block] = []
    size = 0
    for block in blocks:
        if group and (size + block.size > TARGET or block.heading != group[0].heading):
            yield group
            group, size = [], 0
        group.append(block)
        size += block.size
    if group:
        yield group


def _make_pieces(group: Sequence[Block], section: Section, lines: Sequence[str]) -> Iterator[Piece]:
    first, last = group[0].first, group[-1].last
    while last > first and not lines[last - 1].strip():
        last -= 1
    for start, end, content in _split_long(lines[first - 1 : last], first):
        if content.strip():
            yield Piece(
                content=content.strip("\n"),
                heading=group[0].heading,
                first_line=section.find_line(start),
                last_line=section.find_line(end),
                page=section.page,
            )


def _split_long(lines: Sequence[str], first: int) -> Iterator[tuple[int, int, str]]:
    """Yield ranges of lines that are not too long, with their text. A line that is too long is split at sentences."""
    held: list[str] = []
    size, start = 0, first
    for number, line in enumerate(lines, start=first):
        if held and size + len(line) > MOST:
            yield start, number - 1, "\n".join(held)
            held, size, start = [], 0, number
        if len(line) > MOST:
            for part in _split_line(line):
                yield number, number, part
            start = number + 1
            continue
        held.append(line)
        size += len(line) + 1
    if held:
        yield start, first + len(lines) - 1, "\n".join(held)


def _split_line(line: str) -> Iterator[str]:
    held = ""
    for sentence in _SENTENCE_END.split(line):
        if held and len(held) + len(sentence) > TARGET:
            yield held
            held = ""
        held = f"{held} {sentence}" if held else sentence
        while len(held) > MOST:
            at = held.rfind(" ", TARGET, MOST)
            at = at if at > 0 else MOST
            yield held[:at]
            held = held[at:].lstrip()
    if held:
        yield held
