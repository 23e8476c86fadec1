"""What to think of a shell command, by the shell's own grammar. What cannot be read is dangerous."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any

from moot.domain.errors import BadRequest
from moot.domain.secret import references, through_environment
from moot.domain.shell import Level, Verdict
from moot.tools.shell import paths, rules
from moot.tools.shell import programs as _programs  # noqa: F401  its rules join those of `rules`
from moot.tools.shell import remote_effects as _far  # noqa: F401  its rules join those of `rules`
from moot.tools.shell.calls import Calls, rounds, spelled_out
from moot.tools.shell.classifier_process import judged_apart
from moot.tools.shell.code import carried, foreign, reads_code, seems_code_loader
from moot.tools.shell.flow import Flow, ends_all, filled_here, floods
from moot.tools.shell.languages import LANGUAGES, told
from moot.tools.shell.settings import runs_index, setting
from moot.tools.shell.stage import Stage
from moot.tools.shell.targets import written
from moot.tools.shell.unknown_commands import TELLING, handed, handed_texts, inside
from moot.tools.shell.words import UNKNOWN, Node, Variables, every, in_background, size, text
from moot.tools.shell.wrappers import assignments, unwrap

LONGEST = 65_536
# Up to this length the parser cannot take long, whatever it is given.
_SHORT = 4_096
_LONGEST_FIRST_LINE = 255
_DEEPEST = 8
_DEEPEST_TREE = 60
_MOST_WORDS = 3_000
# Texts inside a command that a shell will run, and the parts all of them are made of.
_MOST_TEXTS, _MOST_NODES = 250, 5_000
_RANK = {Level.OK: 0, Level.ASK: 1, Level.DANGEROUS: 2}
_HEAP = re.compile(r"(?:[|<>&;(){}]\s{0,2}){200}")
_ALWAYS_SO = frozenset({"true", ":", "[ 1 ]", "[[ 1 ]]", "((1))", "test 1"})
_NAME = re.compile(r"[\w./+@~%:-]+|\[\[?|!|\{|\}")
_TOUCHING = (
    "rm", "rmdir", "unlink", "mv", "cp", "ln", "install", "chmod", "chown", "chgrp", "tee", "truncate", "sed", "find",
)  # fmt: skip
# Builtins that read the index of an array in their words, and run what stands in it.
_COUNTING = frozenset({"let", "test", "[", "printf", "read", "unset", "declare", "typeset", "local", "mapfile", "wait"})
# Characters that are not seen, or that turn the order of what is seen.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00a0\u2028\u2029]")


@lru_cache(maxsize=128)
def classify(command: str) -> Verdict:
    """The worst that is to be said of a command. Blocks, for a fraction of a second where it is long."""
    if len(command) > LONGEST:
        return Verdict(Level.DANGEROUS, "it is too long to be judged")
    return judged_apart(command) if len(command) > _SHORT else judge(command)


def judge(command: str) -> Verdict:
    """The same here and now, however long the parser takes."""
    if _UNSEEN.search(command):
        return Verdict(Level.DANGEROUS, "it holds characters that are not seen")
    command = _unrevealed(command)
    try:
        return _worst(_Reading(command, depth=0, outer=None).verdicts())
    except ImportError:
        return Verdict(Level.DANGEROUS, "there is no parser to judge it with; run: pip install 'moot[exec]'")


def classify_script(script: str) -> Verdict:
    """The same for a file: its first line says whose language it is; without one it is the shell's."""
    if not script.startswith("#!"):
        return classify(script)
    first, _, rest = script.partition("\n")
    if len(first) > _LONGEST_FIRST_LINE:
        return Verdict(Level.DANGEROUS, "its first line is too long for the system to take whole")
    # The system takes one name and hands all that follows on as one word.
    words = [*first[2:].strip().split(maxsplit=1), "MOOT_SCRIPT"]
    inner = unwrap(words)
    runner = _named(inner[0])
    if runner in rules.INTERPRETERS:
        texts = list(islice(foreign(runner, rest), _MOST_TEXTS + 1))
        if len(texts) > _MOST_TEXTS:
            return Verdict(Level.DANGEROUS, "it is too tangled to be judged")
        found = [inner if isinstance(inner, Verdict) else _said(inner) for inner in texts]
    elif runner in rules.SHELLS:
        found = [classify(rest)]
    else:
        return Verdict(Level.DANGEROUS, f"it is written for {runner[:40]}, which cannot be judged")
    return _worst([classify(shlex.join(words)), *found])


