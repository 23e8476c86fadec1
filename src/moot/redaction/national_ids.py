"""Validates card, phone and national id numbers. Pure."""

import re
from datetime import date

# Card issuers: which first digits have which lengths.
_CARD = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|5[1-5]\d{14}|(?:222[1-9]|22[3-9]\d|2[3-6]\d{2}|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}"
    r"|(?:6011|64[4-9]\d|65\d{2}|62\d{2}|35(?:2[89]|[3-8]\d))\d{12,15}"
    r"|(?:30[0-5]\d|36\d{2}|38\d{2}|39\d{2})\d{10}"
    r"|(?:50|5[6-9]|6\d)\d{10,17}"
)
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
# Italy: the value of a character at an odd position; at an even position, a digit or letter has its rank as value.
_ODD = dict(
    zip("0123456789", (1, 0, 5, 7, 9, 13, 15, 17, 19, 21), strict=True)
) | dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)  # fmt: skip
_NO_NINO = frozenset(("BG", "GB", "NK", "KN", "TN", "NT", "ZZ"))
_PHONE_DIGITS = range(9, 16)
_SEPARATORS = str.maketrans("", "", " ()./-")


def keep_digits(text: str) -> str:
    return "".join(character for character in text if "0" <= character <= "9")


def count_digits(text: str) -> int:
    return len(text.translate(_SEPARATORS))


def is_card(text: str) -> bool:
    number = keep_digits(text)
    return bool(_CARD.fullmatch(number)) and passes_luhn(number)


def passes_luhn(number: str) -> bool:
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in number[-2::-2])
    return (doubled + sum(map(int, number[-1::-2]))) % 10 == 0


def is_phone(text: str) -> bool:
    """Whether there are enough digits for a phone number; a date has fewer."""
    number = keep_digits(text)
    return len(number) in _PHONE_DIGITS and len(set(number)) > 2


def is_ssn(text: str) -> bool:
    area, group, serial = re.split(r"[ -]", text)
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_rrn(text: str) -> bool:
    """Korea: a birth date and seven digits.

    Numbers issued since October 2020 end in a random digit, so with its hyphen the date alone is checked; without it
    the check digit must match too.
    """
    number = keep_digits(text)
    if not _is_date(number[:6], century=19 if number[6] in "1256" else 20):
        return False
    weighed = sum(
        int(digit) * weight for digit, weight in zip(number, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5), strict=False)
    )
    return "-" in text or (11 - weighed % 11) % 10 == int(number[-1])


def is_german_tax_id(text: str) -> bool:
    """Germany: eleven digits, exactly one of the first ten two or three times, and an ISO 7064 check digit."""
    number = keep_digits(text)
    counts = sorted(number[:10].count(digit) for digit in set(number[:10]))
    if counts not in ([1] * 8 + [2], [1] * 7 + [3]):
        return False
    product = 10
    for digit in number[:10]:
        total = (int(digit) + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == int(number[10])


def is_nir(text: str) -> bool:
    """France: fifteen characters; the last two are 97 minus the remainder of the others divided by 97."""
    number = text.replace(" ", "")
    # Corsica's departments have a letter, which is replaced by a number.
    body = number[:13].replace("2A", "19").replace("2B", "18")
    month = number[3:5]
    plausible = "01" <= month <= "12" or "20" <= month <= "42" or "50" <= month <= "99"
    return plausible and body.isdigit() and 97 - int(body) % 97 == int(number[13:])


def is_dni(text: str) -> bool:
    """Spain: eight digits, or a letter and seven, and a letter determined by the remainder of division by 23."""
    number = text.replace("-", "").upper()
    body = number[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return _DNI_LETTERS[int(body) % 23] == number[-1]


def is_nino(text: str) -> bool:
    """United Kingdom, national insurance: no check digit, but some prefixes are never issued."""
    return text[:2] not in _NO_NINO


def is_nhs(text: str) -> bool:
    """United Kingdom, health service: ten digits, the last a check digit with weights ten to two and modulus eleven."""
    number = keep_digits(text)
    check = 11 - sum(int(digit) * weight for digit, weight in zip(number, range(10, 1, -1), strict=False)) % 11
    return len(set(number)) > 1 and check % 11 == int(number[9]) and check != 10


def is_fiscal(text: str) -> bool:
    """Italy: sixteen characters; the last is the weighted sum of the others modulo 26."""
    code = text.upper()
    if not (code.isascii() and code[:6].isalpha()):
        return False
    odd = sum(_ODD[character] for character in code[0:15:2])
    even = sum(int(each) if each.isdigit() else ord(each) - ord("A") for each in code[1:15:2])
    return chr(ord("A") + (odd + even) % 26) == code[15]


def _is_date(text: str, *, century: int) -> bool:
    try:
        date(century * 100 + int(text[:2]), int(text[2:4]), int(text[4:]))
    except ValueError:
        return False
    return True
