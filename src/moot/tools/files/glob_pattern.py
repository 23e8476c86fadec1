"""Glob patterns for file paths: `*`, `?`, `[…]`, `{a,b}` and `**`, matched without backtracking. Pure."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate

from moot.domain.errors import BadRequest

_LONGEST = 500
_MOST_ALTERNATIVES = 64
# Of all alternatives together. With the depth of a path this bounds what one comparison costs.
_MOST_PARTS = 256
_DEEPEST = 128
_ANY_FOLDERS = "**"
_BRACES = re.compile(r"\{([^{}]*)\}")
# Last parts of a pattern that ripgrep and this module read alike.
_PLAIN_NAME = re.compile(r"[\w.*?-]+", re.ASCII)


class GlobPattern:
    """A glob for paths relative to a folder. Without a slash it is about the name, at any depth."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise BadRequest(f"the glob has {len(pattern)} characters", fix=f"Use at most {_LONGEST}.")
        self._alternatives = [_compile(each) for each in _expand_braces(pattern)]
        if sum(map(len, self._alternatives)) > _MOST_PARTS:
            raise BadRequest("the glob has too many parts", fix=f"Use at most {_MOST_PARTS} in all alternatives.")
        self._names = [each.rpartition("/")[2] for each in _expand_braces(pattern)]

    def matches(self, path: str) -> bool:
        """Whether the path is selected. One that the file tools could not open, because it is too deep, is not."""
        names = path.split("/")
        if len(names) > _DEEPEST:
            return False
        return any(_matches_parts(parts, names) for parts in self._alternatives)

    def name_globs(self) -> list[str]:
        """Globs of which every matching file's name matches one, for a first selection; empty if there are none."""
        return self._names if all(map(_PLAIN_NAME.fullmatch, self._names)) else []


def _expand_braces(pattern: str) -> list[str]:
    expanded = [pattern]
    while any(_BRACES.search(each) for each in expanded):
        expanded = [one for each in expanded for one in _expand_first(each)]
        if len(expanded) > _MOST_ALTERNATIVES:
            raise BadRequest("the glob has too many alternatives", fix=f"Use at most {_MOST_ALTERNATIVES}.")
    return expanded


def _expand_first(pattern: str) -> Iterator[str]:
    found = _BRACES.search(pattern)
    if found is None:
        yield pattern
        return
    for alternative in found[1].split(","):
        yield pattern[: found.start()] + alternative + pattern[found.end() :]


def _compile(pattern: str) -> list[re.Pattern[str] | None]:
    """Return one expression for each part of the path; None stands for any number of folders."""
    is_name = "/" not in pattern
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise BadRequest(f"{pattern!r} is not a glob", fix="Use a glob such as *.py or src/**/*.ts.")
    compiled = [None if part == _ANY_FOLDERS else re.compile(translate(part)) for part in parts]
    if compiled[-1] is None:
        compiled.append(re.compile(translate("*")))
    return [None, *compiled] if is_name else compiled


def _matches_parts(parts: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Whether the parts match all names. Each pair is looked at once, so the cost is bounded by their product."""
    reachable = {0}
    for part in parts:
        if part is None:
            reachable = set(range(min(reachable), len(names) + 1))
        else:
            reachable = {at + 1 for at in reachable if at < len(names) and part.match(names[at])}
        if not reachable:
            return False
    return len(names) in reachable
