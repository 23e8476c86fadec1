"""Compares a request with the vocabularies of agents (domain/vocabulary.py): the words that people use for each.

`router` uses it beside agent_match. Words count by their rarity, and the more the fewer agents have them; beginnings of
words count as well, because endings and compounds differ.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from moot.domain.agent import Agent
from moot.domain.vocabulary import INSTRUCTION_LENGTH, LANGUAGES, Vocabulary
from moot.multiagent.routing.classifier import find_rarity
from moot.multiagent.routing.text_features import IGNORED_WORDS, Reading, is_function_word, is_han, read, stem

# What a word counts in a request of the vocabulary, and in the definition; in the list of words it counts 1.
_IN_REQUEST, _IN_DEFINITION = 0.5, 0.7
# What the beginning of a word counts, by its length; a rare word counts 1, and every word at least so much.
_PREFIXES = {4: 0.3, 5: 0.5, 6: 0.7}
_LEAST_RARITY = 0.2
# Added to the number of features of a request, whose square root its strength is divided by.
_SHORTEST = 3
_SHOWN = 4
# The weights are fitted to teams of so many agents. In a smaller one a word that one agent has tells no less.
_TEAM = 8


class Shared(Struct, frozen=True):
    """What a request shares with the vocabulary of an agent."""

    # 0 if nothing.
    strength: float = 0.0
    # The words of the request, for the reasons of a decision.
    words: tuple[str, ...] = ()


class VocabularyIndex(Struct, frozen=True):
    """The vocabularies of a team, by agent.

    How rare a feature is in the team is found when a request has it: to prepare all of them takes a quarter of a second
    for two hundred agents, and each new vocabulary changes it.
    """

    # The features of each agent that has a vocabulary, with their weights.
    features: dict[str, Mapping[str, float]] = {}
    # The agents that have one in a language.
    by_language: dict[str, frozenset[str]] = {}

    def compare(self, reading: Reading) -> dict[str, Shared]:
        """Return what the request shares with each agent that has a vocabulary in its language."""
        if not self.features:
            return {}
        found = dict.fromkeys(_find_features(reading))
        agents = self.by_language.get(reading.language, frozenset()) if reading.language else self.features.keys()
        strengths = dict.fromkeys(agents, 0.0)
        words: dict[str, list[str]] = {agent: [] for agent in agents}
        for feature in found:
            for agent, weight in self._weigh(feature):
                if agent in strengths:
                    strengths[agent] += weight
                    words[agent].append(feature)
        size = math.sqrt(_SHORTEST + len(found))
        whole = {stem(word): word for word in reading.raw}
        return {
            agent: Shared(
                strength / size,
                tuple(whole.get(each, each) for each in words[agent] if each[-1] != "*")[:_SHOWN],
            )
            for agent, strength in strengths.items()
        }

    def _weigh(self, feature: str) -> Iterator[tuple[str, float]]:
        """Yield the agents that a feature occurs for, each with its weight."""
        agents = [agent for agent, weights in self.features.items() if feature in weights]
        if agents:
            rarity = math.log(1 + max(_TEAM, len(self.features)) / len(agents)) * _find_rarity(feature)
            yield from ((agent, self.features[agent][feature] * rarity) for agent in agents)


NO_VOCABULARIES = VocabularyIndex()


def build_index(agents: Sequence[tuple[Agent, Vocabulary]]) -> VocabularyIndex:
    return VocabularyIndex(
        {agent.name: weigh_features(agent, vocabulary) for agent, vocabulary in agents},
        {language: _find_speakers(agents, language) for language in LANGUAGES},
    )


def _find_speakers(agents: Sequence[tuple[Agent, Vocabulary]], language: str) -> frozenset[str]:
    return frozenset(
        agent.name for agent, vocabulary in agents if any(each.language == language for each in vocabulary.phrases)
    )


@lru_cache(maxsize=512)
def weigh_features(agent: Agent, vocabulary: Vocabulary) -> Mapping[str, float]:
    """Return the features of an agent's vocabulary and definition, each with its weight; takes some milliseconds."""
    definition = f"{agent.name.replace('-', ' ')}. {agent.description} {agent.instruction[:INSTRUCTION_LENGTH]}"
    weights = dict.fromkeys(_find_features(read(definition)), _IN_DEFINITION)
    for phrases in vocabulary.phrases:
        for request in phrases.requests:
            for feature in _find_features(read(request)):
                weights.setdefault(feature, _IN_REQUEST)
        for word in phrases.words:
            weights |= dict.fromkeys(_find_features(read(word)), 1.0)
    return weights


def _find_features(reading: Reading) -> Iterator[str]:
    """Yield the words of a text that say something, without endings, and the beginnings of long ones."""
    formal = {stem(word) for word in reading.raw if is_function_word(word, reading.language)} | IGNORED_WORDS
    yield from (word for word in reading.words if word not in formal and word[0] != "<")
    for word in reading.raw:
        if not is_han(word) and stem(word) not in formal:
            yield from (f"{word[:size]}*" for size in _PREFIXES if len(word) > size)


def _find_rarity(feature: str) -> float:
    if feature[-1] == "*":
        return _PREFIXES[len(feature) - 1]
    return max(_LEAST_RARITY, find_rarity(feature))
