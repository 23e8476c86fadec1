"""What a request has in common with what an agent says of itself: its name, keywords, capabilities and description."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from moot.domain.agent import Agent
from moot.multiagent.routing.text_features import stem, words

# How somebody says who should do it. A name alone may be an ordinary word.
_CALLS = frozenset(
    stem(word) for word in ("ask", "tell", "let", "have", "get", "use", "via", "through", "with", "give")
)
_ARTICLES = frozenset({"the", "our", "my", "to", "it"})

# Weights of the signals; in what they add up to, 1 is the strength of one rare keyword.
_CAPABILITY = 1.2
_PART_OF_CAPABILITY = 0.4
_DESCRIPTION = 2.2
# A keyword among the first words that say something is what is wanted; a later one may be what it is about.
_EARLY, _LATE, _FIRST = 1.3, 0.8, 3

_EMPTY_WORDS = """
    a about all an and any are as at be between both by can do does each for from has have how i in into is it its look
    looks make makes me my no not of on one or other our say says that the their them then they thing things this to
    under up use used uses using what when where which who will with you your
"""
_EMPTY = frozenset(stem(word) for word in _EMPTY_WORDS.split())


_POLITE = frozenset(
    stem(word) for word in ("please", "could", "would", "hi", "hello", "hey", "need", "want", "like", "help")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An agent in the form that requests are compared with."""

    name: tuple[str, ...]
    keywords: tuple[tuple[str, tuple[str, ...]], ...]
    capabilities: tuple[tuple[str, frozenset[str]], ...]
    described: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What was found in common. `strength` is 0 where nothing was."""

    called: bool = False
    keywords: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    similarity: float = 0.0
    strength: float = 0.0


@lru_cache(maxsize=256)
def profile(agent: Agent) -> Profile:
    return Profile(
        name=tuple(words(agent.name.replace("-", " "))),
        keywords=tuple((keyword, tuple(words(keyword))) for keyword in agent.keywords if words(keyword)),
        capabilities=tuple((name, frozenset(words(name.replace("-", " "))) - _EMPTY) for name in agent.capabilities),
        described=frozenset(words(f"{agent.description} {agent.accepts}")) - _EMPTY,
    )


def match(found: Sequence[str], agent: Agent, rarity: Callable[[str], float]) -> Match:
    """`rarity` says of a word between 0 and 1 how much it tells: what everybody says tells little."""
    about, seen = profile(agent), frozenset(found)
    keywords = [(keyword, parts) for keyword, parts in about.keywords if within(parts, found)]
    whole = [(name, parts) for name, parts in about.capabilities if parts and parts <= seen]
    partly = [parts & seen for _, parts in about.capabilities if parts & seen]
    similarity = _similarity(seen - _EMPTY, about.described, rarity)
    # A word that is a keyword and part of a capability tells one thing, not two.
    counted = frozenset(part for _, parts in keywords for part in parts)
    opening = _opening(found)
    strength = sum(
        max(rarity(part) * (_EARLY if part in opening else _LATE) for part in parts) for _, parts in keywords
    )
    strength += _CAPABILITY * sum(_rarest(parts - counted, rarity) for _, parts in whole)
    strength += _PART_OF_CAPABILITY * max((_rarest(parts - counted, rarity) for parts in partly), default=0.0)
    strength += _DESCRIPTION * similarity
    return Match(
        called=_called(found, about.name),
        keywords=tuple(keyword for keyword, _ in keywords),
        capabilities=tuple(name for name, _ in whole),
        similarity=round(similarity, 2),
        strength=strength,
    )


def _opening(found: Sequence[str]) -> frozenset[str]:
    """The first words that say something: people begin with what they want, and go on with what it is about."""
    return frozenset([word for word in found if word not in _EMPTY and word not in _POLITE][:_FIRST])


def _rarest(parts: frozenset[str], rarity: Callable[[str], float]) -> float:
    return max((rarity(part) for part in parts), default=0.0)


def within(parts: Sequence[str], found: Sequence[str]) -> bool:
    """Whether these words stand in the request, one right after the other."""
    size = len(parts)
    return any(tuple(found[start : start + size]) == tuple(parts) for start in range(len(found) - size + 1))


def _similarity(seen: frozenset[str], described: frozenset[str], rarity: Callable[[str], float]) -> float:
    """The weight of the words in common beside the weight of those of the request: a cosine of two sets of words."""
    shared = sum(rarity(word) ** 2 for word in seen & described)
    if not shared:
        return 0.0
    size = sum(rarity(word) ** 2 for word in seen) * sum(rarity(word) ** 2 for word in described)
    return float(shared / size**0.5)


def _called(found: Sequence[str], name: tuple[str, ...]) -> bool:
    """`ask the planner to …`: somebody names who should do it."""
    told = [word for word in found if word not in _ARTICLES]
    size = len(name)
    return any(
        first in _CALLS and tuple(told[place + 1 : place + 1 + size]) == name
        for place, (first, _) in enumerate(pairwise(told))
    )


_MENTION = re.compile(r"(?<![\w.])@([a-z0-9][a-z0-9_-]*)", re.IGNORECASE)


def mentioned(text: str) -> frozenset[str]:
    """The names that stand in a request with an @ before them."""
    return frozenset(name.lower() for name in _MENTION.findall(text))
