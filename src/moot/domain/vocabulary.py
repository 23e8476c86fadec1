"""Vocabulary: the words and requests that people use when they ask for an agent. A model writes it once.

Written by multiagent/routing/vocabulary_writer.py, stored by store/vocabularies.py, and compared with requests by
multiagent/routing/vocabulary_match.py.
"""

import hashlib
import re
from collections.abc import Iterator

from msgspec import Struct, json

from moot.domain.agent import Agent
from moot.domain.text import clean

# The languages in which a vocabulary is written: those that the router understands.
LANGUAGES = {"en": "English", "de": "German", "es": "Spanish", "fr": "French", "zh": "Chinese"}
# How many characters of an instruction belong to the definition that a vocabulary is written for.
INSTRUCTION_LENGTH = 2_000

_MOST_WORDS, _MOST_REQUESTS = 60, 12
_WORD_LENGTH, _REQUEST_LENGTH = 40, 200
# What an answer may have beyond that; the rest of a longer one is not read.
_MOST_READ = 20_000
# A line with so many commas is a list of words, any other a request.
_FEWEST_COMMAS = 4
# Where no line is a list, a line of so few words, or of so few characters without spaces between words, is a word.
_MOST_PARTS, _MOST_HAN = 3, 6
# A model that repeats so many of its words one after the other has lost the thread; what follows is not used.
_MOST_REPEATED = 3

_COMMA = re.compile("[,;，、；،﹐﹑､﹔]")
_BULLET = re.compile(r"^(?:[-*•·–]\s+|•|\(?\d{1,3}[.)、．）:](?!\d))\s*")
_MARKUP = re.compile(r"^[#>\s]{1,8}|\*\*|__|^```.*")
# "Words:" before a list of words.
_HEADING = re.compile(r"^(?:[\w()-]{1,15} ){0,4}[\w()-]{1,15} ?[:：]\s*")
_COLONS = ":："
_SENTENCE_ENDS = ".?!…。？！"
_EDGES = " \t\"'`*“”„«»「」。."


class Phrases(Struct, frozen=True, kw_only=True):
    """What people say in one language."""

    language: str
    words: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()


class Vocabulary(Struct, frozen=True, kw_only=True):
    """What people say when they ask for an agent."""

    agent: str
    # Of the definition that it was written for; for a changed definition it does not count.
    digest: str
    # The model that wrote it.
    model: str
    written_at: float
    phrases: tuple[Phrases, ...]

    @property
    def word_count(self) -> int:
        return sum(len(each.words) for each in self.phrases)

    @property
    def request_count(self) -> int:
        return sum(len(each.requests) for each in self.phrases)


def digest_definition(agent: Agent) -> str:
    """Return the digest of what a vocabulary is written for."""
    parts = (
        agent.name, agent.description, agent.instruction[:INSTRUCTION_LENGTH], agent.keywords, agent.capabilities,
        agent.accepts,
    )  # fmt: skip
    return hashlib.sha256(json.encode(parts)).hexdigest()


def parse_phrases(language: str, answer: str) -> Phrases:
    """Return the words and requests in the answer of a model: a line of words with commas, then a request per line.

    Words on lines of their own count as well, up to the first line that is no word.
    """
    lines = [line for each in clean(answer[:_MOST_READ]).splitlines() if (line := _read_line(each))]
    has_list = any(map(_is_list, lines))
    words: dict[str, None] = {}
    requests: dict[str, None] = {}
    for line in lines:
        if _is_list(line) or (not has_list and not requests and _has_only_words(line)):
            words |= dict.fromkeys(_split_words(_HEADING.sub("", line)))
        elif len(line) <= _REQUEST_LENGTH and (request := line.strip(_EDGES)):
            requests[request] = None
    return Phrases(language=language, words=tuple(words)[:_MOST_WORDS], requests=tuple(requests)[:_MOST_REQUESTS])


def _read_line(line: str) -> str:
    """Return a line without marks of a list or of Markdown, and without characters that show nothing.

    Nothing of a heading.
    """
    printable = "".join(each if each.isprintable() else " " for each in line)
    text = _BULLET.sub("", _MARKUP.sub("", printable.strip())).strip()
    return "" if text.endswith(tuple(_COLONS)) else text


def _is_list(line: str) -> bool:
    return len(_COMMA.findall(line)) >= _FEWEST_COMMAS


def _has_only_words(line: str) -> bool:
    parts = [part.strip() for part in _COMMA.split(_HEADING.sub("", line)) if part.strip()]
    return bool(parts) and all(map(_is_word, parts))


def _is_word(text: str) -> bool:
    is_han = any("\u4e00" <= each <= "\u9fff" for each in text)
    return (
        len(text) <= (_MOST_HAN if is_han else _WORD_LENGTH)
        and len(text.split()) <= _MOST_PARTS
        and text[-1] not in _SENTENCE_ENDS
    )


def _split_words(line: str) -> Iterator[str]:
    seen: set[str] = set()
    repeated = 0
    for part in _COMMA.split(line):
        word = " ".join(part.strip(_EDGES).split())
        if not word:
            continue
        repeated = repeated + 1 if word in seen else 0
        if repeated == _MOST_REPEATED:
            return
        seen.add(word)
        if len(word) <= _WORD_LENGTH:
            yield word
