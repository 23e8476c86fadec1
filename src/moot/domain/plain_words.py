"""Reads the words of a plain shell command. What is not plain has no words. Used by rules about commands. Pure.

A command is plain if every shell takes it as one program with these arguments: no operator, redirection, expansion,
assignment, pattern, comment, escape or keyword. Anything that is not known to be harmless makes it not plain.
"""

import re

# Characters that mean themselves outside quotes. `=` is checked apart: before the program it would be an assignment.
_BARE = r"[A-Za-z0-9_@%+=:,./-]+"
# Inside quotes, printable ASCII and letters of any script; between double quotes nothing that is expanded there.
_SINGLE = r"'([^'\x00-\x1f\x7f-\x9f]*)'"
_DOUBLE = r'"([^"$`\\!\x00-\x1f\x7f-\x9f]*)"'
_PIECE = re.compile(rf"({_BARE})|{_SINGLE}|{_DOUBLE}")
_LONGEST = 4_096

# Words that change what the next ones mean, if they are written in place of the program.
_KEYWORDS = frozenset(
    {
        "!", "[[", "]]", "{", "}", "if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "while",
        "until", "do", "done", "in", "function", "time", "coproc",
    }
)  # fmt: skip
# Programs and builtins that run other commands given as words: their words do not say what is run.
_RUNNERS = frozenset(
    {
        ".", "source", "eval", "exec", "command", "builtin", "env", "sh", "bash", "dash", "zsh", "ksh", "fish",
        "busybox", "xargs", "nohup", "nice", "ionice", "timeout", "stdbuf", "setsid", "sudo", "su", "doas", "watch",
        "parallel", "trap", "alias", "enable", "hash", "set", "shopt", "export", "declare", "typeset", "local",
        "readonly", "unset", "cd", "pushd", "popd", "ssh", "chroot", "unshare", "flock", "script", "strace",
        "ltrace", "gdb",
    }
)  # fmt: skip


def read_plain_words(command: str) -> tuple[str, ...] | None:
    """Return the words of a plain command, the program first; None if it is not plain."""
    if len(command) > _LONGEST:
        return None
    words: list[str] = []
    at, text = 0, command.strip(" ")
    while at < len(text):
        word, at = _read_word(text, at)
        if word is None:
            return None
        words.append(word)
        while at < len(text) and text[at] == " ":
            at += 1
    return tuple(words) if words and _is_program(words[0]) else None


def _read_word(text: str, at: int) -> tuple[str | None, int]:
    """Return the word that begins here and where it ends; None if it is not plain."""
    pieces: list[str] = []
    while at < len(text) and text[at] != " ":
        found = _PIECE.match(text, at)
        if found is None:
            return None, at
        pieces.append(next(piece for piece in found.groups() if piece is not None))
        at = found.end()
    return "".join(pieces), at


def _is_program(word: str) -> bool:
    name = word.rpartition("/")[2]
    return bool(name) and "=" not in word and word not in _KEYWORDS and name not in _RUNNERS
