"""Which quantities of a sentence its source contradicts, and which may be right."""

import pytest

from moot.retrieval.answers import is_refusal
from moot.retrieval.reading.quantities import find_contradicted


@pytest.mark.parametrize(
    ("sentence", "source", "found"),
    [
        ("Bake it for ninety minutes.", "Bake the bread for forty minutes.", ["ninety minutes"]),
        ("It costs 30 €.", "A ticket costs 20 €.", ["30 €"]),
        ("Am 3. geht es vier Wochen lang.", "Es dauert vierzehn Wochen.", ["vier Wochen"]),
        ("Open from 14:30 Uhr.", "Ab 15:00 Uhr.", ["14:30 Uhr"]),
        ("At 180 °C.", "At 220 °C.", ["180 °C"]),
        ("A 90-minute walk.", "The walk takes forty minutes.", ["90 minute"]),
    ],
)
def test_another_number_of_the_same_unit_is_a_contradiction(sentence: str, source: str, found: list[str]) -> None:
    assert find_contradicted(sentence, source) == found


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("It takes 40 minutes.", "It takes forty minutes."),
        ("Nach 2 Wochen.", "Nach zwei Wochen."),
        ("1,000 litres", "1000 litres"),
        ("1.000 Liter", "1000 Liter"),
        ("Ab 14:30 Uhr.", "Ab 14.30 Uhr."),
        # Numbers of several words are not read.
        ("25 minutes", "twenty-five minutes, then five minutes"),
        ("treinta y cinco minutos", "35 minutos"),
        ("30 to 40 minutes", "30-40 minutes"),
        # Sums, contrasts and other units.
        ("Ninety minutes in total.", "First forty minutes, then fifty minutes."),
        ("Forty minutes, not ninety minutes.", "Forty minutes."),
        ("1.5 hours", "90 minutes"),
        ("Bake it at 177 °C.", "Bake it at 350 °F."),
        # Names.
        ("Use A4 sheets.", "Take 500 sheets."),
        ("COVID-19 cases rose.", "There were 300 cases."),
        ("40 minutes", "An hour; the last minutes are the best."),
    ],
)
def test_what_may_be_right_is_no_contradiction(sentence: str, source: str) -> None:
    assert find_contradicted(sentence, source) == []


def test_a_number_of_the_question_is_not_stated_by_the_answer() -> None:
    assert find_contradicted("No, not 90 minutes.", "It takes forty minutes.", "Does it take 90 minutes?") == []


@pytest.mark.parametrize(
    "reply",
    [
        *("NOT IN THE DOCUMENTS", "Nicht in den Dokumenten.", "Die Antwort ist nicht in den Dokumenten enthalten."),
        *("No está en los documentos.", "NO EN LOS DOCUMENTOS", "La respuesta no se encuentra en los documentos."),
        *("Pas dans les documents.", "Ce n'est pas mentionné dans les documents.", "Absent des documents"),
        *("不在文档中。", "文档中没有。", "文件中没有相关信息", "没有在文档中找到答案。", "文档未提及"),
    ],
)
def test_that_nothing_is_found_is_understood_in_several_languages(reply: str) -> None:
    assert is_refusal(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Die Schlüssel liegen nicht in den Dokumenten, sondern im Safe [2].",
        "El perro no entra [1].",
        "没有狗可以进入资料室",
        "资料室没有电话",
        "文件没有签名 [1]。",
    ],
)
def test_an_answer_that_denies_something_is_an_answer(reply: str) -> None:
    assert not is_refusal(reply)
