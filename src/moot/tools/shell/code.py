"""Programs that take code as an argument: shells, interpreters, find, awk, sed. Pure."""

import re
from collections.abc import Iterator, Sequence

from moot.domain.shell import Verdict
from moot.tools.shell import paths
from moot.tools.shell.carriers import CARRIERS
from moot.tools.shell.code_options import code_of, option_code, shell_code
from moot.tools.shell.destruction import judge_code
from moot.tools.shell.finding import judge_find
from moot.tools.shell.languages import LANGUAGES, Carried, judge_arguments
from moot.tools.shell.literals import PLAIN, follows, list_quoted, list_shell_quoted, substitute_words
from moot.tools.shell.rules import INTERPRETERS, SHELLS, danger, doubt, operands, option_value
from moot.tools.shell.stage import Stage
from moot.tools.shell.words import UNKNOWN

_CALLS_SHELL = re.compile(
    r"\b((?:os|posix)\.(system|popen|execute|exec[lv]p?e?|spawn\w*|posix_spawn\w*)|subprocess|commands\.get|child_process|execSync|spawnSync"
    r"|shell_exec|passthru|proc_open|popen|IO\.popen|Kernel\.(system|exec|spawn)|Process\.spawn|Open3|pty\.spawn"
    r"|create_subprocess_\w+|process\.binding|Bun\.spawn\w*|Deno\.(run|Command))"
    r"|\b(system|exec|qx|spawn)\b\s*[(\"'/{\[<$@|!]|\b(system|exec)\s+qw\b|`|%x[^\w\s]"
)
_TAKEN_FROM = re.compile(r"\bfrom\s+(os|posix|pty)\s+import\s")
_TAKEN = re.compile(r"\b(system|popen|exec\w+|spawn\w*|posix_spawn\w*)")
# Perl opens a program like a file: a bar before, behind or in place of its name.
_OPENS = re.compile(r"\bopen\b")
_INTO = re.compile(r"['\"]\s*\+?>")
_RIGHTS = re.compile(r"\bset(re|res|e)?[ug]id\s*\(\s*0|\$[<>]\s*=\s*0")
_BAR = re.compile(r"['\"]\s*\||\|\s*['\"]")
_ENDS_ALL = re.compile(r"\bkill(?:pg)?\s*\(?\s*(?:-1\b|['\"]?\w+['\"]?\s*(?:,|=>)\s*-1\b)")
_CONNECTS = re.compile(
    r"\bsocket\b|IO::Socket|TCPSocket|\bnet\.(connect|Socket|createConnection)|fsockopen|dup2|/dev/tcp"
    r"|require\(\s*['\"](node:)?(net|tls|dgram)['\"]|\bfrom\s+['\"](node:)?(net|tls|dgram)['\"]|Deno\.connect|Bun\.connect"
)
_DISGUISES = re.compile(r"__import__|getattr\(\s*__builtins__|pickle\.loads|marshal\.loads|vm\.run")
# Where the second comes after the first, the code runs what it has fetched or decoded.
_HIDDEN = (
    (
        re.compile(r"(exec|eval|compile|Function|loads)\s*\("),
        re.compile(r"b64|base64|decode|urlopen|requests|zlib|fromhex|atob|Buffer|unhexlify|marshal|chr\("),
    ),
    (
        re.compile(r"\b(system|popen|Popen|execSync|spawn\w*|getoutput|check_\w+|call|run|shell_exec|passthru)\s*\("),
        re.compile(r"b(64|32|16|85)decode|a85decode|fromhex|unhexlify|\batob\b|base64_decode|rot13|\bchr\(|urlopen\("),
    ),
    (re.compile(r"\b(eval|exec)\b"), re.compile(r"http|LWP|URI|urlopen|\.get\(|recv")),
    (re.compile(r"http"), re.compile(r"\b(eval|exec)\b")),
)
_REMOVES = re.compile(
    r"rmtree|os\.(remove|unlink|rmdir|removedirs|rename|replace|truncate)|shutil\.move|fs\.(rm|unlink|rmdir|rename)"
    r"|FileUtils\.(rm|mv)|(File|Dir)\.(delete|rmdir|unlink|rename)|unlink|(rm|rmdir|unlink|rename)Sync|remove_tree|FileUtils\.remove|Deno\.remove"
)
_OWN_CODE = re.compile(
    r"\b(import|from)\s+(\w+\s*,\s*)*moot\b|(import_module|run_module|run_path|find_spec)\(\s*['\"][^'\"]*\bmoot\b"
)
_OWN_OWNER = "would let Moot approve its own calls"
_FORK = re.compile(r"\bfork\b")
_FORKS = ((re.compile(r"while|for|loop|until"), _FORK), (_FORK, re.compile(r"\b(while|for)\b")))
_HOME = re.compile(r"expanduser|HOME|homedir|Path\.home|Dir\.home|USERPROFILE|userInfo\(")
# More than in any ordinary command; reading on would take long.
_MOST_ESCAPED = 64
_FOR_WRITING = re.compile(r"['\"][wax]b?\+?['\"]|write|shutil\.copy|os\.(chmod|symlink|link)")
_WRITES = re.compile(
    r"open\(|write_text|writeFile|appendFile|createWriteStream|copyFile|(File|IO)\.(bin)?write|file_put_contents"
    r"|shutil\.copy\w*|os\.(chmod|symlink|link)"
)
_TEXT_OPTIONS = ("-e", "--expression", "--source")
_AWK_RUNS = re.compile(
    r'system\s*\(\s*"((?:[^"\\]|\\.)*)"(?=\s*([^)\s])?)|"((?:[^"\\]|\\.)*)"\s*\|\s*(?:getline|&)|\|\s*"((?:[^"\\]|\\.)*)"'
)


