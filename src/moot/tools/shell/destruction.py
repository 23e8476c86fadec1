"""Finds commands that destroy what cannot be taken back, beyond one plainly named file. Used by grammar. Pure.

Such a command is neither doubtful nor refused; it only needs approval where ordinary commands do not.
"""

import re
from collections.abc import Callable, Iterator
from itertools import takewhile

from moot.domain.shell import Level, Verdict
from moot.tools.shell.lost_files import is_plain
from moot.tools.shell.rules import Words, has_option, operands, option_value

_DELETER = re.compile(r"\b(rm|unlink|shred|truncate|trash|srm)\b")
# Deletion in code of other languages: of folders; of files; and what repeats it.
_CODE = re.compile(r"\brmtree\b|\brm_rf?\b|\brmSync\b|\bremove_tree\b")
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
# Folders of the sandbox that are removed after the command.
_PASSING = re.compile(r"/(tmp|var/tmp|dev/shm)(/|$)")
_CODE_DELETES = re.compile(r"\bos\.remove\b|\bunlink(Sync)?\b|\bFile\.delete\b")
_CODE_REPEATS = re.compile(r"\b(for|foreach|forEach|each|map|while|glob|listdir|walk)\b")
_DELETES_ONE = "deletes the file "


def judge_destruction(name: str, arguments: Words) -> Iterator[Verdict]:
    """Return what one command destroys. Deleting one named file is ordinary, but is counted by `count_deletions`."""
    if find := _RULES.get(name):
        for reason in find(list(arguments)):
            is_one = reason.startswith(_DELETES_ONE)
            yield Verdict(Level.OK if is_one else Level.DESTRUCTIVE, reason)


def count_deletions(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts, and one more if several commands each delete one named file."""
    deleted = {each.reason for each in verdicts if each.reason.startswith(_DELETES_ONE)}
    return [*verdicts, Verdict(Level.DESTRUCTIVE, "deletes several files")] if len(deleted) > 1 else verdicts


def _delete(arguments: Words) -> Iterator[str]:
    named = operands(arguments)
    if _has(arguments, "rRd", "--recursive", "--dir"):
        yield "deletes folders with everything in them"
    elif len(named) > 1 or not all(map(is_plain, named)):
        yield "deletes several files"
    elif named:
        yield _DELETES_ONE + named[0]


def _has(arguments: Words, letters: str, *names: str) -> bool:
    """Whether one of the options is present, also if its long name is shortened."""
    long = (word for word in takewhile(lambda word: word != "--", arguments) if re.match(r"--\w", word))
    return has_option(arguments, letters) or any(name.startswith(word) for word in long for name in names)


def _copy_to_each(arguments: Words) -> Iterator[str]:
    if len(operands(arguments)) > 1 and not has_option(arguments, "a", "--append"):
        yield "overwrites several files"


def _empty(_arguments: Words) -> Iterator[str]:
    yield "destroys the content of files"


def _copy_blocks(arguments: Words) -> Iterator[str]:
    if any(word.startswith("of=") and word != "of=/dev/null" for word in arguments):
        yield "overwrites a file block by block"


def _move(arguments: Words) -> Iterator[str]:
    if _PASSING.match(option_value(arguments, "-t", "--target-directory") or (operands(arguments) or [""])[-1]):
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


def judge_code(script: str) -> Iterator[Verdict]:
    """Judge code of another language: it may delete one file, but no folder, and none in a loop."""
    if _CODE.search(script) or (_CODE_DELETES.search(script) and _CODE_REPEATS.search(script)):
        yield Verdict(Level.DESTRUCTIVE, "deletes several files or folders")


def _revert(arguments: Words) -> Iterator[str]:
    """Judge the commands of Mercurial and Subversion."""
    if operands(arguments)[:1] in (["revert"], ["purge"], ["strip"]) or _has(arguments, "C", "--clean"):
        yield "discards changes that may be nowhere else"


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
    if _has(rest, "f", "--force"):
        return True
    if has_option(rest, "bBt", "--track", "--orphan", "--detach"):
        return has_option(rest, "B")
    named = operands(rest)
    return "--" in rest or len(named) > 1 or any(word.startswith((".", ":", "*")) for word in named)


def _discards_by_restore(rest: Words) -> bool:
    return not has_option(rest, "S", "--staged") or _has(rest, "W", "--worktree")


_GIT_DISCARDS: dict[str, Callable[[Words], bool]] = {
    "checkout": _discards_by_checkout,
    "restore": _discards_by_restore,
    "switch": lambda rest: _has(rest, "fC", "--force", "--discard-changes", "--force-create"),
    "reset": lambda rest: _has(rest, "", "--hard", "--merge", "--keep"),
    "clean": lambda rest: not has_option(rest, "n", "--dry-run"),
    "branch": lambda rest: _has(rest, "DMCf", "--force"),
    "tag": lambda rest: _has(rest, "df", "--delete", "--force"),
    "stash": lambda rest: rest[:1] in (["drop"], ["clear"]),
    "rm": lambda rest: _has(rest, "f", "--force"),
    "worktree": lambda rest: rest[:1] == ["remove"] and _has(rest, "f", "--force"),
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
    "hg": _revert,
    "svn": _revert,
    "tee": _copy_to_each,
}