def _unrevealed(command: str) -> str:
    """The command as it will run, with a variable for each secret: nobody here knows what those hold."""
    found = references(command)
    if not found:
        return command
    try:
        return through_environment(command, {reference.token: "" for reference in found})[0]
    except BadRequest:
        # It stands where no variable can: what runs commands will say so, and this is for whoever else reads it.
        for reference in reversed(found):
            command = f"{command[: reference.start]}${{MOOT_SECRET}}{command[reference.end :]}"
        return command


def _said(inner: str | list[str]) -> Verdict:
    """What code in another language would have a shell do."""
    return classify(inner if isinstance(inner, str) else " ".join(inner))


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=lambda verdict: _RANK[verdict.level], default=Verdict(Level.OK))


@cache
def _parser() -> Any:
    import tree_sitter  # noqa: PLC0415  an extra, and not everybody runs commands
    import tree_sitter_bash  # noqa: PLC0415

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _Left:
    """How much may still be read for one command: reading more would take long, and that may be its purpose."""

    def __init__(self) -> None:
        self._texts, self._nodes = _MOST_TEXTS, _MOST_NODES

    def take(self, root: Node) -> bool:
        self._texts -= 1
        self._nodes -= size(root, deepest=_DEEPEST_TREE, most=self._nodes)
        return not self.spent

    @property
    def spent(self) -> bool:
        return self._texts < 0 or self._nodes < 0


