"""Finds commands that destroy what cannot be taken back, beyond one plainly named file. Used by grammar. Pure.

Such a command is neither doubtful nor refused; it only needs approval where ordinary commands do not.
"""

import re
from collections.abc import Callable, Iterator
from itertools import takewhile

from moot.domain.shell import Level, Verdict
from moot.tools.shell.rules import INTERPRETERS, Words, has_option, judge_write, operands
from moot.tools.shell.words import UNKNOWN

_DELETER = re.compile(r"\b(rm|unlink|shred|truncate|trash|srm)\b")
# Deletion of folders in code of other languages.
_CODE = re.compile(r"\brmtree\b|\brm_rf?\b|\brmSync\b|\bremove_tree\b")
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
# Folders of the sandbox that are removed after the command.
_PASSING = re.compile(r"/(tmp|var/tmp|dev/shm)(/|$)")
_PATTERN = re.compile(r"[*?\[\]{}]")
_DELETES_ONE = "deletes the file "


def judge_destruction(name: str, arguments: Words) -> Iterator[Verdict]:
    """Return what one command destroys. Deleting one named file is ordinary, but is counted by `count_deletions`."""
    if find := _RULES.get(name):
        for reason in find(list(arguments)):
            is_one = reason.startswith(_DELETES_ONE)
            yield Verdict(Level.OK if is_one else Level.DESTRUCTIVE, reason)


def judge_redirection(target: str, operator: str) -> Iterator[Verdict]:
    """Judge output to a file. If the name is not plain, the same redirection can overwrite many files."""
    yield from judge_write(target)
    if operator in (">", ">|", "&>") and not _is_plain(target):
        yield Verdict(Level.DESTRUCTIVE, "overwrites files that are known only when it runs")


def count_deletions(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts, and one more if several commands each delete one named file."""
    deleted = {each.reason for each in verdicts if each.reason.startswith(_DELETES_ONE)}
    return [*verdicts, Verdict(Level.DESTRUCTIVE, "deletes several files")] if len(deleted) > 1 else verdicts


def _is_plain(word: str) -> bool:
    """Whether the word names one file, here and now."""
    return bool(word) and UNKNOWN not in word and _PATTERN.search(word) is None


def _delete(arguments: Words) -> Iterator[str]:
    named = operands(arguments)
    if has_option(arguments, "rRd", "--recursive", "--dir"):
        yield "deletes folders with all that is in them"
    elif len(named) > 1 or not all(map(_is_plain, named)):
        yield "deletes several files"
    elif named:
        yield _DELETES_ONE + named[0]


def _empty(_arguments: Words) -> Iterator[str]:
    yield "destroys the content of files"


def _copy_blocks(arguments: Words) -> Iterator[str]:
    if any(word.startswith("of=") and word != "of=/dev/null" for word in arguments):
        yield "overwrites a file block by block"


def _move(arguments: Words) -> Iterator[str]:
    if _PASSING.match((operands(arguments) or [""])[-1]):
        yield "moves files to a folder that is removed after the command"


def _synchronize(arguments: Words) -> Iterator[str]:
    if any(word.startswith(("--delete", "--del", "--remove-source-files")) for word in arguments):
        yield "deletes files that are missing on the other side"


def _pack(arguments: Words) -> Iterator[str]:
    if has_option(arguments, "", "--remove-files", "--move"):
        yield "deletes the files it packs"


def _find(arguments: Words) -> Iterator[str]:
    words = list(arguments)
    runs = [index for index, word in enumerate(words) if word in _FIND_RUNS]
    commands = [list(takewhile(lambda word: word not in (";", "+"), words[index + 1 :])) for index in runs]
    if "-delete" in words or any(_DELETER.search(word) for command in commands for word in command):
        yield "deletes what it finds"


def _on_each_line(arguments: Words) -> Iterator[str]:
    if any(map(_DELETER.search, arguments)):
        yield "deletes what is listed for it"


def _run_code(arguments: Words) -> Iterator[str]:
    if any(map(_CODE.search, arguments)):
        yield "deletes folders with all that is in them"


def _git(arguments: Words) -> Iterator[str]:
    words = list(arguments)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in ("-C", "-c", "--work-tree", "--git-dir", "--namespace", "--config-env") else 1]
    verb, rest = (words[0] if words else ""), words[1:]
    if verb == "push" and not has_option(rest, "n", "--dry-run"):
        yield "publishes commits"
    if verb in _GIT_DISCARDS and _GIT_DISCARDS[verb](rest):
        yield "discards changes or commits that may be nowhere else"


def _discards_by_checkout(rest: Words) -> bool:
    if has_option(rest, "f", "--force"):
        return True
    if has_option(rest, "bBt", "--track", "--orphan", "--detach"):
        return has_option(rest, "B")
    named = operands(rest)
    return "--" in rest or len(named) > 1 or any(word.startswith((".", ":", "*")) for word in named)


def _discards_by_restore(rest: Words) -> bool:
    return not has_option(rest, "S", "--staged") or has_option(rest, "W", "--worktree")


_GIT_DISCARDS: dict[str, Callable[[Words], bool]] = {
    "checkout": _discards_by_checkout,
    "restore": _discards_by_restore,
    "switch": lambda rest: has_option(rest, "fC", "--force", "--discard-changes", "--force-create"),
    "reset": lambda rest: has_option(rest, "", "--hard", "--merge", "--keep"),
    "clean": lambda rest: not has_option(rest, "n", "--dry-run"),
    "branch": lambda rest: has_option(rest, "DMCf", "--force"),
    "tag": lambda rest: has_option(rest, "df", "--delete", "--force"),
    "stash": lambda rest: rest[:1] in (["drop"], ["clear"]),
    "rm": lambda rest: has_option(rest, "f", "--force"),
    "worktree": lambda rest: rest[:1] == ["remove"] and has_option(rest, "f", "--force"),
}

_RULES: dict[str, Callable[[Words], Iterator[str]]] = {
    "rm": _delete,
    "unlink": _delete,
    "trash": _delete,
    "truncate": _empty,
    "dd": _copy_blocks,
    "mv": _move,
    "rsync": _synchronize,
    "tar": _pack,
    "zip": _pack,
    "find": _find,
    "xargs": _on_each_line,
    "parallel": _on_each_line,
    "git": _git,
    **dict.fromkeys(INTERPRETERS, _run_code),
}
