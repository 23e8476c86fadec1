"""Classifies a shell command by parsing it. What cannot be parsed is dangerous. Combines all modules here."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from moot.domain.shell import Level, Verdict
from moot.tools.shell import paths, rules
from moot.tools.shell import programs as _programs  # noqa: F401  its rules join those of `rules`
from moot.tools.shell import remote_effects as _far  # noqa: F401  its rules join those of `rules`
from moot.tools.shell.calls import ShellFunctions, expand_script, loop_bodies
from moot.tools.shell.classifier_process import judge_in_process
from moot.tools.shell.code import judge_foreign_code, list_carried, reads_code, seems_code_loader
from moot.tools.shell.destruction import count_deletions, judge_destruction
from moot.tools.shell.flow import DataFlow, ends_all, floods, judge_filled_here
from moot.tools.shell.languages import LANGUAGES, judge_script
from moot.tools.shell.literals import hide_references
from moot.tools.shell.lost_files import ScriptFolders, collect_lost_files
from moot.tools.shell.settings import judge_setting, runs_index
from moot.tools.shell.stage import Stage
from moot.tools.shell.targets import judge_written
from moot.tools.shell.unknown_commands import TELLING, find_commands, list_handed, list_handed_texts
from moot.tools.shell.words import UNKNOWN, Node, Variables, count_nodes, find_nodes, in_background, node_text
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
_RANK = {Level.OK: 0, Level.DESTRUCTIVE: 1, Level.ASK: 2, Level.DANGEROUS: 3}
_HEAP = re.compile(r"(?:[|<>&;(){}]\s{0,2}){200}")
_ALWAYS_SO = frozenset({"true", ":", "[ 1 ]", "[[ 1 ]]", "((1))", "test 1"})
_NAME = re.compile(r"[\w./+@~%:-]+|\[\[?|!|\{|\}")
_TOUCHING = (
    "rm", "rmdir", "unlink", "mv", "cp", "ln", "install", "chmod", "chown", "chgrp", "tee", "truncate", "sed", "find",
)  # fmt: skip
# Builtins that read the index of an array in their words, and run what stands in it.
_COUNTING = frozenset({"let", "test", "[", "printf", "read", "unset", "declare", "typeset", "local", "mapfile", "wait"})
# Invisible characters, and those that change the displayed order.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u00a0\u2028\u2029]")


@lru_cache(maxsize=128)
def classify(command: str) -> Verdict:
    """The worst verdict on a command. Blocks for a fraction of a second if it is long."""
    if len(command) > LONGEST:
        return Verdict(Level.DANGEROUS, "it is too long to be checked")
    return judge_in_process(command) if len(command) > _SHORT else judge(command)


def judge(command: str) -> Verdict:
    """The same in this process, however long parsing takes."""
    if _UNSEEN.search(command):
        return Verdict(Level.DANGEROUS, "it contains invisible characters")
    command = hide_references(command)
    try:
        verdicts = count_deletions(_ScriptReader(command, depth=0, outer=None).verdicts())
        return replace(_worst(verdicts), lost_files=collect_lost_files(verdicts))
    except ImportError:
        return Verdict(
            Level.DANGEROUS, "the parser that checks commands is not installed; run: pip install 'moot[exec]'"
        )


def classify_script(script: str) -> Verdict:
    """The same for a file; its first line determines the language, by default shell."""
    if not script.startswith("#!"):
        return classify(script)
    first, _, rest = script.partition("\n")
    if len(first) > _LONGEST_FIRST_LINE:
        return Verdict(Level.DANGEROUS, "its first line is longer than the system reads")
    # The system takes one name and hands all that follows on as one word.
    words = [*first[2:].strip().split(maxsplit=1), "MOOT_SCRIPT"]
    inner = unwrap(words)
    runner = _last_part(inner[0])
    if runner in rules.INTERPRETERS:
        texts = list(islice(judge_foreign_code(runner, rest), _MOST_TEXTS + 1))
        if len(texts) > _MOST_TEXTS:
            return Verdict(Level.DANGEROUS, "it is too complex to be checked")
        found = [inner if isinstance(inner, Verdict) else _foreign_verdict(inner) for inner in texts]
    elif runner in rules.SHELLS:
        found = [classify(rest)]
    else:
        return Verdict(Level.DANGEROUS, f"it is written for {runner[:40]}, which cannot be checked")
    return _worst([classify(shlex.join(words)), *found])


def _foreign_verdict(inner: str | list[str]) -> Verdict:
    """Judge the shell commands in code of another language."""
    return classify(inner if isinstance(inner, str) else " ".join(inner))


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=lambda verdict: _RANK[verdict.level], default=Verdict(Level.OK))


@cache
def _parser() -> Any:
    import tree_sitter  # noqa: PLC0415  an extra, and not everybody runs commands
    import tree_sitter_bash  # noqa: PLC0415

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


class _ReadingBudget:
    """How much may still be parsed for one command, so that a long one cannot block the classifier."""

    def __init__(self) -> None:
        self._texts, self._nodes = _MOST_TEXTS, _MOST_NODES

    def take(self, root: Node) -> bool:
        self._texts -= 1
        self._nodes -= count_nodes(root, deepest=_DEEPEST_TREE, most=self._nodes)
        return not self.is_exhausted

    @property
    def is_exhausted(self) -> bool:
        return self._texts < 0 or self._nodes < 0


class _Shared(NamedTuple):
    """What all texts inside one command share."""

    left: _ReadingBudget
    folders: ScriptFolders


class _ScriptReader:
    """Classifies one script: the command itself, or text inside it that a shell will run."""

    def __init__(self, script: str, *, depth: int, outer: Variables | None, shared: "_Shared | None" = None) -> None:
        self._depth = depth
        self._shared = shared or _Shared(_ReadingBudget(), ScriptFolders())
        self._left, self._folders = self._shared
        # A long run of operators makes the parser backtrack, which takes long.
        heaped = _HEAP.search(script) is not None
        self._root: Node = None if heaped else _parser().parse(script.encode(errors="replace")).root_node
        self._outer = outer
        self._found: list[Verdict] = []
        # Where the script has gone; what it names from there on is named from there.
        self._cwd = ""
        self._supposing = False

    def verdicts(self) -> list[Verdict]:
        if self._root is None:
            return [rules.danger("it is too complex to be checked")]
        if self._depth > _DEEPEST:
            return [rules.danger("it is nested too deeply to be checked")]
        if not self._left.take(self._root):
            return [rules.danger("it is too complex to be checked")]
        if self._root.has_error:
            return [rules.danger("it cannot be read as a shell command")]
        self._variables = Variables(self._root, self._outer)
        self._flow = DataFlow(self._root, self._variables)
        self._calls = ShellFunctions(self._root, self._variables)
        for chain in self._flow.chains():
            self._pipeline(chain)
        self._add_verdicts(*self._flow.judge_leaks())
        for script in expand_script(self._root, self._variables):
            self._script(script)
        readers = self._readers()
        for node in find_nodes(self._root, *readers):
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
            "expansion": self._judge_evaluated,
            "test_command": self._judge_evaluated,
            "subscript": self._judge_evaluated,
        }

    def _command(self, node: Node) -> None:
        stage = self._flow.stage(node)
        for assigned in assignments(stage.words):
            self._check_variable(*assigned.split("=", 1))
        self._add_verdicts(*judge_filled_here(stage))
        self._simple(stage.inner, stage)

    def _rounds(self, node: Node) -> None:
        for script in loop_bodies(node, self._variables):
            self._script(script)

    def _simple(self, words: Sequence[str], stage: Stage) -> None:
        if not words:
            return
        if len(words) > _MOST_WORDS:
            self._add_verdicts(rules.danger("it is too long to be checked"))
        elif "://" in words[0]:
            self._add_verdicts(rules.danger("it runs what it downloads"))
        elif UNKNOWN in words[0]:
            self._add_verdicts(rules.danger("what it runs is known only when it runs"))
        elif not _NAME.fullmatch(words[0]) or not words[0].isascii():
            self._add_verdicts(rules.danger("the name of the program it runs is disguised"))
        else:
            self._program(_last_part(words[0]), list(words[1:]), stage)
            self._add_verdicts(*self._flow.judge_use(words))
            for runner, script in self._flow.scripts(words):
                self._run(runner, script, stage)
            for script in self._calls.scripts(words):
                self._script(script)

    def _program(self, name: str, arguments: list[str], stage: Stage) -> None:
        self._add_verdicts(*rules.judge(name, arguments), *judge_written(name, arguments))
        self._add_verdicts(*judge_destruction(name, arguments), *self._folders.judge_command(name, arguments))
        if name in _COUNTING and any(runs_index(word) for word in arguments):
            self._add_verdicts(rules.danger("it runs a program inside an index"))
        if name == "python" and "-m" in arguments:
            self._module(arguments, stage)
        for inner in [*list_carried(name, arguments), *self._list_moved(name, arguments)]:
            self._judge_carried(inner, stage)
        self._read_input(name, arguments, stage)
        self._add_verdicts(*floods(name, arguments, stage), *ends_all(name, stage))
        if not self._supposing:
            self._judge_handed_on(name, arguments, stage)

    def _module(self, arguments: list[str], stage: Stage) -> None:
        self._add_verdicts(*rules.judge("python -m", arguments[arguments.index("-m") + 1 :]))
        # Some modules run what they are given.
        for code in (word for word in arguments if "(" in word):
            self._run("python", code, stage)

    def _read_input(self, name: str, arguments: list[str], stage: Stage) -> None:
        """Judge what the command reads or writes as code."""
        if reads_code(name, arguments):
            self._add_verdicts(*seems_code_loader(name, stage))
            if stage.input is not None:
                self._run(name, stage.input, stage)
        if any(reads_code(inner.name, inner.arguments) for inner in stage.feeds):
            self._add_verdicts(rules.danger("passes commands to a shell indirectly"))
        if name == "exec" and stage.fetches:
            self._add_verdicts(rules.danger("reads what was fetched or decoded as its commands"))

    def _judge_handed_on(self, name: str, arguments: list[str], stage: Stage) -> None:
        """Judge dangerous commands in the arguments of any program, which may run them."""
        for words in list_handed(name, arguments):
            if self._would_be_dangerous(self._simple, unwrap(words), stage):
                command = words[0].replace(UNKNOWN, "command")
                self._add_verdicts(rules.danger(f"{name[:40]} is given a dangerous {command}"))
        given = find_commands(stage.input) if stage.input and _reads_on(name, arguments) else []
        for script in [*list_handed_texts(name, arguments), *given]:
            if self._would_be_dangerous(self._script, script):
                self._add_verdicts(rules.doubt(f"{name[:40]} is given text with a dangerous command"))

    def _would_be_dangerous(self, judge: Callable[..., None], *what: Any) -> bool:
        """Whether it would be dangerous, without recording a verdict."""
        recorded, self._found, self._supposing = self._found, [], True
        judge(*what)
        found, self._found, self._supposing = self._found, recorded, False
        return _worst(found).level is Level.DANGEROUS

    def _list_moved(self, name: str, arguments: list[str]) -> Iterator["Verdict | str | list[str]"]:
        """The same words resolved from the folder the script changed to, if that is the home or the system."""
        if name in ("cd", "pushd"):
            self._cwd = (rules.operands(arguments) or ["~"])[0]
        elif name == "git" and self._is_far():
            yield from rules.judge(name, ["-C", self._cwd, *arguments])
        elif name in _TOUCHING and self._is_far():
            placed = [self._resolve_name(word) for word in arguments]
            yield from rules.judge(name, placed)
            yield from list_carried(name, placed)

    def _run(self, runner: str, script: str, stage: Stage) -> None:
        if runner in rules.INTERPRETERS:
            for inner in judge_foreign_code(runner, script):
                self._judge_carried(inner, stage)
        elif runner in LANGUAGES:
            for inner in judge_script(runner, script):
                self._judge_carried(inner, stage)
        else:
            self._script(script)

    def _judge_carried(self, inner: "Verdict | str | list[str]", stage: Stage) -> None:
        if isinstance(inner, Verdict):
            self._add_verdicts(inner)
        elif isinstance(inner, str):
            self._script(inner)
        else:
            self._simple(unwrap(inner), stage)

    def _script(self, script: str) -> None:
        if not script.strip():
            return
        if script.strip() == UNKNOWN:
            self._add_verdicts(rules.danger("it runs code that is known only when it runs"))
            return
        if UNKNOWN in script:
            self._add_verdicts(rules.doubt("a part of the code it runs is known only when it runs"))
        if self._left.is_exhausted:
            # The budget is used up: not parsed.
            self._add_verdicts(rules.danger("it is too complex to be checked"))
            return
        known = script.replace(UNKNOWN, "${MOOT_UNKNOWN}")
        self._add_verdicts(
            *_ScriptReader(known, depth=self._depth + 1, outer=self._variables, shared=self._shared).verdicts()
        )

    def _pipeline(self, stages: list[Stage]) -> None:
        verdicts, scripts = self._flow.judge_chain(stages)
        self._add_verdicts(*verdicts)
        for runner, script in scripts:
            self._run(runner, script, stages[-1])

    def _declaration(self, node: Node) -> None:
        words = [word for child in node.named_children for word in self._variables.words(child)]
        self._add_verdicts(*rules.judge(node_text(node).split()[0], words))
        for child in node.named_children:
            name, sets, value = self._variables.word(child).partition("=")
            if sets and child.type != "variable_assignment":
                self._check_variable(name, value)
        if any(runs_index(word) for word in words):
            self._add_verdicts(rules.danger("it runs a program inside an index"))

    def _assignment(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        self._check_variable(node_text(name), self._variables.word(value) if value is not None else "")

    def _check_variable(self, name: str, value: str) -> None:
        for judged in judge_setting(name, value):
            if isinstance(judged, Verdict):
                self._add_verdicts(judged)
            else:
                self._script(judged)
        for script in () if self._supposing else list_handed_texts("", [value]):
            if self._would_be_dangerous(self._script, script):
                self._add_verdicts(rules.doubt(f"{name[:40]} contains a dangerous command"))

    def _judge_evaluated(self, node: Node) -> None:
        """Judge what the shell evaluates a second time: prompts and arithmetic indexes."""
        if node.type == "expansion":
            if re.search(r"@P\}$", node_text(node)):
                self._add_verdicts(rules.danger("it runs what a variable holds"))
        elif any(runs_index(self._variables.word(part)) for part in find_nodes(node, "raw_string", "string")):
            self._add_verdicts(rules.danger("it runs a program inside an index"))

    def _redirect(self, node: Node) -> None:
        target = node.child_by_field_name("destination")
        if target is None or target.type in ("number", "process_substitution"):
            return
        operator = next((child.type for child in node.children if not child.is_named), ">")
        name = self._variables.word(target)
        judge = rules.judge_read if operator in ("<", "<&") else rules.judge_write
        self._add_verdicts(*judge(self._resolve_name(name)), *self._folders.judge_redirection(name, operator))

    def _function(self, node: Node) -> None:
        name = node_text(node.child_by_field_name("name"))
        calls = [node_text(part) for part in find_nodes(node, "command_name")]
        if name in calls and (any(find_nodes(node, "pipeline")) or in_background(node)):
            self._add_verdicts(rules.danger("it starts itself repeatedly"))

    def _loop(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        text = node_text(condition).strip(" ;") if condition is not None else ":"
        endless = text == "false" if node_text(node).startswith("until") else text in _ALWAYS_SO
        if endless and in_background(node):
            self._add_verdicts(rules.danger("it starts programs endlessly"))

    def _is_far(self) -> bool:
        return bool(self._cwd) and (paths.is_root_like(self._cwd) or paths.is_system(self._cwd))

    def _resolve_name(self, word: str) -> str:
        """The name resolved from the folder the script changed to, if that matters."""
        if word.startswith(("-", "/", "~", UNKNOWN)) or not self._is_far():
            return word
        return f"{self._cwd.rstrip('/')}/{word}"

    def _add_verdicts(self, *verdicts: Verdict) -> None:
        self._found.extend(verdicts)


def _reads_on(name: str, arguments: list[str]) -> bool:
    """Whether its input may be executed and is not judged as its script anyway."""
    return name not in TELLING and not reads_code(name, arguments)


def _last_part(word: str) -> str:
    name = word.rpartition("/")[2] or word
    return re.sub(r"^(python|perl|ruby|node|php|lua|pip)[\d.]+$", r"\1", name)
