"""Finds the passage of a text that a search matched; works with `recall`, by the same words or letters."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import apsw

PASSAGE_LENGTH = 600
# Only this much of a text is searched; if the passage is further on, the beginning is shown.
_MOST_BYTES = 4_000_000
# Preferred boundaries of a passage, best first.
_BREAKS = ("\n\n", "\n", ". ", "。", " ")
_TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])

Span = tuple[int, int]
Locate = Callable[[str], Span]


class Token(NamedTuple):
    """A word of a text, or a part of one, and its position."""

    at: int
    term: str


def by_words(db: apsw.Connection, words: Sequence[str]) -> Locate:
    """Return a function that finds passages by the words of a search, stemmed like in the index."""
    tokenize = db.fts5_tokenizer(*_TOKENIZER)

    def tokens(text: str) -> list[Token]:
        found: Any = tokenize(text.encode("utf-8", "replace")[:_MOST_BYTES], apsw.FTS5_TOKENIZE_DOCUMENT, None)
        return [Token(start, token) for start, _end, token, *_ in found]

    return by_tokens(tokens, words, in_bytes=True)


def by_tokens(tokens: Callable[[str], list[Token]], words: Sequence[str], *, in_bytes: bool = False) -> Locate:
    """Return a function that finds passages by the words of a search, as tokenized by `tokens`."""
    wanted = {token.term for word in words for token in tokens(word)}

    def locate(text: str) -> Span:
        hits = [token for token in tokens(text) if token.term in wanted]
        return _passage(text, _in_characters(text, hits) if in_bytes and not text.isascii() else hits)

    return locate


def by_letters(parts: Sequence[str]) -> Locate:
    """Return a function that finds passages by parts of words, for scripts without spaces."""

    def locate(text: str) -> Span:
        # Lower case may have another length; only if it is the same do the positions agree.
        lowered = text.lower()
        lowered = lowered if len(lowered) == len(text) else text
        return _passage(text, sorted(hit for part in parts for hit in _occurrences(lowered[:_MOST_BYTES], part)))

    return locate


def _occurrences(text: str, part: str) -> Iterable[Token]:
    at = text.find(part)
    while at >= 0:
        yield Token(at, part)
        at = text.find(part, at + len(part))


def _in_characters(text: str, hits: Sequence[Token]) -> list[Token]:
    """Return the hits with positions in characters instead of bytes."""
    encoded = text.encode("utf-8", "replace")
    placed: list[Token] = []
    before, characters = 0, 0
    for hit in hits:
        characters += len(encoded[before : hit.at].decode("utf-8", "replace"))
        before = hit.at
        placed.append(Token(characters, hit.term))
    return placed


def _passage(text: str, hits: Sequence[Token]) -> Span:
    """Return the span with the most distinct terms; among equals, the one with the most occurrences."""
    if len(text) <= PASSAGE_LENGTH:
        return 0, len(text)
    first, last = _densest(hits, PASSAGE_LENGTH * 3 // 4) if hits else (0, 0)
    spare = PASSAGE_LENGTH - (last - first)
    start = max(0, min(first - spare // 3, len(text) - PASSAGE_LENGTH))
    start = _after_break(text, start, first)
    end = min(len(text), start + PASSAGE_LENGTH)
    return start, end if end == len(text) else _before_break(text, max(last, start) + spare // 3, end)


def _densest(hits: Sequence[Token], length: int) -> Span:
    best, chosen = (0, 0), (hits[0].at, hits[0].at)
    counts: dict[str, int] = {}
    begin = 0
    for place, hit in enumerate(hits):
        counts[hit.term] = counts.get(hit.term, 0) + 1
        while hit.at - hits[begin].at > length:
            left = hits[begin].term
            counts[left] -= 1
            if not counts[left]:
                del counts[left]
            begin += 1
        score = (len(counts), place - begin + 1)
        if score > best:
            best, chosen = score, (hits[begin].at, hit.at + len(hit.term))
    return chosen


def _after_break(text: str, start: int, stop: int) -> int:
    """Return the first position from start, before stop, that follows a boundary."""
    if not start:
        return 0
    for mark in _BREAKS:
        at = text.find(mark, start, stop)
        if at >= 0:
            return at + len(mark)
    return start


def _before_break(text: str, start: int, end: int) -> int:
    """Return the last position before end, not before start, that precedes a boundary."""
    for mark in _BREAKS:
        at = text.rfind(mark, min(start, end), end)
        if at >= 0:
            return at + len(mark.rstrip())
    return end