def reads_code(name: str, arguments: Sequence[str]) -> bool:
    """Whether the program executes its input, because it has no script of its own."""
    if name in ("source", "."):
        return any(paths.is_input_device(word) or UNKNOWN in word for word in arguments[:1])
    if name in SHELLS:
        if shell_code(name, arguments) is not None:
            return False
        named = operands(arguments)
        return (
            not named
            or paths.is_input_device(named[0])
            or UNKNOWN in named[0]
            or any(re.fullmatch(r"-[a-z]*s[a-z]*", word) for word in arguments)
        )
    if name in LANGUAGES:
        return True
    if name == "parallel":
        return not operands(arguments)
    if name in INTERPRETERS:
        if (
            code_of(name, arguments) is not None
            or "-m" in arguments
            or any(w in ("-V", "--version", "-v", "-h", "--help") for w in arguments)
        ):
            return False
        named = operands(arguments)
        return not named or paths.is_input_device(named[0])
    return False


def seems_code_loader(name: str, stage: Stage) -> Iterator[Verdict]:
    """Whether a shell or interpreter runs a script that is generated or whose path is only known at run time."""
    made = stage.made_by
    if made and (name in SHELLS or name in ("source", ".") or stage.fetches):
        yield danger(f"{name} runs what another program prints")
    elif made:
        yield doubt(f"{name} runs what another program prints")
    elif stage.fetches:
        yield danger(f"{name} runs what was fetched or decoded")
    elif name in SHELLS and stage.input is None and any(UNKNOWN in word for word in stage.words[1:]):
        yield doubt(f"{name} runs a file that is known only when it runs")


def list_carried(name: str, arguments: list[str]) -> Iterator[Carried]:
    """The programs in the arguments: text for a shell, the words of a command, or a verdict if it is neither."""
    if name in SHELLS:
        code = shell_code(name, arguments)
        if code is not None:
            given = arguments[arguments.index(code) + 1 :] if code in arguments else []
            yield substitute_words(code, given)
        elif name == "pwsh" and any(re.match(r"-e", word, re.IGNORECASE) for word in arguments):
            yield danger("pwsh runs encoded code")
        elif any(re.fullmatch(r"-[a-z]*p[a-z]*", word) for word in arguments):
            yield danger(f"{name} keeps another user's rights")
    elif name in INTERPRETERS:
        yield from _interpreter_code(name, arguments)
    elif name in LANGUAGES:
        yield from judge_arguments(name, arguments)
    elif name in _CARRIERS:
        yield from _CARRIERS[name](arguments)


def _interpreter_code(name: str, arguments: list[str]) -> Iterator[Carried]:
    code = code_of(name, arguments)
    if code is not None:
        yield from judge_foreign_code(name, code)
    elif name == "deno" and any("://" in word for word in operands(arguments)[1:2]):
        yield danger("deno runs what it downloads")
    elif any(word.rpartition("/")[2] == "moot" for word in operands(arguments)[:1]):
        yield danger(_OWN_OWNER)


