"""Finds string literals and references to secrets in code without parsing it, in linear time. Pure."""

import re
from collections.abc import Sequence

from moot.domain.errors import BadRequest
from moot.domain.secret import references, through_environment

# The second half is a quote that nothing closes; looking for its end is what costs.
_QUOTED = re.compile(r"""'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`([^`]*)`|['"`]""")
_OPENING = re.compile(r"(?:%x|\bq[xw])\s*([!-/:-@\[-`{-~])")
_CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}
# Plain words need no quotes, and in quotes all of them would be one.
_PLACED = re.compile(r'"\$\{?(@)\}?"|\$(?:([\d@*])|\{([\d@*])\})')
PLAIN = re.compile(r"[\w./~*@%+=:-]+")
_MOST_LOST = 1_000_000


def follows(code: str, first: re.Pattern[str], second: re.Pattern[str]) -> bool:
    """Whether one pattern occurs after the other. A single pattern would try every pair."""
    found = first.search(code)
    return found is not None and second.search(code, found.end()) is not None


def substitute_words(code: str, given: Sequence[str]) -> str:
    """The text with positional parameters replaced: the first word is $0, the others $1 and so on."""
    if not given or not all(PLAIN.fullmatch(word) for word in given):
        return code

    def word(match: re.Match[str]) -> str:
        number = match[1] or match[2] or match[3]
        return " ".join(given[1:]) if number in "@*" else "".join(given[int(number) : int(number) + 1])

    return _PLACED.sub(word, code)


def list_quoted(code: str) -> list[str] | None:
    """The contents of quotes; empty if too many quotes are unclosed to search for each end."""
    literals, lost = [], 0
    for found in _QUOTED.finditer(code):
        if found.lastindex is not None:
            literals.append(found[found.lastindex])
            continue
        end = code.find("\n", found.end())
        lost += (end if end >= 0 else len(code)) - found.end()
        if lost > _MOST_LOST:
            return None
    return literals


def list_shell_quoted(code: str) -> list[str]:
    """The contents of the quotes that run a program in Perl and Ruby, with any delimiter."""
    literals: list[str] = []
    never_closed: set[str] = set()
    position = 0
    while found := _OPENING.search(code, position):
        closing, position = _CLOSING.get(found[1], found[1]), found.end()
        end = code.find(closing, position) if closing not in never_closed else -1
        if end < 0:
            never_closed.add(closing)
        else:
            literals.append(code[position:end])
            position = end + 1
    return [literal for literal in literals if literal]


def hide_references(command: str) -> str:
    """The command with secret references replaced by variables, whose values are unknown here."""
    found = references(command)
    if not found:
        return command
    try:
        return through_environment(command, {reference.token: "" for reference in found})[0]
    except BadRequest:
        # It stands where no variable can: what runs commands will say so, and this is for whoever else reads it.
        for reference in reversed(found):
            command = f"{command[: reference.start]}${{MOOT_SECRET}}{command[reference.end :]}"
        return command
