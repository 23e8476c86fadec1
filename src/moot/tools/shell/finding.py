"""Classifies the actions of find. Pure."""

import re
from collections.abc import Iterator
from itertools import takewhile

from moot.tools.shell import paths
from moot.tools.shell.languages import Carried
from moot.tools.shell.rules import danger, doubt

_DOES_AWAY = re.compile(r"\b(rm|unlink|shred|truncate|ccrypt|age)\b|openssl enc|^(enc|-c|--symmetric)$|/dev/null")
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_KEYS = re.compile(
    r"\.(pem|key|p12|pfx|kdbx?|ppk|ovpn|jks|asc|gpg)$|^id_|password|passwd|secret|credential|token|wallet",
    re.IGNORECASE,
)
# Each start with each command; nobody writes more.
_MOST = 64


def judge_find(arguments: list[str]) -> Iterator[Carried]:
    starts = _starts(arguments)
    wide = any(paths.is_root_like(start) or paths.is_system(start) for start in starts)
    if "-delete" in arguments and wide:
        yield danger("deletes what it finds in system folders or the home folder")
    elif "-delete" in arguments and len(arguments) <= len(starts) + 1:
        yield doubt("removes everything it finds")
    if wide and any(_KEYS.search(name) for name in _names(arguments)):
        yield doubt("searches for keys in system folders or the home folder")
    if len(starts) * sum(word in _FIND_RUNS for word in arguments) > _MOST:
        yield danger("it is too complex to be checked")
        return
    yield from _judge_actions(starts, arguments, wide=wide)


def _judge_actions(starts: list[str], arguments: list[str], *, wide: bool) -> Iterator[Carried]:
    for index, word in enumerate(arguments):
        if word in _FIND_RUNS:
            yield from _on_each(
                starts, list(takewhile(lambda w: w not in (";", "+"), arguments[index + 1 :])), wide=wide
            )
        if word in ("-fprintf", "-fprint", "-fls"):
            yield ["touch", *arguments[index + 1 : index + 2]]


def _on_each(starts: list[str], inner: list[str], *, wide: bool) -> Iterator[Carried]:
    """Judge what find does with each result."""
    if wide and any(_DOES_AWAY.search(word) for word in inner):
        yield danger("deletes what it finds in system folders or the home folder")
    for start in starts:
        one = start if wide else f"{start.rstrip('/')}/x"
        yield [part.replace("{}", one) for part in inner]


def _starts(arguments: list[str]) -> list[str]:
    own = [word for index, word in enumerate(arguments) if "-D" not in (word, *arguments[max(0, index - 1) : index])]
    before = takewhile(lambda word: not word.startswith(("-", "(", "!")) or re.match(r"-([LHP]|O\d*)$", word), own)
    return [word for word in before if not word.startswith("-")] or ["."]


def _names(arguments: list[str]) -> Iterator[str]:
    return (after for word, after in zip(arguments, arguments[1:], strict=False) if word in ("-name", "-iname"))
