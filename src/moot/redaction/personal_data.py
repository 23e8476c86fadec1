"""Finds personal data in text: email, phone, card and national ids. Pure."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

from msgspec import Struct

from moot.redaction import national_ids as ids

KINDS = ("EMAIL", "PHONE", "CARD", "SSN", "RRN", "TAXID", "NIR", "DNI", "NINO", "NHS", "FISCAL")
PLACEHOLDER = re.compile(rf"\[(?:{'|'.join(KINDS)})_\d+\]")


class PersonalData(Struct, frozen=True):
    kind: str
    value: str
    start: int
    end: int


_DIGIT = re.compile(r"[0-9]")
_LOCAL_PART = re.compile(r"(?<![\w.+%'-])[^\W_][\w.+%'-]*\Z")
_DOMAIN = re.compile(r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_LOCAL_LENGTH = 64

# Patterns for whole texts begin with a character class, to which the regex engine can skip; one that began with a
# lookbehind would be tried at every character. Sequences of digits are found first and then checked by the rules.
_ROW = re.compile(r"[0-9][0-9 ()./-]{6,}[0-9]")
# The maximum distance between two digits of one number; a sequence may contain several numbers.
_GAP = re.compile(r"[./-] +|  +")
_LETTERED: tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("DNI", re.compile(r"[0-9]{8}-?[A-Za-z]"), ids.is_dni),
    ("DNI", re.compile(r"[XYZxyz]-?[0-9]{7}-?[A-Za-z]"), ids.is_dni),
    ("NINO", re.compile(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]"), ids.is_nino),
)
_FISCAL_END = re.compile(r"[0-9]{2}[A-Za-z][0-9]{2}[A-Za-z][0-9]{3}[A-Za-z]")
_FISCAL_NAME = 6
_CORSICAN = re.compile(r"[12] ?[0-9]{2} ?[0-9]{2} ?2[AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}")

_BEFORE = r"(?<![\w.+])(?<!\d[-/])"
_AFTER = r"(?![-/]?\w)(?!\.\d)"


def _bounded_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(f"{_BEFORE}(?:{pattern}){_AFTER}")


# Ordered: rules with a checksum come before rules that only match a shape. The number is the minimum of digits for a
# rule to apply.
_RULES: tuple[tuple[str, int, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("CARD", 12, _bounded_pattern(r"[2-6]\d{3}(?:[ -]?\d{2,6}){2,4}"), ids.is_card),
    ("NIR", 15, _bounded_pattern(r"[12] ?\d{2} ?\d{2} ?\d{2} ?\d{3} ?\d{3} ?\d{2}"), ids.is_nir),
    ("RRN", 13, _bounded_pattern(r"\d{6}-?[1-8]\d{6}"), ids.is_rrn),
    ("TAXID", 11, _bounded_pattern(r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}"), ids.is_german_tax_id),
    ("NHS", 10, _bounded_pattern(r"\d{3}[ -]\d{3}[ -]\d{4}|\d{10}"), ids.is_nhs),
    ("SSN", 9, _bounded_pattern(r"\d{3}([ -])\d{2}\1\d{4}"), ids.is_ssn),
    (
        "PHONE",
        9,
        _bounded_pattern(
            r"(?:\+|00)[1-9]\d{0,2}(?:[ .-]?(?:\(0\))?(?:\d{1,5}|\(\d{1,5}\))){2,7}"
            r"|\(\d{2,5}\) ?\d{3,4}[ .-]?\d{3,5}"
            r"|[2-9]\d{2}([ .-])\d{3}\1\d{4}"
            r"|01[016789]\d{7,8}"
            r"|0[1-9]\d{0,3}[ /.-]\d{2,8}(?:[ -]\d{2,5}){0,3}"
        ),
        ids.is_phone,
    ),
)
_FEWEST = min(least for _, least, _, _ in _RULES)


def find_personal(text: str) -> list[PersonalData]:
    """Return the findings in order, without overlaps. If two rules match the same place, the earlier rule wins."""
    found = list(_find_emails(text)) if "@" in text else []
    if not _DIGIT.search(text):
        return found
    # Findings are sorted, so only neighbours can overlap; a list of addresses has thousands of them.
    starts = [finding.start for finding in found]
    for finding in (*_find_lettered_ids(text), *_find_numbers(text)):
        place = bisect_left(starts, finding.end)
        if place == 0 or found[place - 1].end <= finding.start:
            starts.insert(place, finding.start)
            found.insert(place, finding)
    return found


def replace_personal(text: str, stand_in: Callable[[PersonalData], str]) -> str:
    """Return the text with each finding replaced."""
    findings = find_personal(text)
    if not findings:
        return text
    pieces: list[str] = []
    done = 0
    for finding in findings:
        pieces += (text[done : finding.start], stand_in(finding))
        done = finding.end
    return "".join((*pieces, text[done:]))


def _find_emails(text: str) -> Iterator[PersonalData]:
    at = text.find("@")
    while at >= 0:
        local = _LOCAL_PART.search(text, max(0, at - _LOCAL_LENGTH), at)
        domain = _DOMAIN.match(text, at + 1)
        if local and domain:
            yield PersonalData("EMAIL", text[local.start() : domain.end()], local.start(), domain.end())
        at = text.find("@", at + 1)


def _find_lettered_ids(text: str) -> Iterator[PersonalData]:
    for kind, pattern, is_valid in _LETTERED:
        for match in pattern.finditer(text):
            yield from _find_validated(kind, text, match.span(), is_valid)
    for match in _FISCAL_END.finditer(text):
        if match.start() >= _FISCAL_NAME:
            yield from _find_validated("FISCAL", text, (match.start() - _FISCAL_NAME, match.end()), ids.is_fiscal)
    if "2A" in text or "2B" in text:
        for match in _CORSICAN.finditer(text):
            yield from _find_validated("NIR", text, match.span(), ids.is_nir)


def _find_validated(
    kind: str, text: str, span: tuple[int, int], is_valid: Callable[[str], bool]
) -> Iterator[PersonalData]:
    start, end = span
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    alone = not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
    if alone and is_valid(text[start:end]):
        yield PersonalData(kind, text[start:end], start, end)


def _find_numbers(text: str) -> Iterator[PersonalData]:
    for row in _ROW.finditer(text):
        count = max(map(ids.count_digits, _GAP.split(row[0])))
        if count < _FEWEST:
            continue
        # A plus or a bracket may precede the digits; what follows them decides where a number ends.
        start, end = row.start(), row.end() + 2
        while start and row.start() - start < 2 and text[start - 1] in "+(":
            start -= 1
        for kind, least, pattern, is_valid in _RULES:
            if count >= least:
                yield from (
                    PersonalData(kind, match[0], match.start(), match.end())
                    for match in pattern.finditer(text, start, end)
                    if is_valid(match[0])
                )
