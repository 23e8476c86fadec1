"""Lists the files that a command deletes or overwrites if they exist. Used by grammar. Pure.

Programs that write files by themselves, such as compilers, are not listed.
"""

import re
from collections.abc import Callable, Iterator
from posixpath import basename, join

from moot.domain.shell import Level, Verdict
from moot.tools.shell.rules import Words, has_option, judge_control, operands, option_value
from moot.tools.shell.words import UNKNOWN

_MOST_FILES = 200
_PATTERN = re.compile(r"[*?\[\]{}]")
_TRUNCATING = (">", ">|", "&>", ">&")
_APPENDING = (">>", "&>>")
# Options whose next word is a program, not a file.
_WITH_CODE = re.compile(r"-[A-Za-z]*[eEf]|--(expression|file)")
_OVERWRITES_UNKNOWN = Verdict(Level.DESTRUCTIVE, "overwrites files that are known only when it runs")


def is_plain(word: str) -> bool:
    """Whether the word names one file, here and now."""
    return bool(word) and UNKNOWN not in word and _PATTERN.search(word) is None


class ScriptFolders:
    """The folders that a script has been in. A relative name may be meant from any of them."""

    def __init__(self) -> None:
        self._folders = [""]

    def judge_command(self, name: str, arguments: Words) -> Iterator[Verdict]:
        """Follow `cd`, and list what one command deletes or overwrites."""
        if name in ("cd", "pushd"):
            self._folders.append(join(self._folders[-1], (operands(arguments) or ["~"])[0]))
        elif rule := _RULES.get(name):
            yield from self._judge(list(rule(list(arguments))))

    def judge_redirection(self, target: str, operator: str) -> Iterator[Verdict]:
        if operator in _TRUNCATING:
            yield from self._judge([target])
        elif operator in _APPENDING:
            for folder in dict.fromkeys(self._folders):
                yield from judge_control(join(folder, target))

    def _judge(self, names: list[str]) -> Iterator[Verdict]:
        places = [join(folder, name) for folder in dict.fromkeys(self._folders) for name in names]
        if len(places) > _MOST_FILES:
            yield Verdict(Level.DESTRUCTIVE, "deletes or overwrites many files")
        elif not all(map(is_plain, places)):
            yield _OVERWRITES_UNKNOWN
        else:
            yield Verdict(Level.OK, lost_files=tuple(places))
            for place in places:
                yield from judge_control(place)


def collect_lost_files(verdicts: list[Verdict]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in verdicts for name in each.lost_files))


def _copy(arguments: Words) -> Iterator[str]:
    """The destination, and what it would contain if it is a folder. A name that ends in / stands for all in it."""
    if has_option(arguments, "n", "--no-clobber", "--dry-run"):
        return
    named = operands(arguments)
    into = option_value(arguments, "-t", "--target-directory")
    given = [word for word in named if word != into]
    sources, target = (given, into) if into else (named[:-1], "".join(named[-1:]))
    if not sources:
        return
    yield target
    if has_option(arguments, "rRa", "--recursive", "--archive") or not all(map(is_plain, sources)):
        # What is in the source is not known here.
        yield from (f"{join(target, basename(source.rstrip('/')))}/" for source in sources if is_plain(source))
        yield from () if all(map(is_plain, sources)) else (f"{target.rstrip('/')}/",)
    else:
        yield from (join(target, basename(source)) for source in sources)


def _synchronize(arguments: Words) -> Iterator[str]:
    named = operands(arguments)
    if len(named) > 1 and not has_option(arguments, "n", "--dry-run"):
        yield from (named[-1].rstrip("/"), f"{named[-1].rstrip('/')}/")


def _link(arguments: Words) -> Iterator[str]:
    if has_option(arguments, "f", "--force"):
        yield from _copy([word for word in arguments if word != "-n"])


def _delete(arguments: Words) -> Iterator[str]:
    named = operands(arguments)
    # Several files and folders are destructive in any case.
    yield from named if len(named) == 1 and is_plain(named[0]) else ()


def _tee(arguments: Words) -> Iterator[str]:
    yield from () if has_option(arguments, "a", "--append") else operands(arguments)


def _edit_in_place(arguments: Words) -> Iterator[str]:
    """The files of `sed -i` and the like, unless it keeps a copy of them."""
    flags = [word for word in arguments if re.match(r"-[A-Za-z]*i|--in-place", word)]
    if not flags or any(re.search(r"i[.\w~*]*[.~]\w*$|=.", word) for word in flags):
        return
    has_code = any(_WITH_CODE.fullmatch(word) for word in arguments)
    before = ["", *arguments]
    files = operands([w for last, w in zip(before, arguments, strict=False) if not _WITH_CODE.fullmatch(last)])
    yield from files if has_code else files[1:]


def _sort(arguments: Words) -> Iterator[str]:
    yield from filter(None, (option_value(arguments, "-o", "--output"),))


_RULES: dict[str, Callable[[Words], Iterator[str]]] = {
    "rm": _delete,
    "unlink": _delete,
    "trash": _delete,
    "cp": _copy,
    "mv": _copy,
    "install": _copy,
    "rsync": _synchronize,
    "ln": _link,
    "tee": _tee,
    "sponge": _tee,
    "sed": _edit_in_place,
    "gsed": _edit_in_place,
    "perl": _edit_in_place,
    "ruby": _edit_in_place,
    "sort": _sort,
}
