"""Programs that can run other programs through their options: filters, pagers, builders. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence

from moot.tools.shell import paths
from moot.tools.shell.languages import Carried
from moot.tools.shell.rules import SHELLS, danger, doubt, name_set, operands, option_value
from moot.tools.shell.words import UNKNOWN

_MAKE_RUNS = re.compile(r"\$[({]\s*(shell|eval|guile|file)\b|^\.SHELLFLAGS|^\w*!=")
_TMUX_LOOKS = re.compile(
    r"ls|lsp|lsw|list-\w+|attach(-session)?|a|at|has(-session)?|kill-\w+|capture-pane|capturep|info|show-\w+|start-server"
    r"|select-\w+|display(-message)?|rename-\w+|switch-client|detach(-client)?|-V"
)
_TMUX_TAKES = frozenset({"-s", "-n", "-t", "-c", "-e", "-x", "-y", "-F", "-f", "-L", "-S", "-l", "-p", "-b", "-d0"})
_SCREEN_TAKES = frozenset({"-S", "-c", "-e", "-h", "-p", "-s", "-t", "-T"})
_SCREEN_LOOKS = frozenset({"-ls", "-list", "-r", "-v", "--version", "-x", "-wipe"})


def _option(*names: str) -> Callable[[Sequence[str]], Iterator[Carried]]:
    """Build a rule for a program with an option that takes a command line."""

    def carries(arguments: Sequence[str]) -> Iterator[Carried]:
        if value := option_value(arguments, *names):
            yield value

    return carries


def _program(*names: str) -> Callable[[Sequence[str]], Iterator[Carried]]:
    """Build a rule for a program with an option that takes the name of a program to start."""

    def carries(arguments: Sequence[str]) -> Iterator[Carried]:
        value = option_value(arguments, *names)
        if value:
            yield doubt(f"it starts {value.replace(UNKNOWN, '…')[:60]} on what it finds")
            yield value

    return carries


def _completion(arguments: Sequence[str]) -> Iterator[Carried]:
    if value := option_value(arguments, "-C"):
        yield value
    if value := option_value(arguments, "-W"):
        yield f'echo "{value}"'


def _make(arguments: Sequence[str]) -> Iterator[Carried]:
    for index, word in enumerate(arguments):
        name, sets, value = word.partition("=")
        if word.startswith(("--eval", "-E")) or _MAKE_RUNS.search(word):
            yield danger("make runs code that it is given")
        elif name == "SHELL" and sets and value.rpartition("/")[2] not in SHELLS:
            yield danger("make runs everything with another shell")
        elif name in ("--file", "--makefile") and sets or re.match(r"-\w*f$", word) or name in ("--file", "--makefile"):
            file = value or (arguments[index + 1] if index + 1 < len(arguments) else "")
            yield from _makefile(file)
        elif re.match(r"-f.", word):
            yield from _makefile(word[2:])


def _makefile(file: str) -> Iterator[Carried]:
    if paths.is_input_device(file):
        yield danger("make runs code from its input")
    elif UNKNOWN in file:
        yield doubt("make runs a file that is known only when it runs")


def _tmux(arguments: Sequence[str]) -> Iterator[Carried]:
    verb, *rest = _from_operand(arguments, _TMUX_TAKES) or [""]
    if not verb or _TMUX_LOOKS.fullmatch(verb):
        return
    yield doubt("it continues in a terminal after the command has ended")
    if inner := _from_operand(rest, _TMUX_TAKES):
        yield " ".join(inner)


def _screen(arguments: Sequence[str]) -> Iterator[Carried]:
    if not arguments or _SCREEN_LOOKS & set(arguments) and "-X" not in arguments:
        return
    yield doubt("it continues in a terminal after the command has ended")
    # Short options can be combined; the one with a value comes last.
    apart = ["-S" if re.fullmatch(r"-\w+S", word) else word for word in arguments]
    if inner := _from_operand(apart, _SCREEN_TAKES):
        yield inner[1:] if inner[0] in ("exec", "stuff", "eval") else inner


def _daemon(arguments: Sequence[str]) -> Iterator[Carried]:
    if program := option_value(arguments, "-x", "--exec", "-a", "--startas"):
        yield doubt("it continues after the command has ended")
        words = list(arguments)
        yield [program, *(words[words.index("--") + 1 :] if "--" in words else ())]


def _terminal(arguments: Sequence[str]) -> Iterator[Carried]:
    for option in ("-e", "-x", "--", "-n", "-A", "-c"):
        if option in arguments:
            yield list(arguments[list(arguments).index(option) + 1 :])
            return


def _from_operand(arguments: Sequence[str], taking: frozenset[str]) -> list[str]:
    """The words from the first operand on."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        rest = rest[2 if rest[0] in taking else 1 :]
    return rest


