"""Finds the argument of a shell or interpreter that holds code. Pure."""

import re
from collections.abc import Sequence

_LETTERS = {
    "python": "c",
    "perl": "eE",
    "ruby": "e",
    "node": "ep",
    "nodejs": "ep",
    "php": "rBRE",
    "lua": "e",
    "bun": "e",
}
# Options of theirs that take the next word, which is then neither code nor a script.
_TAKING = {
    "python": ("-W", "-X", "--check-hash-based-pycs"),
    "perl": ("-I",),
    "ruby": ("-I", "-r", "-C", "-E", "-F"),
    "php": ("-d", "-c", "-z", "-t", "-S"),
    "lua": ("-l",),
    "Rscript": ("--default-packages",),
    **dict.fromkeys(
        ("node", "nodejs", "bun"),
        ("-r", "-C", "--require", "--import", "--input-type", "--loader", "--conditions", "--env-file", "--title"),
    ),
}
_SPELT_OUT = ("--command", "--eval", "--print", "--run", "--init-command")
_SHELL_TAKING = re.compile(r"[-+][a-zA-Z]*[oO]|--(?:rcfile|init-file|emulate|features|profile)")


def code_of(name: str, arguments: Sequence[str]) -> str | None:
    """The code in an interpreter's arguments; empty if there is none."""
    if name == "deno":
        return _after(arguments, "eval")
    return _code(arguments, _LETTERS.get(name, "e"), _TAKING.get(name, ()))


def shell_code(name: str, arguments: Sequence[str]) -> str | None:
    """The script of a shell: the first operand after -c, which other options may follow."""
    if name == "pwsh":
        return _powershell(arguments)
    given, rest = False, list(arguments)
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        option, sets, value = rest[0].partition("=")
        if option in _SPELT_OUT or name == "fish" and option == "-C":
            return value if sets else "".join(rest[1:2])
        if rest[0] == "--":
            rest = rest[1:]
            break
        attached = rest[0][2:] if name == "fish" and rest[0].startswith("-c") else ""
        if attached:
            return attached
        given |= not option.startswith("--") and option.startswith("-") and "c" in option
        rest = rest[2 if _SHELL_TAKING.fullmatch(option) and not sets else 1 :]
    return "".join(rest[:1]) if given else None


def option_code(arguments: Sequence[str], letters: str) -> str | None:
    """The word after -c, also if -c is combined with other letters."""
    return _code(arguments, letters, ())


def _code(arguments: Sequence[str], letters: str, taking: Sequence[str]) -> str | None:
    rest = list(arguments)
    while rest:
        word, after = rest[0], "".join(rest[1:2])
        option, sets, value = word.partition("=")
        if option in _SPELT_OUT:
            return value if sets else after
        if word in taking:
            rest = rest[2:]
            continue
        if re.fullmatch(rf"-[A-Za-z0-9]*[{letters}]", word):
            return after
        if word[:1] == "-" and len(word) > 2 and word[1] in letters and letters != "ep" and word[:2] != "--":
            return word[2:]
        if not word.startswith(("-", "+")):
            return None
        rest = rest[1:]
    return None


def _powershell(arguments: Sequence[str]) -> str | None:
    for index, word in enumerate(arguments):
        if re.fullmatch(r"-c(o(m(m(a(n(d)?)?)?)?)?)?", word, re.IGNORECASE):
            return " ".join(arguments[index + 1 :])
        if not word.startswith("-"):
            return None
    return None


def _after(arguments: Sequence[str], verb: str) -> str | None:
    words = [word for word in arguments if not word.startswith("-")]
    return "".join(words[1:2]) if words[:1] == [verb] else None
