"""What is made of a model's answer: its words and requests, however it lists them, and never more than a few."""

import pytest
from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.domain.vocabulary import digest_definition, parse_phrases

WORDS = ("vet", "limping dog", "flea", "litter box", "leash")
REQUESTS = ("My cat won't eat", "Is chocolate bad for him")


def words_of(answer: str) -> tuple[str, ...]:
    return parse_phrases("en", answer).words


def requests_of(answer: str) -> tuple[str, ...]:
    return parse_phrases("en", answer).requests


@pytest.mark.parametrize("comma", [", ", ",", "、", "，", "; ", "；", "، ", " ﹐", " , "])
def test_commas_of_all_kinds_separate_words(comma: str) -> None:
    assert words_of(comma.join(WORDS) + "\nMy cat won't eat.") == WORDS


@pytest.mark.parametrize(
    "head",
    [
        "Words: ", "Wörter auf Deutsch: ", "40 German words: ", "**Words:** ", "### Words: ", "**Wörter**: ", "词语：",
        "1. ", "- Words: ", "Words (40): ", "Palabras y términos en español: ", "> ",
    ],
)  # fmt: skip
def test_what_stands_before_a_list_is_no_word(head: str) -> None:
    assert words_of(f"{head}{', '.join(WORDS)}.\n\nMy cat won't eat.\n") == WORDS


@pytest.mark.parametrize("head", ["Wörter auf Deutsch:", "Words:", "## Requests:", "请求：", "**Six short requests:**"])
def test_a_heading_is_no_request(head: str) -> None:
    answer = f"{head}\n{', '.join(WORDS)}\n{head}\n{REQUESTS[0]}.\n{REQUESTS[1]}?\n"
    assert words_of(answer) == WORDS
    assert requests_of(answer) == (REQUESTS[0], f"{REQUESTS[1]}?")


@pytest.mark.parametrize(
    "bullet", ["- {}", "* {}", "• {}", "{0}. ", "1. {}", "12) {}", "(3) {}", "4、{}", '- "{}"', "`{}`"]
)
def test_requests_may_be_listed_and_quoted(bullet: str) -> None:
    lines = [bullet.format(request) for request in REQUESTS]
    if "{0}." in bullet:
        lines = list(REQUESTS)
    assert requests_of("\n".join([", ".join(WORDS), *lines])) == REQUESTS


@pytest.mark.parametrize("line", ["{}", "- {}", "1. {}", "1){}", "* **{}**", "{},"])
def test_words_may_be_on_lines_of_their_own(line: str) -> None:
    answer = "\n".join(["Words:", *(line.format(word) for word in WORDS), "", "Requests:", *REQUESTS])
    assert words_of(answer) == WORDS
    assert requests_of(answer) == REQUESTS


def test_words_may_be_on_several_short_lines() -> None:
    assert words_of("vet, limping dog,\nflea, litter box,\nleash\nMy cat won't eat.\ncats") == WORDS
    assert requests_of("vet\nMy cat won't eat.\ncats") == ("My cat won't eat", "cats")


def test_chinese_words_and_requests_are_told_apart() -> None:
    listed = parse_phrases("zh", "兽医，跛行的狗，跳蚤，猫砂盆，牵引绳。\n我的猫不吃东西了怎么办？\n它能吃巧克力吗")
    assert listed.words == ("兽医", "跛行的狗", "跳蚤", "猫砂盆", "牵引绳")
    assert listed.requests == ("我的猫不吃东西了怎么办？", "它能吃巧克力吗")
    beneath = parse_phrases("zh", "1. 兽医\n2. 跛行的狗\n3、跳蚤\n我的猫不吃东西了怎么办？")
    assert (beneath.words, beneath.requests) == (("兽医", "跛行的狗", "跳蚤"), ("我的猫不吃东西了怎么办？",))


def test_a_request_with_a_few_commas_is_a_request() -> None:
    request = "hi, my dog, the old one, limps"
    assert requests_of(f"{', '.join(WORDS)}\n{request}") == (request,)


def test_code_fences_and_empty_lines_are_nothing() -> None:
    answer = f"```text\n{', '.join(WORDS)}\n\n{REQUESTS[0]}\n```\n"
    assert (words_of(answer), requests_of(answer)) == (WORDS, REQUESTS[:1])


def test_a_model_that_repeats_itself_is_cut() -> None:
    assert words_of("a, b, a, c, " + "d, " * 500 + "e") == ("a", "b", "c", "d")
    assert words_of("a, b, c, d, " + "a, b, c, d, " * 500 + "e") == ("a", "b", "c", "d")
    assert words_of("a,,,,,,,,b, c, d, e") == ("a", "b", "c", "d", "e")


def test_no_answer_makes_more_than_a_few_short_phrases() -> None:
    many = ", ".join(f"word{number}" for number in range(10_000))
    lines = "\n".join(f"Is it number {number}, or not?" for number in range(10_000))
    found = parse_phrases("en", f"{'y' * 41}, {many[:10_000]}\n{'z' * 201}\n{lines}\n{'x' * 1_000_000}")
    assert (len(found.words), len(found.requests)) == (60, 12)
    assert max(map(len, found.words)) <= 40
    assert parse_phrases("en", "z" * 1_000_000) == parse_phrases("en", "")


def test_what_cannot_be_seen_is_removed() -> None:
    found = parse_phrases("en", "\x1b[2Jvet, do\u200bg, a\u202eb, c\x00d, e\tf, \ud800g\nMy\x07 cat")
    assert all(text.isprintable() for text in (*found.words, *found.requests))
    assert "e f" in found.words


def test_every_part_of_a_definition_counts_but_for_the_end_of_a_long_instruction() -> None:
    agent = Agent(name="pets", description="Pets.", instruction="x" * 3_000)
    changed = [
        replace(agent, name="other"),
        replace(agent, description="Dogs."),
        replace(agent, instruction="y" * 3_000),
        replace(agent, keywords=("dog",)),
        replace(agent, capabilities=("care",)),
        replace(agent, accepts="dogs"),
    ]
    assert len({digest_definition(each) for each in (agent, *changed)}) == 7
    assert digest_definition(replace(agent, instruction="x" * 2_000 + "y", model="m")) == digest_definition(agent)
