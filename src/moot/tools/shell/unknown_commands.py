"""Finds commands in the arguments of an unknown program, which may start them. Pure."""

import re
from collections.abc import Iterator, Sequence

from moot.tools.shell.rules import INTERPRETERS, SHELLS, name_set
from moot.tools.shell.words import UNKNOWN

# Their words are texts or names and nothing more, or are looked at one by one elsewhere.
TELLING = name_set(
    "echo printf grep egrep fgrep zgrep rg ag ack git gh glab hub man info which type whereis whatis apropos help "
    "tldr test [ [[ export declare local readonly typeset set unset read alias unalias complete compgen hash "
    "enable basename dirname cut tr wc head tail cat diff cmp file stat du ls tree jq yq sed awk gawk mawk nawk "
    "find fd fdfind ssh logger notify-send say cowsay figlet toilet apt apt-get dnf yum brew pacman pip npm yarn "
    "pnpm cargo gem docker podman nerdctl rm rmdir mv cp ln chmod chown chgrp tee touch mkdir patch mail sendmail "
    "kill pkill killall xdg-open code"
)
# What can do away with a machine, and what can be told to.
_GRAVE = name_set("rm dd mv chmod chown find tee shred truncate") | SHELLS | INTERPRETERS
_RUNNING = SHELLS | INTERPRETERS
_GIVEN_CODE = re.compile(r"-[A-Za-z]*[ceEr]|-{1,2}(eval|command|run|print)\b.*|eval")
# More of them than anybody writes; looking into each would take long.
_INSIDE = re.compile(r"(?:^|[\s=!:;|&({\"'`,\[])((?:/usr)?(?:/s?bin/)?(?:rm|dd|shred|chmod|chown|mkfs\S*)\b[^\n;|&#]*)")
_MARKS = re.compile(r"[\"'`,\[\](){}]")
_MOST, _MOST_WORDS = 32, 2_000


def list_handed(name: str, arguments: Sequence[str]) -> list[list[str]]:
    """The trailing words that form a command of their own; UNKNOWN if there are too many."""
    if name in TELLING:
        return []
    starts = [(index, _dangerous_name(word)) for index, word in enumerate(arguments)]
    grave = [
        (index, inner)
        for index, inner in starts
        if inner and (inner not in _RUNNING or _runs_code(arguments[index + 1 : index + 7]))
    ]
    if len(grave) > _MOST or sum(len(arguments) - index for index, _ in grave) > _MOST_WORDS:
        return [[UNKNOWN]]
    return [[inner, *arguments[index + 1 :]] for index, inner in grave]


def list_handed_texts(name: str, arguments: Sequence[str]) -> Iterator[str]:
    """The single words that are a complete command."""
    if name in TELLING:
        return
    for word in arguments[:_MOST]:
        text = re.sub(r"^-{1,2}[\w-]+=|^-\w(?=\w+ )", "", word).strip()
        if not re.search(r"\s", text) and '"' not in text:
            continue
        if _dangerous_name(text.split()[0]):
            yield text
        elif name not in INTERPRETERS:
            yield from find_commands(text)


def find_commands(text: str) -> list[str]:
    """The commands inside a text, however they are delimited."""
    if not _INSIDE.search(text):
        return []
    plain = _MARKS.sub(" ", text)
    return [found[1] for found in _INSIDE.finditer(plain)][:_MOST]


def _runs_code(words: Sequence[str]) -> bool:
    return any(_GIVEN_CODE.fullmatch(word) for word in words)


def _dangerous_name(word: str) -> str:
    """The name of a dangerous program, also with its usual path."""
    bare = re.sub(r"^(?:/usr)?(?:/local)?/s?bin/", "", word) if UNKNOWN not in word else ""
    known = re.sub(r"^(python|perl|ruby|node|php|lua)[\d.]+$", r"\1", bare)
    return known if known in _GRAVE else ""
