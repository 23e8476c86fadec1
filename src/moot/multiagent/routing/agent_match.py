"""Compares a request with an agent's definition: name, keywords, capabilities, description, and their meaning.

`router` uses it for every agent; custom agents are recognised by nothing else.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.multiagent.routing.classifier import UNSUPPORTED, load_classifier
from moot.multiagent.routing.concepts import load_concepts
from moot.multiagent.routing.text_features import (
    EMPTY_WORDS,
    IGNORED_WORDS,
    Reading,
    features,
    read,
    shorten,
    split_words,
    stem,
)
from moot.multiagent.routing.vocabulary_match import Shared
from moot.multiagent.routing.word_vectors import (
    Meaning,
    combine,
    compare_topics,
    compare_usual,
    compare_vectors,
    find_places,
)

# Words that address an agent by name. A name alone may be an ordinary word.
_CALLS = frozenset(
    stem(word)
    for word in (
        "ask", "tell", "let", "have", "get", "use", "via", "through", "with", "give", "frag", "frage", "bitte", "lass",
        "pregunta", "pide", "dile", "demande", "dis", "mit", "con", "avec",
    )
)  # fmt: skip
_ARTICLES = frozenset({"the", "our", "my", "to", "it", "den", "die", "der", "dem", "el", "la", "al", "le", "au", "a"})

# Weights of the signals; in what they add up to, 1 is the strength of one rare keyword.
_CAPABILITY = 1.2
_PART_OF_CAPABILITY = 0.4
_DESCRIPTION = 2.2
# How many characters of an instruction are used, and the weight of its words relative to the description.
_INSTRUCTION, _INSTRUCTION_WEIGHT = 2000, 0.6
# The weight of the similarity of topics relative to that of vectors.
_TOPIC_WEIGHT = 0.4
# The weight of what a request shares with an agent's vocabulary, relative to the similarity of the subjects.
_VOCABULARY_WEIGHT = 0.6
# From this share on an agent's description is about mail, telephones, devices or pictures.
_UNUSUAL = 0.3
# The number of words of a request that are compared by meaning.
_MOST_MEANINGS = 24
# Keywords among the first content words count more: they say what to do, later ones what it is about.
_EARLY, _LATE, _FIRST = 1.3, 0.8, 3

# Concepts that say what kind of sentence it is, not what it is about.
_FORMAL_CONCEPTS = frozenset(
    {"hello", "thanks", "bye", "why", "explain", "difference", "when", "every", "times", "read", "start", "tomorrow"}
)


class Request(Struct, frozen=True):
    """A request in the form that agents are compared with."""

    reading: Reading
    concepts: tuple[str, ...]
    meaning: Meaning | None


class Profile(Struct, frozen=True, kw_only=True):
    """An agent in the form that requests are compared with."""

    name: tuple[str, ...]
    keywords: tuple[tuple[str, tuple[str, ...]], ...]
    capabilities: tuple[tuple[str, frozenset[str]], ...]
    described: frozenset[str]
    # Every word of these; a request without any of them has no words in common.
    vocabulary: frozenset[str]
    concepts: frozenset[str]
    meaning: Meaning | None
    # How similar requests are to it on average.
    expected: float
    # How far it does what no role can do, between 0 and 1.
    unusual: float


class Match(Struct, frozen=True, kw_only=True):
    """What a request and an agent have in common."""

    called: bool = False
    keywords: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    similarity: float = 0.0
    # The similarity of the subjects, at most 1; 0 is that of any request. What is shared with a vocabulary is added.
    meaning: float = 0.0
    # None for an agent without a vocabulary.
    shared: Shared | None = None
    unusual: float = 0.0
    # The weight of the words in common; 0 if there are none.
    strength: float = 0.0


Rarity = Callable[[str], float]


def prepare(text: str) -> Request:
    reading = shorten(read(text))
    concepts = tuple(load_concepts().find(reading))
    places = find_places(reading, IGNORED_WORDS)[:_MOST_MEANINGS]
    return Request(reading, concepts, combine((1.0, place) for place in places))


@lru_cache(maxsize=1024)
def profile(agent: Agent) -> Profile:
    """Return the profile of an agent, cached by the content of its definition."""
    reading = read(_describe(agent))
    name = tuple(split_words(agent.name.replace("-", " ")))
    keywords = tuple((keyword, tuple(split_words(keyword))) for keyword in agent.keywords if split_words(keyword))
    capabilities = tuple(
        (name, frozenset(split_words(name.replace("-", " "))) - EMPTY_WORDS) for name in agent.capabilities
    )
    described = frozenset(split_words(f"{agent.description} {agent.accepts}")) - EMPTY_WORDS
    meaning = _find_meaning(agent, reading)
    return Profile(
        name=name,
        keywords=keywords,
        capabilities=capabilities,
        described=described,
        vocabulary=described.union(name, *(parts for _, parts in keywords), *(parts for _, parts in capabilities)),
        concepts=frozenset(load_concepts().find(reading)) - _FORMAL_CONCEPTS,
        meaning=meaning,
        expected=compare_usual(meaning) if meaning else 0.0,
        unusual=_find_unusual(reading),
    )


def _describe(agent: Agent) -> str:
    capabilities = " ".join(name.replace("-", " ") for name in agent.capabilities)
    return f"{agent.name.replace('-', ' ')}. {agent.description} {' '.join(agent.keywords)}. {capabilities}"


def _find_meaning(agent: Agent, reading: Reading) -> Meaning | None:
    """Return the meaning of an agent: mostly of its description, and a little of its instruction."""
    described = [(1.0, place) for place in find_places(reading, IGNORED_WORDS)]
    instruction = read(agent.instruction[:_INSTRUCTION])
    places = dict.fromkeys(find_places(instruction, IGNORED_WORDS))
    # A long instruction must not outweigh the description.
    weight = _INSTRUCTION_WEIGHT * min(1.0, len(described) / max(1, len(places)))
    return combine([*described, *((weight, place) for place in places)])


def _find_unusual(reading: Reading) -> float:
    model = load_classifier()
    reading = shorten(reading)
    shares = model.classify(model.look_up(features(reading, load_concepts().find(reading))))
    return min(1.0, shares[UNSUPPORTED] / _UNUSUAL)


def match(request: Request, agent: Agent, rarity: Rarity, *, by_subject: bool, shared: Shared | None = None) -> Match:
    """Return what a request has in common with an agent; subjects are compared only with `by_subject`."""
    about = profile(agent)
    if not by_subject:
        return match_words(request.reading.words, agent, rarity)
    meaning = _compare_meaning(request, about) + (_VOCABULARY_WEIGHT * shared.strength if shared else 0.0)
    concepts = tuple(sorted(about.concepts.intersection(request.concepts)))
    return replace(_match_words(request.reading.words, about, rarity, concepts, meaning), shared=shared)


def _compare_meaning(request: Request, about: Profile) -> float:
    if request.meaning is None or about.meaning is None:
        return 0.0
    alike = compare_vectors(request.meaning, about.meaning) - about.expected
    alike += _TOPIC_WEIGHT * compare_topics(request.meaning, about.meaning)
    return max(0.0, alike / (1 + _TOPIC_WEIGHT))


def match_words(words: Sequence[str], agent: Agent, rarity: Rarity) -> Match:
    """Return the match by words. `rarity` is between 0 and 1; common words count little."""
    return _match_words(words, profile(agent), rarity, (), 0.0)


def _match_words(
    words: Sequence[str], about: Profile, rarity: Rarity, concepts: tuple[str, ...], meaning: float
) -> Match:
    if about.vocabulary.isdisjoint(words):
        return Match(concepts=concepts, meaning=meaning, unusual=about.unusual)
    seen = frozenset(words)
    keywords = [(keyword, parts) for keyword, parts in about.keywords if within(parts, words)]
    whole = [(name, parts) for name, parts in about.capabilities if parts and parts <= seen]
    partly = [parts & seen for _, parts in about.capabilities if parts & seen]
    alike = _alike(seen - EMPTY_WORDS, about.described, rarity)
    # A word that is both a keyword and part of a capability counts once.
    counted = frozenset(part for _, parts in keywords for part in parts)
    opening = _opening(words) if keywords else frozenset()
    strength = sum(
        max(rarity(part) * (_EARLY if part in opening else _LATE) for part in parts) for _, parts in keywords
    )
    strength += _CAPABILITY * sum(_rarest(parts - counted, rarity) for _, parts in whole)
    strength += _PART_OF_CAPABILITY * max((_rarest(parts - counted, rarity) for parts in partly), default=0.0)
    strength += _DESCRIPTION * alike
    return Match(
        called=_is_called(words, about.name),
        keywords=tuple(keyword for keyword, _ in keywords),
        capabilities=tuple(name for name, _ in whole),
        concepts=concepts,
        similarity=round(alike, 2),
        meaning=meaning,
        unusual=about.unusual,
        strength=strength,
    )


def _opening(words: Sequence[str]) -> frozenset[str]:
    """Return the first content words, because people usually begin with what they want."""
    return frozenset([word for word in words if word not in IGNORED_WORDS][:_FIRST])


def _rarest(parts: frozenset[str], rarity: Rarity) -> float:
    return max((rarity(part) for part in parts), default=0.0)


def within(parts: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the parts occur in the request as consecutive words."""
    size = len(parts)
    if size == 1:
        return parts[0] in words
    return any(tuple(words[start : start + size]) == tuple(parts) for start in range(len(words) - size + 1))


def _alike(seen: frozenset[str], described: frozenset[str], rarity: Rarity) -> float:
    """Return the cosine similarity of two sets of words, weighted by rarity."""
    shared = sum(rarity(word) ** 2 for word in seen & described)
    if not shared:
        return 0.0
    size = sum(rarity(word) ** 2 for word in seen) * sum(rarity(word) ** 2 for word in described)
    return float(shared / size**0.5)


def _is_called(words: Sequence[str], name: tuple[str, ...]) -> bool:
    """Return whether the request addresses the agent by name, as in `ask the planner to …`."""
    spoken = [word for word in words if word not in _ARTICLES]
    size = len(name)
    return any(
        first in _CALLS and tuple(spoken[place + 1 : place + 1 + size]) == name
        for place, (first, _) in enumerate(pairwise(spoken))
    )


_MENTION = re.compile(r"(?<![\w.])@([a-z0-9][a-z0-9_-]*)", re.IGNORECASE)


def find_mentions(text: str) -> frozenset[str]:
    """Return the names in a request that are preceded by an @."""
    return frozenset(name.lower() for name in _MENTION.findall(text))
