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
# A line with so many commas is a list of words, any other a request.
_FEWEST_COMMAS = 4
# A model that repeats so many of its words one after the other has lost the thread; what follows is not used.
_MOST_REPEATED = 3

_COMMA = re.compile("[,;，、；]")
_BULLET = re.compile(r"^(?:[-*•]|\d{1,2}[.)、])\s*")
# "Words:" before a list of words.
_HEADING = re.compile(r"^[^\W\d_ ]{1,15}(?: [^\W\d_ ]{1,15})?[:：]\s*")
_EDGES = " \t\"'`*“”„«»。."


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
    """Return the words and requests in the answer of a model: a line of words with commas, then a request per line."""
    words: dict[str, None] = {}
    requests: dict[str, None] = {}
    for line in clean(answer).splitlines():
        text = _BULLET.sub("", line.strip())
        if len(_COMMA.findall(text)) >= _FEWEST_COMMAS:
            words |= dict.fromkeys(_split_words(_HEADING.sub("", text)))
        elif len(text) <= _REQUEST_LENGTH and (request := text.strip(_EDGES)):
            requests[request] = None
    return Phrases(language=language, words=tuple(words)[:_MOST_WORDS], requests=tuple(requests)[:_MOST_REQUESTS])


def _split_words(line: str) -> Iterator[str]:
    seen: set[str] = set()
    repeated = 0
    for part in _COMMA.split(line):
        word = part.strip(_EDGES)
        repeated = repeated + 1 if word in seen else 0
        if repeated == _MOST_REPEATED:
            return
        seen.add(word)
        if word and len(word) <= _WORD_LENGTH:
            yield word