def _packages(arguments: Sequence[str]) -> Iterator[Carried]:
    """`npm exec -c`, `npx -c` and similar pass text to a shell."""
    if value := option_value(arguments, "-c", "--call"):
        yield value
    words = operands(arguments)
    if words[:2] == ["config", "set"] and any(
        re.search(r"registry|proxy|script-shell|shell|editor|viewer|onload-script", w) for w in words
    ):
        yield doubt("it changes permanently what npm runs")
    if words[:2] == ["pkg", "set"] and any("scripts" in word for word in words):
        yield doubt("it changes permanently what npm runs")


def _fd(arguments: Sequence[str]) -> Iterator[Carried]:
    for option in ("-x", "-X", "--exec", "--exec-batch"):
        if option in arguments:
            inner = list(arguments[list(arguments).index(option) + 1 :])
            given = [part.replace("{}", UNKNOWN) for part in inner]
            yield given if given != inner else [*inner, UNKNOWN]
            wide = any(paths.is_root_like(word) or paths.is_system(word) for word in operands(arguments))
            if wide and inner[:1] and inner[0] in ("rm", "shred", "unlink", "truncate", "mv"):
                yield danger("deletes what it finds in system folders or the home folder")


def _fzf(arguments: Sequence[str]) -> Iterator[Carried]:
    for word in arguments:
        yield from re.findall(r"(?:execute|become|reload|transform)[\w-]{0,40}[(:\[{](.+?)(?:[)\]}]|$)", word)
    if value := option_value(arguments, "--preview"):
        yield value.replace("{}", UNKNOWN)


def _hyperfine(arguments: Sequence[str]) -> Iterator[Carried]:
    yield from (word for word in operands(arguments) if " " in word or word.isalpha())


def _go(arguments: Sequence[str]) -> Iterator[Carried]:
    if any(re.match(r"-{1,2}(toolexec|exec)\b", word) for word in arguments):
        yield danger("go starts another program for what it builds")
    if arguments[:2] == ["env", "-w"]:
        yield doubt("it changes permanently what go runs and where it downloads from")
    if arguments[:1] == ["run"] and any("@" in word or "://" in word for word in arguments[1:]):
        yield doubt("go downloads a program and runs it")


def _builder(arguments: Sequence[str]) -> Iterator[Carried]:
    """cmake runs scripts and programs; just runs recipes."""
    for option in ("-E", "--command", "-e", "--execute", "--shell"):
        if option in arguments:
            inner = list(arguments[list(arguments).index(option) + 1 :])
            yield doubt("it runs code or a program that it is given")
            yield inner[1:] if inner[:1] in (["env"], ["time"]) else inner
    if paths.is_input_device(option_value(arguments, "-f", "--justfile", "-P")):
        yield danger("it runs code from its input")


def _unread_languages(arguments: Sequence[str]) -> Iterator[Carried]:
    """Languages that are not analysed: code in them is doubtful."""
    for index, word in enumerate(arguments):
        if re.fullmatch(r"-{1,2}(e|E|eval|exec|execute|x|r|run|c|print|p|load-and-eval)", word):
            code = arguments[index + 1] if index + 1 < len(arguments) else ""
            yield doubt("it runs code in a language that cannot be checked")
            yield from (
                inner for part in re.findall(r"'([^']*)'|\"([^\"]*)\"", code) for inner in part if " " in inner.strip()
            )


CARRIERS: dict[str, Callable[[Sequence[str]], Iterator[Carried]]] = {
    "mapfile": _option("-C"),
    "readarray": _option("-C"),
    "compgen": _completion,
    "complete": _completion,
    "split": _option("--filter"),
    "sort": _option("--compress-program"),
    "install": _option("--strip-program"),
    "rg": _program("--pre", "--hostname-bin"),
    "ag": _program("--pager"),
    "bat": _program("--pager"),
    "batcat": _program("--pager"),
    "fd": _fd,
    "fdfind": _fd,
    "fzf": _fzf,
    "hyperfine": _hyperfine,
    "make": _make,
    "gmake": _make,
    "bmake": _make,
    "cmake": _builder,
    "just": _builder,
    "go": _go,
    "tmux": _tmux,
    "byobu": _tmux,
    "screen": _screen,
    "start-stop-daemon": _daemon,
    "dtach": _terminal,
    "abduco": _terminal,
    "xterm": _terminal,
    "gnome-terminal": _terminal,
    "konsole": _terminal,
    "npm": _packages,
    "npx": _packages,
    "pnpm": _packages,
    "pnpx": _packages,
    "nix-shell": _option("--run", "--command"),
    **dict.fromkeys(
        name_set(
            "julia octave R ghc runghc groovy elixir erl guile sbcl racket osascript scala raku perl6 luajit swift "
            "ocaml clisp jshell kotlin nim crystal wish powershell ipython pypy pypy3 stap rake"
        ),
        _unread_languages,
    ),
}
