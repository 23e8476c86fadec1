"""Finds the concepts of a request, whatever its language: a table of words in five languages, read from concepts.txt.

A concept has the name of its first English word. `text_features` turns concepts into features of the classifier, and
`agent_match` tells which of them a request shares with an agent.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct, field

from moot.multiagent.routing.text_features import Reading, fold, stem

FILE = Path(__file__).with_name("concepts.txt")
LANGUAGES = ("en", "de", "es", "fr", "zh")
_SHORTEST_PREFIX = 3
# Compounds are common in German: the end of a long word is looked up as well.
_COMPOUND, _SHORTEST_HEAD = 8, 4
_LONGEST_PHRASE = 4
_LONGEST_HAN = 6


class _Table(Struct):
    """The words of one language. A prefix stands for every word that begins with it."""

    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prefixes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, word: str, concept: str) -> None:
        table, key = (self.prefixes, word[:-1]) if word.endswith("*") else (self.words, word)
        if concept not in table.get(key, ()):
            table[key] = (*table.get(key, ()), concept)

    def find(self, word: str) -> tuple[str, ...]:
        if word in self.words:
            return self.words[word]
        for size in range(len(word), _SHORTEST_PREFIX - 1, -1):
            if word[:size] in self.prefixes:
                return self.prefixes[word[:size]]
        return ()


class Concepts(Struct, frozen=True):
    tables: dict[str, _Table]
    # The English words of each concept.
    english: dict[str, tuple[str, ...]]
    # The words that a phrase of several words begins with.
    openers: frozenset[str]

    def find(self, reading: Reading) -> list[str]:
        """Return the concepts in the order of their occurrences, including repetitions."""
        return [concept for _, concepts in self.by_word(reading) for concept in concepts]

    def by_word(self, reading: Reading) -> Iterator[tuple[str, tuple[str, ...]]]:
        if reading.language == "zh":
            yield from self._chinese(reading.raw)
            return
        languages = (reading.language,) if reading.language else ("en", "de", "es", "fr")
        raw = reading.raw
        place = 0
        while place < len(raw):
            size, concepts = self._longest(raw, place, languages)
            yield " ".join(raw[place : place + size]), concepts
            place += size

    def _longest(self, raw: Sequence[str], place: int, languages: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        longest = min(_LONGEST_PHRASE, len(raw) - place) if raw[place] in self.openers else 1
        for size in range(longest, 1, -1):
            phrase = " ".join(raw[place : place + size])
            for language in languages:
                if phrase in self.tables[language].words:
                    return size, self.tables[language].words[phrase]
        for language in languages:
            if concepts := self._word(raw[place], language):
                return 1, concepts
        return 1, ()

    def _word(self, word: str, language: str) -> tuple[str, ...]:
        table = self.tables[language]
        if language == "en":
            return table.words.get(stem(word), ())
        concepts = table.find(word)
        if concepts or language != "de" or len(word) < _COMPOUND:
            return concepts
        heads = (word[start:] for start in range(3, len(word) - _SHORTEST_HEAD + 1))
        return next((found for head in heads if (found := table.find(head))), ())

    def _chinese(self, raw: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        words = self.tables["zh"].words
        for run in raw:
            place = 0
            while place < len(run):
                sizes = range(min(_LONGEST_HAN, len(run) - place), 0, -1)
                size = next((size for size in sizes if run[place : place + size] in words), 0)
                yield run[place : place + max(size, 1)], words.get(run[place : place + size], ())
                place += max(size, 1)


@cache
def load_concepts() -> Concepts:
    tables = {language: _Table() for language in LANGUAGES}
    english: dict[str, tuple[str, ...]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        columns = [[fold(word.strip()) for word in column.split(",")] for column in line.split("|")]
        name = columns[0][0]
        english[name] = tuple(columns[0])
        for word in columns[0]:
            tables["en"].add(word if " " in word else stem(word), name)
        for language, column in zip(LANGUAGES[1:], columns[1:], strict=True):
            for word in column:
                # Hyphens and apostrophes separate words.
                tables[language].add(word.replace("-", " ").replace("'", " "), name)
    openers = frozenset(word.split()[0] for table in tables.values() for word in table.words if " " in word)
    return Concepts(tables, english, openers)