def judge_foreign_code(name: str, code: str) -> Iterator[Carried]:
    """Judge code in another language by searching it for dangerous operations, without parsing it."""
    if UNKNOWN in code and code.strip(UNKNOWN + " ") == "":
        yield danger(f"{name} runs code that is known only when it runs")
    elif UNKNOWN in code:
        yield doubt(f"a part of the {name} code is known only when it runs")
    if _OWN_CODE.search(code):
        yield danger(_OWN_OWNER)
    if _DISGUISES.search(code) or any(follows(code, *pair) for pair in _HIDDEN):
        yield danger(f"the {name} code hides what it does")
    if name == "tclsh" and re.search(r"\bexec\b", code):
        yield danger("the Tcl code runs other programs")
    if any(follows(code, *pair) for pair in _FORKS):
        yield danger(f"the {name} code starts itself repeatedly")
    yield from judge_code(code)
    yield from _reaches_for(name, code)
    yield from _effects(name, code)


def _reaches_for(name: str, code: str) -> Iterator[Verdict]:
    if _RIGHTS.search(code):
        yield danger(f"the {name} code runs with another user's rights")
    if name == "php" and re.search(r"\$\w+\s*\(", code):
        yield doubt("the php code calls what a variable names")
    if _ENDS_ALL.search(code):
        yield danger(f"the {name} code ends all processes it can")


def _effects(name: str, code: str) -> Iterator[Carried]:
    literals = list_quoted(code)
    if literals is None:
        yield danger(f"the {name} code is too complex to be checked")
        return
    literals += list_shell_quoted(code)
    lines = re.split(r"[;\n]", code)
    opened = name in ("perl", "ruby") and any(follows(line, _OPENS, _BAR) for line in lines)
    taken = any(follows(line, _TAKEN_FROM, _TAKEN) for line in lines)
    runs = opened or taken or _CALLS_SHELL.search(code) is not None
    # The bar of an opened program is not a part of the program.
    literals = [literal.strip("| -") if opened else literal for literal in literals]
    if _CONNECTS.search(code) and (runs or "dup2" in code or "exec" in code or "pty" in code):
        yield danger(f"the {name} code gives another machine a shell")
    elif _CONNECTS.search(code):
        yield doubt(f"the {name} code opens a connection")
    if runs:
        yield doubt(f"the {name} code runs other programs")
        yield from (literal for literal in literals if " " in literal or literal.isalpha())
        if literals and all(PLAIN.fullmatch(literal) for literal in literals):
            yield " ".join(literals)
    yield from _judge_paths(name, code, literals)
    if _REMOVES.search(code) and _HOME.search(code):
        yield danger(f"the {name} code deletes the home folder")


def _judge_paths(name: str, code: str, literals: list[str]) -> Iterator[Verdict]:
    removes = _REMOVES.search(code) is not None
    into = name == "perl" and any(follows(line, _OPENS, _INTO) for line in re.split(r"[;\n]", code))
    writes = into or _WRITES.search(code) is not None
    for literal in literals:
        settled = paths.is_system(literal) or paths.is_startup_file(literal)
        if removes and (settled or paths.is_root_like(literal)):
            yield danger(f"the {name} code removes {literal[:60]}")
        if paths.is_secret(literal):
            yield danger(f"the {name} code reads {literal[:60]}")
        if writes and (paths.is_device(literal) or settled and (into or _FOR_WRITING.search(code))):
            yield danger(f"the {name} code writes to {literal[:60]}")


# ---- other programs that run code ---------------------------------------------------------------


def _awk(arguments: list[str]) -> Iterator[Carried]:
    for word in _programs(arguments, ("-f", "--file", "-F", "-v", "--assign", "--field-separator")):
        if UNKNOWN in word:
            yield doubt("a part of the awk code is known only when it runs")
        if word.count('\\"') > _MOST_ESCAPED:
            yield danger("the awk code is too complex to be checked")
            continue
        for groups in _AWK_RUNS.findall(word):
            run = next((group for group in (*groups[:1], *groups[2:]) if group), "") + (UNKNOWN if groups[1] else "")
            yield danger("awk passes commands to a shell") if groups[3] and _awaits_script(run) else run
        for target in re.findall(r'>\s*"([^"]+)"', word):
            yield ["touch", target]
        if re.search(r"(?m)^\s*@(load|include)\b", word):
            yield doubt("awk loads code from other files")
        if re.search(r"system\s*\(\s*[^\"\s]", word) or re.search(r"\$\d+\s*\|\s*getline", word):
            yield danger("awk runs code that is known only when it runs")


def _awaits_script(command: str) -> bool:
    """Whether a shell or interpreter reads its script from stdin."""
    words = command.split()
    name = words[0].rpartition("/")[2] if words else ""
    return (name in SHELLS or name in INTERPRETERS) and reads_code(name, words[1:])