class _Reading:
    """One script: the command itself, or a text inside it that a shell will run."""

    def __init__(self, script: str, *, depth: int, outer: Variables | None, left: "_Left | None" = None) -> None:
        self._depth = depth
        self._left = left or _Left()
        # The parser tries every way to read a heap of signs, which takes long.
        heaped = _HEAP.search(script) is not None
        self._root: Node = None if heaped else _parser().parse(script.encode(errors="replace")).root_node
        self._outer = outer
        self._found: list[Verdict] = []
        # Where the script has gone; what it names from there on is named from there.
        self._cwd = ""
        self._supposing = False

    def verdicts(self) -> list[Verdict]:
        if self._root is None:
            return [rules.danger("it is too tangled to be judged")]
        if self._depth > _DEEPEST:
            return [rules.danger("it is nested too deeply to be judged")]
        if not self._left.take(self._root):
            return [rules.danger("it is too tangled to be judged")]
        if self._root.has_error:
            return [rules.danger("it cannot be read as a shell command")]
        self._variables = Variables(self._root, self._outer)
        self._flow = Flow(self._root, self._variables)
        self._calls = Calls(self._root, self._variables)
        for chain in self._flow.chains():
            self._pipeline(chain)
        self._say(*self._flow.tells_away())
        for script in spelled_out(self._root, self._variables):
            self._script(script)
        readers = self._readers()
        for node in every(self._root, *readers):
            readers[node.type](node)
        return self._found

    def _readers(self) -> dict[str, Any]:
        return {
            "command": self._command,
            "declaration_command": self._declaration,
            "unset_command": self._declaration,
            "variable_assignment": self._assignment,
            "file_redirect": self._redirect,
            "function_definition": self._function,
            "for_statement": self._rounds,
            "while_statement": self._loop,
            "c_style_for_statement": self._loop,
            "expansion": self._evaluated,
            "test_command": self._evaluated,
            "subscript": self._evaluated,
        }

    def _command(self, node: Node) -> None:
        stage = self._flow.stage(node)
        for assigned in assignments(stage.words):
            self._check_variable(*assigned.split("=", 1))
        self._say(*filled_here(stage))
        self._simple(stage.inner, stage)

    def _rounds(self, node: Node) -> None:
        for script in rounds(node, self._variables):
            self._script(script)

    def _simple(self, words: Sequence[str], stage: Stage) -> None:
        if not words:
            return
        if len(words) > _MOST_WORDS:
            self._say(rules.danger("it is too long to be judged"))
        elif "://" in words[0]:
            self._say(rules.danger("it runs what it fetches"))
        elif UNKNOWN in words[0]:
            self._say(rules.danger("what it runs is known only when it runs"))
        elif not _NAME.fullmatch(words[0]) or not words[0].isascii():
            self._say(rules.danger("the name of what it runs is disguised"))
        else:
            self._program(_named(words[0]), list(words[1:]), stage)
            self._say(*self._flow.judge_use(words))
            for runner, script in self._flow.scripts(words):
                self._run(runner, script, stage)
            for script in self._calls.scripts(words):
                self._script(script)

    def _program(self, name: str, arguments: list[str], stage: Stage) -> None:
        self._say(*rules.judge(name, arguments), *written(name, arguments))
        if name in _COUNTING and any(runs_index(word) for word in arguments):
            self._say(rules.danger("it runs a program inside an index"))
        if name == "python" and "-m" in arguments:
            self._module(arguments, stage)
        for inner in [*carried(name, arguments), *self._from_afar(name, arguments)]:
            self._carried(inner, stage)
        self._fed(name, arguments, stage)
        self._say(*floods(name, arguments, stage), *ends_all(name, stage))
        if not self._supposing:
            self._handed_on(name, arguments, stage)

    def _module(self, arguments: list[str], stage: Stage) -> None:
        self._say(*rules.judge("python -m", arguments[arguments.index("-m") + 1 :]))
        # Some modules run what they are given.
        for code in (word for word in arguments if "(" in word):
            self._run("python", code, stage)

    def _fed(self, name: str, arguments: list[str], stage: Stage) -> None:
        """What comes in as code, and what goes out to somebody as code."""
        if reads_code(name, arguments):
            self._say(*seems_code_loader(name, stage))
            if stage.input is not None:
                self._run(name, stage.input, stage)
        if any(reads_code(inner.name, inner.arguments) for inner in stage.feeds):
            self._say(rules.danger("feeds a shell through a side door"))
        if name == "exec" and stage.fetches:
            self._say(rules.danger("reads what was fetched or decoded as its commands"))

    def _handed_on(self, name: str, arguments: list[str], stage: Stage) -> None:
        """A program that is given a dangerous command may run it, whatever it is called."""
        for words in handed(name, arguments):
            if self._supposed(self._simple, unwrap(words), stage):
                told = words[0].replace(UNKNOWN, "command")
                self._say(rules.danger(f"{name[:40]} is handed a dangerous {told}"))
        given = inside(stage.input) if stage.input and _reads_on(name, arguments) else []
        for script in [*handed_texts(name, arguments), *given]:
            if self._supposed(self._script, script):
                self._say(rules.doubt(f"{name[:40]} is handed a dangerous command as a text"))

    def _supposed(self, judge: Callable[..., None], *what: Any) -> bool:
        """Whether it would be dangerous, without saying so."""
        said, self._found, self._supposing = self._found, [], True
        judge(*what)
        found, self._found, self._supposing = self._found, said, False
        return _worst(found).level is Level.DANGEROUS

    def _from_afar(self, name: str, arguments: list[str]) -> Iterator["Verdict | str | list[str]"]:
        """The same words where the script has gone into the home as such or the system."""
        if name in ("cd", "pushd"):
            self._cwd = (rules.operands(arguments) or ["~"])[0]
        elif name == "git" and self._went_far():
            yield from rules.judge(name, ["-C", self._cwd, *arguments])
        elif name in _TOUCHING and self._went_far():
            placed = [self._placed(word) for word in arguments]
            yield from rules.judge(name, placed)
            yield from carried(name, placed)

    def _run(self, runner: str, script: str, stage: Stage) -> None:
        if runner in rules.INTERPRETERS:
            for inner in foreign(runner, script):
                self._carried(inner, stage)
        elif runner in LANGUAGES:
            for inner in told(runner, script):
                self._carried(inner, stage)
        else:
            self._script(script)

    def _carried(self, inner: "Verdict | str | list[str]", stage: Stage) -> None:
        if isinstance(inner, Verdict):
            self._say(inner)
        elif isinstance(inner, str):
            self._script(inner)
        else:
            self._simple(unwrap(inner), stage)

    def _script(self, script: str) -> None:
        if not script.strip():
            return
        if script.strip() == UNKNOWN:
            self._say(rules.danger("it runs a text that is known only when it runs"))
            return
        if UNKNOWN in script:
            self._say(rules.doubt("a part of the text it runs is known only when it runs"))
        if self._left.spent:
            # Not even parsed any more.
            self._say(rules.danger("it is too tangled to be judged"))
            return
        known = script.replace(UNKNOWN, "${MOOT_UNKNOWN}")
        self._say(*_Reading(known, depth=self._depth + 1, outer=self._variables, left=self._left).verdicts())

    def _pipeline(self, stages: list[Stage]) -> None:
        verdicts, scripts = self._flow.judge_chain(stages)
        self._say(*verdicts)
        for runner, script in scripts:
            self._run(runner, script, stages[-1])

    def _declaration(self, node: Node) -> None:
        words = [word for child in node.named_children for word in self._variables.words(child)]
        self._say(*rules.judge(text(node).split()[0], words))
        for child in node.named_children:
            name, sets, value = self._variables.word(child).partition("=")
            if sets and child.type != "variable_assignment":
                self._check_variable(name, value)
        if any(runs_index(word) for word in words):
            self._say(rules.danger("it runs a program inside an index"))

    def _assignment(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        self._check_variable(text(name), self._variables.word(value) if value is not None else "")

    def _check_variable(self, name: str, value: str) -> None:
        for said in setting(name, value):
            if isinstance(said, Verdict):
                self._say(said)
            else:
                self._script(said)
        for script in () if self._supposing else handed_texts("", [value]):
            if self._supposed(self._script, script):
                self._say(rules.doubt(f"{name[:40]} holds a dangerous command"))

    def _evaluated(self, node: Node) -> None:
        """What the shell reads a second time: a prompt, and an index where a number is looked for."""
        if node.type == "expansion":
            if re.search(r"@P\}$", text(node)):
                self._say(rules.danger("it runs what a variable holds"))
        elif any(runs_index(self._variables.word(part)) for part in every(node, "raw_string", "string")):
            self._say(rules.danger("it runs a program inside an index"))

    def _redirect(self, node: Node) -> None:
        target = node.child_by_field_name("destination")
        if target is None or target.type in ("number", "process_substitution"):
            return
        operator = next((child.type for child in node.children if not child.is_named), ">")
        word = self._placed(self._variables.word(target))
        self._say(*(rules.reads(word) if operator in ("<", "<&") else rules.writes(word)))

    def _function(self, node: Node) -> None:
        name = text(node.child_by_field_name("name"))
        calls = [text(part) for part in every(node, "command_name")]
        if name in calls and (any(every(node, "pipeline")) or in_background(node)):
            self._say(rules.danger("it starts itself again and again"))

    def _loop(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        asked = text(condition).strip(" ;") if condition is not None else ":"
        endless = asked == "false" if text(node).startswith("until") else asked in _ALWAYS_SO
        if endless and in_background(node):
            self._say(rules.danger("it starts programs without end"))

    def _went_far(self) -> bool:
        return bool(self._cwd) and (paths.root_like(self._cwd) or paths.system(self._cwd))

    def _placed(self, word: str) -> str:
        """A name as it is from where the script has gone, where that matters."""
        if word.startswith(("-", "/", "~", UNKNOWN)) or not self._went_far():
            return word
        return f"{self._cwd.rstrip('/')}/{word}"

    def _say(self, *verdicts: Verdict) -> None:
        self._found.extend(verdicts)


def _reads_on(name: str, arguments: list[str]) -> bool:
    """Whether what comes into it may be run, as far as anybody here knows, and is not judged as its script anyway."""
    return name not in TELLING and not reads_code(name, arguments)


def _named(word: str) -> str:
    name = word.rpartition("/")[2] or word
    return re.sub(r"^(python|perl|ruby|node|php|lua|pip)[\d.]+$", r"\1", name)
