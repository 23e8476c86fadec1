"""Conditions of workflow steps: comparisons of earlier results, joined by and, or and not. Pure.

`check.result contains "yes" and not (tests.status == skipped)`. Comparisons ignore case and surrounding white space.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from msgspec import Struct

from moot.domain.near_names import suggest_name

# Returns a field of a step, folded: ("check", "result").
Read = Callable[[str, str], str]

FIELDS = ("result", "status")
STATUSES = ("completed", "skipped")
_OPERATORS = ("==", "!=", "contains", "starts_with", "ends_with")
_LONGEST = 2_000
_DEEPEST = 32

_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"[^\"]*\"|'[^']*')|(?P<field>[A-Za-z0-9][A-Za-z0-9_-]*\.[A-Za-z_]+)"
    r"|(?P<sign>==|!=|\(|\))|(?P<word>[A-Za-z0-9_][A-Za-z0-9_.-]*))"
)


def fold(text: str) -> str:
    """Return a text as it is compared: without surrounding white space, and in lower case."""
    return text.strip().casefold()


class BadCondition(Exception):
    """A condition that cannot be read: why, and the position in its text."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class Comparison(Struct, frozen=True):
    """One comparison of a field of a step with a text."""

    step: str
    field: str
    operator: str
    text: str

    def holds(self, read: Read) -> bool:
        found, wanted = read(self.step, self.field), fold(self.text)
        match self.operator:
            case "==":
                return found == wanted
            case "!=":
                return found != wanted
            case "contains":
                return wanted in found
            case "starts_with":
                return found.startswith(wanted)
            case _:
                return found.endswith(wanted)


class Joined(Struct, frozen=True):
    """Conditions of which all, one or none must hold."""

    how: str
    parts: "tuple[Joined | Comparison, ...]"

    def holds(self, read: Read) -> bool:
        if self.how == "and":
            return all(part.holds(read) for part in self.parts)
        if self.how == "or":
            return any(part.holds(read) for part in self.parts)
        return not self.parts[0].holds(read)


class Condition(Struct, frozen=True):
    """A condition, as it was written and as it is evaluated."""

    text: str
    top: Joined | Comparison

    @property
    def comparisons(self) -> list[Comparison]:
        found: list[Comparison] = []
        rest: list[Joined | Comparison] = [self.top]
        while rest:
            part = rest.pop()
            if isinstance(part, Comparison):
                found.append(part)
            else:
                rest += part.parts
        return found

    @property
    def steps(self) -> frozenset[str]:
        """The steps that it reads."""
        return frozenset(each.step for each in self.comparisons)

    @property
    def statuses(self) -> frozenset[str]:
        """The steps whose status it reads."""
        return frozenset(each.step for each in self.comparisons if each.field == "status")

    def holds(self, read: Read) -> bool:
        return self.top.holds(read)


def parse_condition(text: str) -> Condition:
    """Return the condition. Raises BadCondition."""
    if len(text) > _LONGEST:
        raise BadCondition(f"it is longer than {_LONGEST} characters", 0)
    return Condition(text, _Parser(text).read_all())


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _split(text)
        self._next = 0
        self._depth = 0

    def read_all(self) -> Joined | Comparison:
        top = self._read_or()
        token = self._peek()
        if token.kind != "end":
            raise BadCondition(f"`and` or `or` is expected, not {_show(token)}", token.at)
        return top

    def _read_or(self) -> Joined | Comparison:
        return self._read_joined("or", lambda: self._read_joined("and", self._read_not))

    def _read_joined(self, word: str, read: Callable[[], Joined | Comparison]) -> Joined | Comparison:
        parts = [read()]
        while self._take(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def _read_not(self) -> Joined | Comparison:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadCondition("it is nested too deeply", self._peek().at)
        try:
            if self._take("not"):
                return Joined("not", (self._read_not(),))
            if self._take("("):
                inner = self._read_or()
                self._require(")")
                return inner
            return self._read_comparison()
        finally:
            self._depth -= 1

    def _read_comparison(self) -> Comparison:
        token = self._advance()
        if token.kind != "field":
            raise BadCondition(f"a step's field such as `check.result` is expected, not {_show(token)}", token.at)
        step, _, field = token.text.rpartition(".")
        if field not in FIELDS:
            near = suggest_name(field, FIELDS)
            raise BadCondition(f"a step has no `{field}`, only {' and '.join(FIELDS)}. {near}".strip(), token.at)
        operator = self._advance()
        if operator.text not in _OPERATORS:
            near = suggest_name(operator.text, _OPERATORS)
            expected = f"one of {', '.join(_OPERATORS)} is expected, not {_show(operator)}"
            raise BadCondition(f"{expected}. {near}".strip(), operator.at)
        value = self._advance()
        if value.kind not in ("text", "word"):
            raise BadCondition(f"a text is expected, not {_show(value)}", value.at)
        text = value.text[1:-1] if value.kind == "text" else value.text
        if field == "status" and text not in STATUSES:
            near = suggest_name(text, STATUSES)
            raise BadCondition(f"a status is {' or '.join(STATUSES)}, not {text!r}. {near}".strip(), value.at)
        return Comparison(step, field, operator.text, text)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token.kind not in ("word", "sign") or token.text != text:
            return False
        self._next += 1
        return True

    def _require(self, text: str) -> None:
        if not self._take(text):
            token = self._peek()
            raise BadCondition(f"`{text}` is expected, not {_show(token)}", token.at)


def _split(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            _refuse_character(text, at)
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*tokens, _Token("end", "", end)]


def _refuse_character(text: str, at: int) -> NoReturn:
    at += len(text[at:]) - len(text[at:].lstrip())
    reason = f"{text[at]!r} is not expected"
    if text[at] in "\"'":
        reason = "the text has no closing quotation mark"
    elif text[at] in "{}":
        reason = "a condition has no braces: write step.result"
    raise BadCondition(reason, at)


def _show(token: _Token) -> str:
    return "the end" if token.kind == "end" else f"`{token.text}`"
