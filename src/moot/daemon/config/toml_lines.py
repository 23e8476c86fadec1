"""Finds the line of each key in a valid TOML text. Pure."""

import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""{0,2}|'
    r"'''.*?'''{0,2}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'",
    re.DOTALL,
)
_GAP = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")

KeyPath = tuple[str, ...]


def find_key_lines(text: str) -> dict[KeyPath, int]:
    """Return the lines of tables and keys by path; keys inside an inline table have the line of their owner."""
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    at = _skip(_BLANK, text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        if text[at] == "[":
            at += 2 if text.startswith("[[", at) else 1
            table, at = _parse_names(text, at)
            found.setdefault(table, line)
            at = _end_of_line(text, at)
        else:
            names, at = _parse_names(text, at)
            found.setdefault(table + names, line)
            at = _value_end(text, at + 1)
        at = _skip(_BLANK, text, at)
    return found


def find_line(lines: dict[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a key, or of its nearest ancestor that has one."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def _parse_names(text: str, at: int) -> tuple[KeyPath, int]:
    """Parse dotted names; return them and the position after the following whitespace."""
    names: list[str] = []
    while True:
        at = _skip(_GAP, text, at)
        match = _BARE.match(text, at) or _STRING.match(text, at)
        if match is None:
            return tuple(names), at
        names.append(match[0].strip("\"'"))
        at = _skip(_GAP, text, match.end())
        if not text.startswith(".", at):
            return tuple(names), at
        at += 1


def _value_end(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        character = text[at]
        if character in "\"'":
            match = _STRING.match(text, at)
            at = match.end() if match else at + 1
            continue
        if character == "#":
            at = _end_of_line(text, at)
            continue
        if character == "\n" and depth == 0:
            return at
        depth += (character in "[{") - (character in "]}")
        at += 1
    return at


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
