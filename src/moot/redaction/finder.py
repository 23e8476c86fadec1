"""Searches bytes for many known texts at once, fast where there is none. Pure."""

from collections.abc import Iterable, Iterator

# Bytes are looked through in pieces of this many; what is at least LONG cannot slip between them.
GRAM = 8
LONG = 2 * GRAM - 1
# The same for shorter texts, which have to have three bytes at least.
_SMALLER = (4, 2)

Span = tuple[int, int]


class Finder:
    """Knows some texts. `hints` are others that only make it suspicious.

    Looking for nothing must cost next to nothing, however many texts there are: what is looked at is read as a row of
    numbers of eight bytes each, and only one that is part of some text makes anybody look closer.
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
        """Whether it is worth looking closely."""
        return not self._grams.isdisjoint(_as_numbers(data, GRAM)) or any(
            text in data for text in self._short_candidates(data)
        )

    def spans(self, data: bytes) -> list[Span]:
        """Where known texts stand: of those that overlap the first, of those that begin together the longest."""
        found = {*self._spans(data), *(span for text in self._short_candidates(data) for span in _find_all(text, data))}
        kept: list[Span] = []
        for span in sorted(found, key=lambda each: (each[0], -each[1])):
            if not kept or span[0] >= kept[-1][1]:
                kept.append(span)
        return kept

    def _spans(self, data: bytes) -> Iterator[Span]:
        for at, number in enumerate(_as_numbers(data, GRAM)):
            if number in self._grams:
                for start in range(max(0, GRAM * (at - 1) + 1), GRAM * at + 1):
                    for text in self._heads.get(data[start : start + GRAM], ()):
                        if data.startswith(text, start):
                            yield start, start + len(text)

    def _short_candidates(self, data: bytes) -> set[bytes]:
        """Those of the short texts that may be there."""
        rows = ((known, _as_numbers(data, size)) for size, known in self._short.items() if known)
        return {text for known, row in rows for number in known.keys() & row for text in known[number]}


def _as_numbers(data: bytes, size: int) -> memoryview:
    whole = memoryview(data)[: len(data) // size * size]
    return whole.cast("Q") if size == GRAM else whole.cast("I") if size == 4 else whole.cast("H")


def _leading_numbers(text: bytes, size: int) -> Iterator[int]:
    """The numbers one of which is read wherever reading begins: it lies whole in the first bytes of the text."""
    for start in range(min(size, len(text) - size + 1)):
        yield _as_numbers(text[start : start + size], size)[0]


def _find_all(text: bytes, data: bytes) -> Iterator[Span]:
    at = data.find(text)
    while at >= 0:
        yield at, at + len(text)
        at = data.find(text, at + 1)
