"""Personal data: what is found, what is not mistaken for it, and how it comes back."""

import pytest

from moot.redaction.personal_data import find_personal
from moot.redaction.redactor import Redactor

# Made up or published as examples; every one fits the rule of its kind.
FOUND = [
    ("EMAIL", "ada.lovelace+notes@mail.example.org"),
    ("EMAIL", "jürgen@bücher.example"),
    ("PHONE", "+49 171 2345678"),
    ("PHONE", "+1 (415) 555-2671"),
    ("PHONE", "(415) 555-2671"),
    ("PHONE", "212-555-0187"),
    ("PHONE", "010-1234-5678"),
    ("PHONE", "01012345678"),
    ("PHONE", "020 7946 0958"),
    ("PHONE", "01 23 45 67 89"),
    ("CARD", "4111 1111 1111 1111"),
    ("CARD", "5555555555554444"),
    ("CARD", "3782-822463-10005"),
    ("CARD", "6011000990139424"),
    ("CARD", "30569309025904"),
    ("SSN", "123-45-6789"),
    ("RRN", "900101-1234567"),
    ("RRN", "8001011234560"),
    ("TAXID", "86095742719"),
    ("TAXID", "86 095 742 719"),
    ("NIR", "2 55 08 14 168 025 38"),
    ("NIR", "255081416802538"),
    ("DNI", "12345678Z"),
    ("DNI", "X1234567L"),
    ("NINO", "AB 12 34 56 C"),
    ("NHS", "943 476 5919"),
    ("NHS", "9434765919"),
    ("FISCAL", "RSSMRA85T10A562S"),
]

HARMLESS = [
    "2026-10-11T12:30:45.123Z",
    "2026-10-11 12:30:45",
    "10.0.0.1 192.168.178.201:8080",
    "v1.2.3 3.14159265358979",
    "4111 1111 1111 1112",
    "1234567890123456",
    "1760184645123456789",
    "000-45-6789 666-45-6789 900-45-6789",
    "12345678A",
    "8001011234562",
    "86095742718",
    "255081416802539",
    "RSSMRA85T10A562T",
    "GB123456C",
    "user@localhost or @ada or a@b",
    "0192ac3f-7d1e-7c55-9d2a-3f1b2c4d5e6f",
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "0x7fff5fbff8a0 1000000000 0000000000",
    "01-02-2024 and 31.12.1999",
    "pages 100-200, 1 000 000 people",
]


@pytest.mark.parametrize(("kind", "value"), FOUND)
def test_personal_data_is_found_whole(kind: str, value: str) -> None:
    for text in (value, f"It is {value}.", f"({value})", f'{{"it": "{value}"}}', f"\n{value}\n", f"a:{value},b"):
        assert [(found.kind, found.value) for found in find_personal(text)] == [(kind, value)], text


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_numbers_are_left_alone(text: str) -> None:
    assert find_personal(text) == []


def test_a_log_line_has_no_way_back() -> None:
    assert Redactor().for_log("ada@example.org paid with 4111 1111 1111 1111") == "[EMAIL] paid with [CARD]"


def test_a_long_list_of_numbers_takes_time_by_its_length_alone() -> None:
    numbers = [f"0170 {1_000_000 + number}" for number in range(20_000)]
    text = "\n".join(numbers)
    # By the square of its length this would take minutes.
    found = find_personal(text)
    assert [finding.value for finding in found] == numbers
