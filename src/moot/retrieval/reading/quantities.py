"""Quantities in texts, such as "40 minutes": finds those of a sentence that its source contradicts. Pure.

Used by answers.py. What is doubtful, such as a sum or another unit, is not a contradiction.
"""

import re
from collections.abc import Iterator
from itertools import combinations

from msgspec import Struct

from moot.multiagent.routing.text_features import fold
from moot.retrieval.reading.terms import LANGUAGES, stems

# The number of a name, such as A4 or COVID-19, counts nothing.
_TOKEN = re.compile(r"(?<!\w)(?<![^\W\d_]-)\d+(?:[.,:]\d+)*|[^\W\d_]+|[€$£¥%]|°[CFK]?|[^\s\w]|_")
# Numbers of a unit that sums and differences are made of.
_MOST_COMBINED = 30
_THOUSANDS = re.compile(r"[.,](?=\d{3}(?:\D|$))")
# Number words that are one word, without accents. One and a are the same word in most languages.
_WORDS = {
    2: "two zwei dos deux", 3: "three drei tres trois", 4: "four vier cuatro quatre", 5: "five funf cinco cinq",
    6: "six sechs seis", 7: "seven sieben siete sept", 8: "eight acht ocho huit", 9: "nine neun nueve neuf",
    10: "ten zehn diez dix", 11: "eleven elf once onze", 12: "twelve zwolf doce douze",
    13: "thirteen dreizehn trece treize", 14: "fourteen vierzehn catorce quatorze",
    15: "fifteen funfzehn quince quinze",
    16: "sixteen sechzehn dieciseis seize", 17: "seventeen siebzehn diecisiete", 18: "eighteen achtzehn dieciocho",
    19: "nineteen neunzehn diecinueve", 20: "twenty zwanzig veinte vingt", 30: "thirty dreissig treinta trente",
    40: "forty vierzig cuarenta quarante", 50: "fifty funfzig cincuenta cinquante",
    60: "sixty sechzig sesenta soixante", 70: "seventy siebzig setenta", 80: "eighty achtzig ochenta",
    90: "ninety neunzig noventa", 100: "hundred hundert cien cent", 1000: "thousand tausend mil mille",
}  # fmt: skip
_VALUES = {word: float(value) for value, words in _WORDS.items() for word in words.split()}
# Between the words of one number, such as twenty-five or treinta y cinco.
_JOINS = ("-", "and", "und", "y", "et")


class _Quantity(Struct, frozen=True, kw_only=True):
    """A word, and the number before it: its value, None for a number of several words or none at all."""

    text: str
    unit: frozenset[str]
    value: float | None


def find_contradicted(sentence: str, source: str, question: str = "") -> list[str]:
    """Return the quantities of a sentence that its source has in the same unit, but only with other numbers.

    Numbers of the question are repeated, not stated.
    """
    stated = [each for each in _list_quantities(sentence) if each.value is not None]
    known = list(_list_quantities(source))
    allowed = {each.value for each in _list_quantities(question)}
    found: list[str] = []
    for quantity in stated:
        numbers = {each.value for each in known if each.unit & quantity.unit}
        said = {each.value for each in stated if each.unit & quantity.unit}
        # Beside a number of the source, another one may be a contrast.
        is_explained = said & (numbers | allowed) or quantity.value in _calculate(numbers)
        # A number that cannot be read may be the one that is stated.
        if numbers and None not in numbers and not is_explained:
            found.append(quantity.text)
    return found


def _calculate(numbers: set[float | None]) -> set[float]:
    """Return the sums and differences of two of the numbers."""
    pairs = combinations([each for each in numbers if each is not None][:_MOST_COMBINED], 2)
    return {found for one, other in pairs for found in (one + other, abs(one - other))}


def _list_quantities(text: str) -> Iterator[_Quantity]:
    tokens = _TOKEN.findall(text)
    values = [_read_number(token) for token in tokens]
    for place, token in enumerate(tokens):
        if values[place] is not None or not (token[0].isalpha() or token[0] in "€$£¥%°"):
            continue
        # As in "a 40-minute walk".
        before = place - 2 if place > 1 and tokens[place - 1] == "-" else place - 1
        value = values[before] if before >= 0 else None
        if value is not None and _is_part(tokens, values, before):
            value = None
        yield _Quantity(text=f"{tokens[before]} {token}", unit=frozenset(stems(fold(token), LANGUAGES)), value=value)


def _is_part(tokens: list[str], values: list[float | None], place: int) -> bool:
    """Whether the number continues one that begins before it."""
    before = place - 2 if place > 1 and tokens[place - 1].lower() in _JOINS else place - 1
    return before >= 0 and values[before] is not None


def _read_number(token: str) -> float | None:
    """Return the value of a number; of a time of day, and of what has several points, one that only equals itself."""
    if not token[0].isdecimal():
        return _VALUES.get(fold(token))
    whole, *rest = re.split("[.,:]", _THOUSANDS.sub("", token))
    return float(f"{whole}.{''.join(rest)}")
