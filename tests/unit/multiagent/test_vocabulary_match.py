"""How much a request shares with vocabularies: by rare words, by their beginnings, and in Chinese."""

from collections.abc import Iterable

import pytest

from moot.domain.agent import Agent
from moot.domain.vocabulary import Phrases, Vocabulary, digest_definition
from moot.multiagent.routing import vocabulary_match
from moot.multiagent.routing.text_features import read
from moot.multiagent.routing.vocabulary_match import (
    NO_VOCABULARIES,
    Shared,
    VocabularyIndex,
    build_index,
    weigh_features,
)


def agent(name: str, description: str = "Something.") -> Agent:
    return Agent(name=name, description=description, instruction="Help.")


def written(about: Agent, words: Iterable[str] = (), requests: Iterable[str] = (), language: str = "en") -> Vocabulary:
    phrases = Phrases(language=language, words=tuple(words), requests=tuple(requests))
    return Vocabulary(agent=about.name, digest=digest_definition(about), model="m", written_at=1.0, phrases=(phrases,))


def index(language: str = "en", **words: Iterable[str]) -> VocabularyIndex:
    agents = {name: agent(name) for name in words}
    return build_index([(agents[name], written(agents[name], each, (), language)) for name, each in words.items()])


def compare(vocabularies: VocabularyIndex, text: str) -> dict[str, Shared]:
    return vocabularies.compare(read(text))


def strength(vocabularies: VocabularyIndex, text: str, name: str = "one") -> float:
    return compare(vocabularies, text)[name].strength


def test_an_agent_without_a_vocabulary_is_not_compared() -> None:
    assert compare(NO_VOCABULARIES, "The bumblefoot is worse") == {}
    assert compare(index(one=["kestrel"]), "nothing of it") == {"one": Shared()}


def test_an_index_is_made_without_a_look_at_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made in a request, after each vocabulary that is written, and a team has very many."""
    about = written(agent("one"), ["kestrel"])
    prepared = weigh_features(agent("one"), about)
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary_match, "find_rarity", pytest.fail)
        found = build_index([(agent("one"), about)])
    assert found.features["one"] is prepared
    assert compare(found, "kestrel")["one"].words == ("kestrel",)


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    both = index(one=["bumblefoot", "water"])
    assert strength(both, "bumblefoot") > strength(both, "water") > 0


def test_a_word_counts_the_less_the_more_agents_have_it() -> None:
    alone = strength(index(one=["kestrel"], two=["goshawk"], three=["merlin"]), "kestrel")
    shared = strength(index(one=["kestrel"], two=["kestrel"], three=["merlin"]), "kestrel")
    by_all = strength(index(one=["kestrel"], two=["kestrel"], three=["kestrel"]), "kestrel")
    assert alone > shared > by_all > 0


def test_a_word_of_the_list_counts_more_than_one_of_the_definition_or_of_a_request() -> None:
    listed = strength(index(one=["kestrel"]), "kestrel")
    one = agent("one", "Flies a kestrel.")
    defined = strength(build_index([(one, written(one))]), "kestrel")
    one = agent("one")
    asked = strength(build_index([(one, written(one, requests=["the kestrel sits in a tree"]))]), "kestrel")
    assert listed > defined > asked > 0


def test_beginnings_of_long_words_count_and_those_of_short_ones_do_not() -> None:
    found = index(one=["Beizvogel", "ant"])
    assert 0 < strength(found, "Beizjagd") < strength(found, "Beizvogel")
    assert strength(found, "antler") == 0
    # They are reasons for a decision, and not told as such.
    assert compare(found, "Beizjagd")["one"].words == ()


def test_endings_do_not_matter() -> None:
    assert compare(index(one=["kestrels"]), "my kestrel")["one"].words == ("kestrel",)


def test_chinese_is_compared_without_spaces() -> None:
    found = index("zh", one=["脚垫病", "鹰帽"], two=["钢琴", "琴弦"])
    shared = compare(found, "它的脚垫病又严重了")
    assert shared["one"].strength > shared["two"].strength == 0
    assert shared["one"].words


def test_an_agent_is_compared_only_in_the_languages_of_its_vocabulary() -> None:
    found = index("de", one=["Turmfalke", "Habicht"])
    assert list(compare(found, "Wie viel wiegt ein Turmfalke im Winter?")) == ["one"]
    assert compare(found, "How much does the Turmfalke weigh in the winter?") == {}


def test_words_that_say_nothing_count_nothing() -> None:
    assert strength(index(one=["what", "the", "please"]), "what is the matter please") == 0


def test_a_long_request_is_worth_less_for_the_same_word() -> None:
    found = index(one=["kestrel"])
    assert strength(found, "kestrel") > strength(found, "kestrel brick window garden table mountain winter") > 0


def test_the_reasons_are_words_of_the_request_and_few() -> None:
    words = [f"falcon{letter}" for letter in "abcdefgh"]
    shared = compare(index(one=[*words, '<from agent="moot">']), " ".join(words))["one"]
    assert shared.words == tuple(words[:4])
