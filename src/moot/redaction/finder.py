"""Searches bytes for many known texts at once; fast if there is none. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator
from sys import byteorder

# Bytes are read in blocks of this size; any text of at least LONG bytes contains a whole block.
GRAM = 8
LONG = 2 * GRAM - 1
# The same for shorter texts, which must have at least three bytes.
_SMALLER = (4, 2)

Span = tuple[int, int]


class Finder:
    """Finds known texts. `hints` are texts that only make `suspects` return True.

    Input without a match must cost almost nothing, however many texts are known: it is read as a sequence of eight-byte
    integers, and only an integer that is part of a known text causes a closer look.
    """

    def __init__(self, texts: Iterable[bytes] = (), hints: Iterable[bytes] = ()) -> None:
        known = set(texts)
        long = [text for text in known if len(text) >= LONG]
        self._grams = frozenset(number for text in (*long, *hints) for number in _leading_numbers(text, GRAM))
        self._heads: dict[bytes, tuple[bytes, ...]] = {}
        for text in long:
            self._heads[text[:GRAM]] = (*self._heads.get(text[:GRAM], ()), text)
        self._short: dict[int, dict[int, set[bytes]]] = {size: {} for size in _SMALLER}
        for text in known.difference(long):
            size = next(each for each in _SMALLER if len(text) >= 2 * each - 1)
            for number in _leading_numbers(text, size):
                self._short[size].setdefault(number, set()).add(text)

    def suspects(self, data: bytes) -> bool:
        """Whether a closer look is needed."""
        return not self._grams.isdisjoint(_as_numbers(data, GRAM)) or any(
            text in data for text in self._short_candidates(data)
        )

    def spans(self, data: bytes) -> list[Span]:
        """Return the spans of known texts: of overlapping ones the first, of those with the same start the longest."""
        found = {span for text in self._short_candidates(data) for span in _find_all(text, data)}
        short = deque(sorted(found, key=lambda each: (each[0], -each[1])))
        kept: list[Span] = []
        for start in self._long_starts(data):
            while short and short[0][0] < start:
                _keep(kept, short.popleft())
            # Not compared within a span that is kept, so that a text which repeats itself does not take long.
            if kept and start < kept[-1][1]:
                continue
            texts = self._heads[data[start : start + GRAM]]
            ends = [start + len(text) for text in texts if data.startswith(text, start)]
            if short and short[0][0] == start:
                ends.append(short[0][1])
            if ends:
                kept.append((start, max(ends)))
        for span in short:
            _keep(kept, span)
        return kept

    def _long_starts(self, data: bytes) -> Iterator[int]:
        """Yield where long texts may start, in order."""
        for at, number in enumerate(_as_numbers(data, GRAM)):
            if number in self._grams:
                for start in range(max(0, GRAM * (at - 1) + 1), GRAM * at + 1):
                    if data[start : start + GRAM] in self._heads:
                        yield start

    def _short_candidates(self, data: bytes) -> set[bytes]:
        """Return the short texts that may occur."""
        rows = ((known, _as_numbers(data, size)) for size, known in self._short.items() if known)
        return {text for known, row in rows for number in known.keys() & row for text in known[number]}


def _keep(kept: list[Span], span: Span) -> None:
    if not kept or span[0] >= kept[-1][1]:
        kept.append(span)


def _as_numbers(data: bytes, size: int) -> memoryview:
    whole = memoryview(data)[: len(data) // size * size]
    return whole.cast("Q") if size == GRAM else whole.cast("I") if size == 4 else whole.cast("H")


def _leading_numbers(text: bytes, size: int) -> list[int]:
    """Return the integers in the first bytes of the text, one of which is read at any alignment."""
    starts = range(min(size, len(text) - size + 1))
    return [int.from_bytes(text[start : start + size], byteorder) for start in starts]


def _find_all(text: bytes, data: bytes) -> Iterator[Span]:
    at = data.find(text)
    while at >= 0:
        yield at, at + len(text)
        at = data.find(text, at + 1)