def _programs(arguments: list[str], taking: tuple[str, ...]) -> Iterator[str]:
    """The scripts of a stream editor: from its options, or else its first operand."""
    given = [after for word, after in zip(arguments, arguments[1:], strict=False) if word in _TEXT_OPTIONS]
    given += [word.partition("=")[2] for word in arguments if word.startswith(tuple(f"{o}=" for o in _TEXT_OPTIONS))]
    if given:
        yield from given
        return
    taken = {index + 1 for index, word in enumerate(arguments) if word in taking}
    yield from [w for index, w in enumerate(arguments) if index not in taken and (not w.startswith("-") or w == "-")][
        :1
    ]


def _sed(arguments: list[str]) -> Iterator[Carried]:
    for word in _programs(arguments, ("-f", "--file", "-l", "--line-length")):
        for runs in re.findall(
            r"(?:^|[;{}])[^\S\n]*(?:(?:[\d,$+~!]|/(?:[^/\\]|\\.)*/)+[^\S\n]*)?e(?:[^\S\n]+|$)(.*)$", word, re.MULTILINE
        ):
            yield runs or danger("sed runs what it reads")
        if any(_evaluates(part) for part in (word, *re.split(r"[;}\n]", word))):
            yield danger("sed runs what it makes")
        for target in re.findall(r"(?:^|[;\s/\d])[wW]\s+(\S+)", word):
            yield ["touch", target]


def _evaluates(script: str) -> bool:
    """Whether the script ends in a substitution whose flags execute the result."""
    head = script.rstrip(" \t\n").rstrip("gimpeIM0123456789")
    flags, mark = script[len(head) :], head[-1:]
    start = head.find(f"s{mark}") if "e" in flags and mark and not mark.isalnum() else -1
    return start >= 0 and head.count(mark, start + 2) >= 2


def _ssh(arguments: list[str]) -> Iterator[Carried]:
    named = operands(arguments)
    if len(named) > 1:
        yield " ".join(named[1:])


def _first(arguments: list[str]) -> Iterator[Carried]:
    words = arguments[1:] if arguments[:1] == ["--"] else arguments
    if words and (words is not arguments or not words[0].startswith("-")):
        yield words[0]


def _whole(arguments: list[str]) -> Iterator[Carried]:
    yield " ".join(arguments[1:] if arguments[:1] == ["--"] else arguments)


def _join_arguments(arguments: list[str]) -> Iterator[Carried]:
    if named := operands(arguments):
        yield " ".join(named)


def _aliases(arguments: list[str]) -> Iterator[Carried]:
    for word in arguments:
        if "=" in word:
            yield word.partition("=")[2]


def _script(arguments: list[str]) -> Iterator[Carried]:
    code = option_code(arguments, "c")
    if code is not None:
        yield code


def _git(arguments: list[str]) -> Iterator[Carried]:
    if "foreach" in arguments:
        yield " ".join(arguments[arguments.index("foreach") + 1 :])
    if arguments[:2] == ["bisect", "run"]:
        yield arguments[2:]
    if "rebase" in arguments and (value := option_value(arguments, "-x", "--exec")):
        yield value
    if "filter-branch" in arguments:
        yield from _filters(arguments)
    if "difftool" in arguments and (value := option_value(arguments, "-x", "--extcmd")):
        yield value
    if "grep" in arguments:
        opened = [re.match(r"-O(.+)|--open-files-in-pager=(.+)", word) for word in arguments]
        yield from (opens[1] or opens[2] for opens in opened if opens)


def _filters(arguments: list[str]) -> Iterator[Carried]:
    """Each filter is shell code that is run on every commit."""
    for word, after in zip(arguments, arguments[1:], strict=False):
        if re.fullmatch(r"--(\w+-)?filter|--setup", word):
            yield after


def _container(arguments: list[str]) -> Iterator[Carried]:
    if arguments[:1] in (["exec"], ["run"]):
        for index, word in enumerate(arguments[2:], start=2):
            if word in SHELLS or word in ("rm", "dd", "chmod", "chown", "mv", "nc", "curl"):
                yield arguments[index:]
                return


def _source(arguments: list[str]) -> Iterator[Carried]:
    for word in operands(arguments)[:1] or arguments[:1]:
        if paths.is_network_device(word) or paths.is_input_device(word):
            yield danger("runs what it reads from its input")
        elif word == UNKNOWN:
            yield doubt("runs a file that is known only when it runs")


_CARRIERS = {
    **CARRIERS,
    "find": judge_find,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "nawk": _awk,
    "original-awk": _awk,
    "sed": _sed,
    "gsed": _sed,
    "ssh": _ssh,
    "trap": _first,
    "watch": _join_arguments,
    "alias": _aliases,
    "eval": _whole,
    "script": _script,
    "git": _git,
    "docker": _container,
    "podman": _container,
    "source": _source,
    ".": _source,
}
