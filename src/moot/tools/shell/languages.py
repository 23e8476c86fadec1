"""Programs with a command language that can run others: line editors, databases, debuggers. Pure."""

import re
from collections.abc import Iterator, Sequence

from moot.domain.shell import Verdict
from moot.tools.shell.rules import danger, doubt, operands
from moot.tools.shell.words import UNKNOWN

Carried = Verdict | str | list[str]

# In each the text a shell would run is the last group that matched; without one there is nothing to read out.
_LINE_EDITOR = re.compile(r"(?m)^[: \t]*(?:(?:[\d.,$%;'+/?\w-]*?(?:r|w|wq|e|E)|[\d.,$%;])[\d.,$%;]*[ \t]*)?!(.+)$")
_RUNS: dict[str, re.Pattern[str]] = {
    "ed": _LINE_EDITOR,
    "ex": _LINE_EDITOR,
    "sqlite3": re.compile(
        r"(?m)^[^\S\n]*\.(?:shell|system)\s+(.+)$|^[^\S\n]*\.(?:once|output|read|import|excel)\b[^|\n]*\|(.+)$|^[^\S\n]*\.load\b"
        r"|\bload_extension\s*\(|\bedit\s*\(",
        re.IGNORECASE,
    ),
    "mysql": re.compile(r"(?im)\\!\s*(.+)$|(?:^|;)[^\S\n]*system\s+(.+)$|(?:\\P|(?:^|;)[^\S\n]*pager)\s+(.+)$"),
    "psql": re.compile(
        r"(?im)\\!\s*(.+)$|\bprogram\s+(?:E|\$\w*\$)?'?(.+?)(?:'|\$|$)|\\(?:o|out|g|gx|w|watch|write)\s*\|(.+)$"
        r"|^[^\\\n`]*\\\w[^\n`]*`([^`]+)`"
    ),
    "dc": re.compile(r"!\s*(?![<>=])(.+)"),
    "gnuplot": re.compile(r"(?m)\bsystem\s*\(?\s*[\"'](.+?)[\"']|^[^\S\n]*!(.+)$|`([^`]+)`|[\"']<\s*(.+?)[\"']"),
    "m4": re.compile(r"\b(?:e?syscmd)\s*\(\s*`?(.+?)'?\s*\)", re.DOTALL),
    "ftp": re.compile(r"(?m)^[^\S\n]*!(.+)$"),
    "gdb": re.compile(
        r"(?m)^[^\S\n]*(?:shell|!|make|pipe)\s*(.*)$|^[^\S\n]*(?:python|py|source|guile)\b"
        r"|^[^\S\n]*(?:call|print|p|eval)\b[^\n]*\b(?:system|popen|execl?[vp]?e?)\s*\("
    ),
    "lldb": re.compile(r"(?m)\b(?:platform shell|shell)\s+(.+)$|^[^\S\n]*script\b|^[^\S\n]*command script\b"),
    "expect": re.compile(r"(?m)\b(?:spawn|exec|system)\s+([^\n;\]]+)|\bsend\b"),
    "mail": re.compile(r"(?m)^~[!|:]\s*(.+)$"),
}
_DESTROYS = re.compile(
    r"\bdrop\s+(database|table|schema|user|role|owned)\b|\btruncate\s+\w|\bdelete\s+from\s+[\w.\"`]+\s*(;|$)",
    re.IGNORECASE,
)
_INTO_FILE = re.compile(
    r"(?:\battach(?:\s+database)?|\binto\s+(?:outfile|dumpfile)|\.(?:output|once|backup|save|clone|log)|\\o|\bto)\s+"
    r"['\"]?([/~][^'\"\s;]*)",
    re.IGNORECASE,
)
_MOST_FILES = 32
_ALIASES = {"mariadb": "mysql", "red": "ed", "sqlite": "sqlite3", "mailx": "mail", "cgdb": "gdb", "pgcli": "psql"}
LANGUAGES = frozenset({*_RUNS, *_ALIASES})
# Options whose value is such a command.
_OPTIONS: dict[str, tuple[str, ...]] = {
    "ex": ("-c", "--cmd", "+"),
    "sqlite3": ("-cmd",),
    "mysql": ("-e", "--execute", "--pager", "--init-command"),
    "psql": ("-c", "--command"),
    "gdb": ("-ex", "-eval-command", "-iex", "--eval-command", "--init-eval-command"),
    "lldb": ("-o", "-O", "--one-line", "--one-line-before-file"),
    "expect": ("-c",),
    "dc": ("-e", "--expression"),
    "gnuplot": ("-e",),
}
# Only text is handed on by these, or what the same kind of program wrote.
HANDING = frozenset(
    {"cat", "zcat", "gunzip", "gzip", "bzcat", "xzcat", "xz", "zstd", "pg_dump", "pg_dumpall", "mysqldump", "mysql"}
    | {"sqlite3", "psql", "head", "tail", "grep", "sort"}
)


def judge_script(name: str, script: str) -> Iterator[Carried]:
    """Judge what a script makes such a program run."""
    name = _ALIASES.get(name, name)
    if UNKNOWN in script:
        yield doubt(f"{name} is given code that is known only when it runs")
    if name in ("psql", "mysql") and _DESTROYS.search(script):
        yield doubt("discards data that may exist nowhere else")
    if name in ("psql", "mysql", "sqlite3"):
        yield from (["touch", target] for target in _INTO_FILE.findall(script)[:_MOST_FILES])
    if name == "m4":
        # Past the last bracket nothing is closed, and looking for it from every place would take long.
        script = script[: script.rfind(")") + 1]
    for found in _RUNS[name].finditer(script):
        inner = next((group for group in found.groups() if group), "")
        yield doubt(f"{name} is instructed to run other programs")
        if inner.strip():
            yield inner.strip().rstrip(";")
        elif name != "expect":
            yield danger(f"{name} is instructed to run code")


def judge_arguments(name: str, arguments: Sequence[str]) -> Iterator[Carried]:
    """The same for its arguments."""
    plain = _ALIASES.get(name, name)
    for value in _option_values(_OPTIONS.get(plain, ()), arguments):
        yield from judge_script(plain, value)
        if plain == "mysql" and any(word.startswith("--pager=") and word.endswith(value) for word in arguments):
            yield value
    if plain == "sqlite3":
        for word in operands(arguments)[1:]:
            yield from judge_script(plain, word)


def _option_values(options: tuple[str, ...], arguments: Sequence[str]) -> Iterator[str]:
    for index, word in enumerate(arguments):
        for option in options:
            if word == option and index + 1 < len(arguments):
                yield arguments[index + 1]
            elif word.startswith(option) and len(word) > len(option) and (len(option) == 2 or option == "+"):
                yield word[len(option) :]
            elif option.startswith("--") and word.startswith(option + "="):
                yield word[len(option) + 1 :]
