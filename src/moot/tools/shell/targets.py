"""Finds the files that a program is told to write. Pure."""

import re
from collections.abc import Iterator, Sequence

from moot.domain.shell import Verdict
from moot.tools.shell import paths
from moot.tools.shell.rules import danger, doubt, has_option, judge_write, name_set, operands

# For nearly every program these are output options; exceptions are below.
_USUAL = ("-o", "--output", "--output-file", "--out", "-out")
_OTHERWISE = name_set(
    "echo printf grep egrep fgrep zgrep rg ag ack ps ls set shopt find fd fdfind ssh scp sftp mount bash sh zsh ksh "
    "dash test [ [[ lsof netstat ss id read nm readelf ldd sudo useradd man jq yq column cut paste git"
)
_OWN: dict[str, tuple[str, ...]] = {
    "curl": (
        *_USUAL, "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--stderr",
        "--libcurl", "--etag-save",
    ),
    "wget": (*_USUAL, "-O", "--output-document", "-P", "--directory-prefix", "-a", "--append-output", "--save-cookies"),
    "tar": ("--one-top-level",),
    "bsdtar": ("-C",),
    "cpio": ("-D", "--directory", "-O"),
    "patch": (*_USUAL, "-d", "--directory"),
    "aria2c": (*_USUAL, "-d", "--dir"),
    "unzip": ("-d",),
    "unsquashfs": ("-d", "-dest"),
    "git": ("-o", "--output", "--output-directory"),
}  # fmt: skip
# Programs that replace the files they are given.
_REPLACING = name_set("gzip gunzip bzip2 bunzip2 xz unxz zstd lzma strip ex ed patch")
_COPYING = name_set("cp mv install ln")
_GETTING = name_set("clone init worktree")


def judge_written(name: str, arguments: Sequence[str]) -> Iterator[Verdict]:
    for target in (*_by_option(name, arguments), *_by_place(name, arguments)):
        # A name inside the working directory is what it is for.
        if target.startswith(("/", "~")) or paths.is_startup_file(target):
            yield from judge_write(target)
    if name in ("tar", "bsdtar") and _keeps_roots(arguments):
        yield doubt("unpacks to paths that the archive chooses")
    if name == "find" and "-delete" in arguments and any(word.startswith("-files0-from") for word in arguments):
        yield danger("removes files that a list names")


def _by_option(name: str, arguments: Sequence[str]) -> Iterator[str]:
    options = _OWN.get(name, () if name in _OTHERWISE else _USUAL)
    letters = "".join(option[1] for option in options if re.fullmatch(r"-[A-Za-z]", option))
    for index, word in enumerate(arguments):
        option, sets, value = word.partition("=")
        after = "".join(arguments[index + 1 : index + 2])
        if option in options:
            yield value if sets else after
        elif letters and (short := re.fullmatch(rf"-[A-Za-z#]*?[{letters}]([/~].*)?", word)):
            # Letters are often put together, the one that takes a name last.
            yield short[1] or after


def _by_place(name: str, arguments: Sequence[str]) -> Iterator[str]:
    given = operands(arguments)
    if _replaces(name, arguments):
        yield from given
    elif name == "uniq":
        yield from given[1:2]
    elif name in _COPYING:
        yield from _expand_abbreviations(arguments)
    elif name == "objcopy" or _is_folder_target(name, given):
        yield from given[-1:]


def _replaces(name: str, arguments: Sequence[str]) -> bool:
    if name in ("awk", "gawk"):
        return "inplace" in arguments
    return name in _REPLACING and not has_option(arguments, "clt", "--stdout", "--list", "--test", "--dry-run")


def _is_folder_target(name: str, given: Sequence[str]) -> bool:
    """Whether the last word is a folder that is created or filled."""
    if name == "python":
        return list(given[:1]) == ["venv"]
    if name == "cpio":
        return bool(given)
    return name == "git" and bool(given) and given[0] in _GETTING


def _expand_abbreviations(arguments: Sequence[str]) -> Iterator[str]:
    """The folder of --target-directory, also if the option is abbreviated."""
    for index, word in enumerate(arguments):
        if cut := re.fullmatch(r"--ta[a-z-]*(?:=(.*))?", word):
            yield cut[1] if cut[1] is not None else "".join(arguments[index + 1 : index + 2])


def _keeps_roots(arguments: Sequence[str]) -> bool:
    first = arguments[0] if arguments else ""
    unpacks = "x" in first and not first.startswith("--") or has_option(arguments, "x", "--extract", "--get")
    return unpacks and ("P" in first and "/" not in first or has_option(arguments, "P", "--absolute-names"))
