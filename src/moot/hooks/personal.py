"""Finding personal data: email, phone, card and national ids, each proven by its own rule where it has one. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from moot.hooks import national_ids as ids

KINDS = ("EMAIL", "PHONE", "CARD", "SSN", "RRN", "TAXID", "NIR", "DNI", "NINO", "NHS", "FISCAL")
PLACEHOLDER = re.compile(rf"\[(?:{'|'.join(KINDS)})_\d+\]")


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    value: str
    start: int
    end: int


_DIGIT = re.compile(r"[0-9]")
_LOCAL_PART = re.compile(r"(?<![\w.+%'-])[^\W_][\w.+%'-]*\Z")
_DOMAIN = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_LOCAL_LENGTH = 64

# Patterns that run over whole texts begin with a class of characters, which the engine skips to; one that began with
# a look behind would be tried at every character. Rows of digits are found first and looked into by the rules.
_ROW = re.compile(r"[0-9](?:(?:[ ./-]|\)[ -]?|[ .-]?\((?:0\))?)?[0-9]){7,}")
_LETTERED: tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("DNI", re.compile(r"[XYZxyz]-?[0-9]{7}-?[A-Za-z]"), ids.is_dni),
    ("NINO", re.compile(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"), ids.is_nino),
)
# Spain's, or the latter part of Italy's: both are found by their digits.
_DIGITS_FIRST = re.compile(r"[0-9]{2}(?:[0-9]{6}-?[A-Za-z]|(?P<italian>[A-Za-z][0-9]{2}[A-Za-z][0-9]{3}[A-Za-z]))")
_FISCAL_NAME = 6
_CORSICAN = re.compile(r"[12] ?[0-9]{2} ?[0-9]{2} ?2[AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}")

_BEFORE = r"(?<![\w.+])(?<!\d[-/])"
_AFTER = r"(?![-/]?\w)(?!\.\d)"


def _bounded(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{_BEFORE}(?:{pattern}){_AFTER}")


# In this order: what is proven by a checksum goes before what only looks like something. The number is how many
# digits a row must have for the rule to be worth trying.
_RULES: tuple[tuple[str, int, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("CARD", 12, _bounded(r"[2-6]\d{3}(?:[ -]?\d{2,6}){2,4}"), ids.is_card),
    ("NIR", 15, _bounded(r"[12] ?\d{2} ?\d{2} ?\d{2} ?\d{3} ?\d{3} ?\d{2}"), ids.is_nir),
    ("RRN", 13, _bounded(r"\d{6}-?[1-8]\d{6}"), ids.is_rrn),
    ("TAXID", 11, _bounded(r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}"), ids.is_german_tax_id),
    ("NHS", 10, _bounded(r"\d{3}[ -]\d{3}[ -]\d{4}|\d{10}"), ids.is_nhs),
    ("SSN", 9, _bounded(r"\d{3}([ -])\d{2}\1\d{4}"), ids.is_ssn),
    (
        "PHONE",
        8,
        _bounded(
            r"\+\d{1,3}(?:[ .-]?(?:\(0\))?\(?\d{1,5}\)?){2,7}"
            r"|\(\d{2,5}\) ?\d{3,4}[ .-]?\d{3,5}"
            r"|[2-9]\d{2}([ .-])\d{3}\1\d{4}"
            r"|01[016789]\d{7,8}"
            r"|0\d{1,4}[ /.-]\d{2,8}(?:[ -]\d{2,5}){0,3}"
        ),
        ids.is_phone,
    ),
)


def find_personal(text: str) -> list[Finding]:
    """What was found, in order, nothing overlapping. Where two rules claim the same place the earlier one has it."""
    found: list[Finding] = []
    if "@" in text:
        found.extend(_emails(text))
    if _DIGIT.search(text):
        for finding in (*_lettered(text), *_numbers(text)):
            if all(finding.end <= each.start or each.end <= finding.start for each in found):
                found.append(finding)
    return sorted(found, key=lambda finding: finding.start) if found else found


def _emails(text: str) -> Iterator[Finding]:
    at = text.find("@")
    while at >= 0:
        local = _LOCAL_PART.search(text, max(0, at - _LOCAL_LENGTH), at)
        domain = _DOMAIN.match(text, at + 1)
        if local and domain:
            yield Finding("EMAIL", text[local.start() : domain.end()], local.start(), domain.end())
        at = text.find("@", at + 1)


def _lettered(text: str) -> Iterator[Finding]:
    for kind, pattern, proves in _LETTERED:
        for match in pattern.finditer(text):
            if _stands_alone(text, match.start(), match.end()) and proves(match[0]):
                yield Finding(kind, match[0], match.start(), match.end())
    for match in _DIGITS_FIRST.finditer(text):
        start, end = match.start() - (_FISCAL_NAME if match["italian"] else 0), match.end()
        code = text[start:end] if start >= 0 else ""
        proves = ids.is_fiscal if match["italian"] else ids.is_dni
        if code and _stands_alone(text, start, end) and proves(code):
            yield Finding("FISCAL" if match["italian"] else "DNI", code, start, end)
    if "2A" in text or "2B" in text:
        for match in _CORSICAN.finditer(text):
            if _stands_alone(text, match.start(), match.end()) and ids.is_nir(match[0]):
                yield Finding("NIR", match[0], match.start(), match.end())


def _numbers(text: str) -> Iterator[Finding]:
    for row in _ROW.finditer(text):
        count = len(ids.digits(row[0]))
        # A plus or a bracket may stand before the row; what stands behind it decides where a number ends.
        start, end = max(0, row.start() - 1), row.end() + 2
        if start < row.start() and text[start] not in "+(":
            start = row.start()
        if text[start - 1 : start] == "+":
            start -= 1
        for kind, least, pattern, proves in _RULES:
            if count < least or (kind == "PHONE" and count == least and text[start] != "+"):
                continue
            for match in pattern.finditer(text, start, end):
                if proves(match[0]):
                    yield Finding(kind, match[0], match.start(), match.end())


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    return not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
