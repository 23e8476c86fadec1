"""Ranks search results: terms, BM25 scores, and archives by score and age. Used by recall.py and memory/."""

import heapq
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import log
from typing import NamedTuple

from msgspec import Struct, field

from moot.domain.conversation import Archive

ENTRIES_EACH = 5
HALF_LIFE_DAYS = 30.0
_DAY = 86_400.0
_MAX_TERMS = 24
_MAX_TERM = 64
# The most rows scored per search: the newest of those with the rarest words.
MAX_ROWS = 4_000
_K1, _B = 1.2, 0.75
_SUMMARY_WEIGHT = 1.5

_WORD = re.compile(r"\w+")
# Scripts without spaces: the tokenizer takes a whole clause as one word, so pairs of characters are searched.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
# Stop words.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """a about an and are as at be but by can did do does for from had has have how i in is it me my of on or
        our so that the their them there they this to us was we were what when where which who why will with you
        your""",
    )
)


class Scores(Struct):
    """The result for one archive: the score of its summary, and its best messages as (score, id)."""

    summary: float = 0.0
    messages: list[tuple[float, int]] = field(default_factory=list)

    @property
    def relevance(self) -> float:
        best = [score for score, _ in heapq.nlargest(ENTRIES_EACH, self.messages)]
        # Each further message counts half as much as the one before.
        return _SUMMARY_WEIGHT * self.summary + sum(score * 0.5**place for place, score in enumerate(best))


def terms(query: str) -> list[str]:
    """Return the search terms in lower case, each once; stop words only if there is nothing else."""
    words = list(dict.fromkeys(word[:_MAX_TERM].lower() for word in _WORD.findall(query)))
    return ([word for word in words if word not in _COMMON] or words)[:_MAX_TERMS]


def topics(text: str) -> list[str]:
    """Return the words that say what a text is about, each once; none if there are only stop words."""
    return [word for word in terms(text) if word not in _COMMON]


def fragments(query: str) -> list[str]:
    """Return the substrings to search for: pairs of unspaced scripts, and words of three letters or more."""
    found: list[str] = []
    for run in _UNSPACED.findall(query):
        found += [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
    found += [word for word in terms(_UNSPACED.sub(" ", query)) if len(word) >= 3]
    return list(dict.fromkeys(found))[:_MAX_TERMS]


def is_unspaced(query: str) -> bool:
    """Return whether any of the query is in a script that is written without spaces."""
    return _UNSPACED.search(query) is not None


def rarest(having: dict[str, int]) -> list[str]:
    """Return the rarest words that together match at most MAX_ROWS rows, but at least one word."""
    chosen: list[str] = []
    left = MAX_ROWS
    for word, count in sorted(having.items(), key=lambda item: item[1]):
        if chosen and count > left:
            break
        chosen.append(word)
        left -= count
    return chosen


class Hit(NamedTuple):
    """A text with some of the terms: its number, its length, and the count of each term."""

    number: int
    length: int
    counts: Sequence[int]


def bm25(hits: Sequence[Hit], having: Sequence[int], documents: int) -> list[tuple[int, float]]:
    """Return BM25 scores of texts. Lengths are relative to the average of the hits, as no others are known."""
    if not hits:
        return []
    weights = [log(1 + (documents - min(count, documents) + 0.5) / (count + 0.5)) for count in having]
    average = sum(hit.length for hit in hits) / len(hits) or 1.0
    scored: list[tuple[int, float]] = []
    for hit in hits:
        norm = _K1 * (1 - _B + _B * hit.length / average)
        score = sum(
            weight * count * (_K1 + 1) / (count + norm)
            for weight, count in zip(weights, hit.counts, strict=True)
            if count
        )
        scored.append((hit.number, score))
    return scored


def count_having(hits: Sequence[Hit], place: int) -> int:
    return sum(1 for hit in hits if hit.counts[place])


class FoundArchives:
    """Scores by archive, found by the seq of a message or by the number of the archive."""

    def __init__(self, all_archives: list[Archive]) -> None:
        self._archives = all_archives
        self._ends = [archive.last_seq for archive in all_archives]
        self._scores: dict[int, Scores] = {}

    def at_seq(self, seq: int) -> Scores:
        return self._scores.setdefault(bisect_left(self._ends, seq), Scores())

    def at_number(self, number: int) -> Scores:
        return self._scores.setdefault(number - 1, Scores())

    def items(self) -> list[tuple[Archive, Scores]]:
        return [(self._archives[place], scores) for place, scores in self._scores.items()]


def recency(archive: Archive, now: float) -> float:
    """Return a factor between 1 (today) and 0.5 (long ago), so that age decides only between similar scores."""
    age = max(0.0, now - archive.archived_at) / _DAY
    return float(0.5 + 0.5 * 0.5 ** (age / HALF_LIFE_DAYS))


def rank(found: Iterable[tuple[Archive, Scores]], limit: int, now: float) -> list[tuple[float, Archive, Scores]]:
    """Return the best archives with their scores, best first."""
    weighed = ((scores.relevance * recency(archive, now), archive.number, archive, scores) for archive, scores in found)
    ranked = heapq.nlargest(limit, weighed, key=lambda item: item[:2])
    return [(score, archive, scores) for score, _, archive, scores in ranked]
