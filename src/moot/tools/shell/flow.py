"""Data flow of a shell command: pipes, files that are executed later, data sent to the network. Pure."""

import posixpath
import re
from collections.abc import Iterator, Sequence

from moot.domain.shell import Verdict
from moot.tools.shell import paths
from moot.tools.shell.code import reads_code
from moot.tools.shell.languages import HANDING, LANGUAGES
from moot.tools.shell.rules import (
    DECODERS,
    FETCHERS,
    INTERPRETERS,
    NEEDED,
    SHELLS,
    danger,
    doubt,
    has_option,
    judge,
    operands,
    option_value,
)
from moot.tools.shell.stage import Stage, list_command_names
from moot.tools.shell.words import UNKNOWN, Node, Variables, ansi, find_nodes, node_text

_TELLING = frozenset({"env", "printenv", "history", "set", "export", "declare", "compgen", "ps", "fc", "ssh-add"})
_REMOVING = frozenset({"rm", "shred", "unlink", "rmdir", "truncate", "mv", "chmod", "chown"})
_UNPACKERS = frozenset({"tar", "bsdtar", "cpio", "unzip"})
# Longer pipes and more words for xargs than in any ordinary command.
_LONGEST_PIPE, _MOST_GIVEN = 64, 256
_PACKING = frozenset({"tar", "zip", "cat", "find", "gzip", "base64", "7z"})


class DataFlow:
    """The pipes of a script, and the files in it that were downloaded or decoded."""

    def __init__(self, root: Node, variables: Variables) -> None:
        self._root = root
        self._variables = variables
        self._known: dict[int, Stage] = {}
        self._fetched: set[str] = set()
        self._written: dict[str, str] = {}
        for node in find_nodes(root, "command"):
            stage = self.stage(node)
            self._fetched.update(_downloads(stage))
            output = _predict_output(stage)
            if output is not None:
                self._written.update({paths.normalize_path(target): output for target in stage.outputs})
            elif stage.name == "tee" and stage.input is not None:
                self._written.update(
                    {paths.normalize_path(target): stage.input for target in operands(stage.arguments)}
                )
        for node in find_nodes(root, "redirected_statement"):
            if any(name in FETCHERS or name in DECODERS for name in list_command_names(node, variables)):
                self._fetched.update(self._targets(node))
        for chain in self.chains():
            self._record_tee(chain)
        self._unpacked = False
        self._fetched -= {"/dev/null", "", ".", UNKNOWN}

    def _targets(self, node: Node) -> Iterator[str]:
        for redirect in find_nodes(node, "file_redirect"):
            target = redirect.child_by_field_name("destination")
            if target is not None and ">" in node_text(redirect):
                yield paths.normalize_path(self._variables.word(target))

    def _record_tee(self, chain: list[Stage]) -> None:
        """Record that tee's input is also written to its files."""
        if len(chain) > _LONGEST_PIPE:
            return
        for index, tee in enumerate(chain):
            targets = [paths.normalize_path(word) for word in operands(tee.arguments)] if tee.name == "tee" else []
            output = _predict_output(chain[0]) if index == 1 else None
            if output is not None:
                self._written.update(dict.fromkeys(targets, output))
            elif any(stage.name in FETCHERS or stage.name in DECODERS for stage in chain[:index]):
                self._fetched.update(targets)

    def stage(self, node: Node) -> Stage:
        """The command of a node; computed once."""
        known = self._known.get(node.id)
        if known is None:
            known = self._known[node.id] = Stage.of(node, self._variables)
        return known

    def chains(self) -> Iterator[list[Stage]]:
        """The commands of each pipe, in order."""
        for node in find_nodes(self._root, "pipeline"):
            before = node.parent
            stages: list[Stage] = []
            if before is not None and before.type == "heredoc_redirect":
                stages += self._stages(before.parent.child_by_field_name("body"))
            for child in node.named_children:
                stages += self._stages(child)
            yield stages

    def _stages(self, node: Node | None) -> list[Stage]:
        return [self.stage(command) for command in find_nodes(node, "command")] if node is not None else []

    def judge_use(self, words: Sequence[str]) -> Iterator[Verdict]:
        """Judge the execution of something that was just downloaded or decoded."""
        name = posixpath.basename(words[0])
        if self._unpacked and "/" in words[0] and not words[0].startswith("/"):
            yield danger(f"runs {words[0]}, which may have been fetched just before")
        if paths.normalize_path(words[0]) in self._fetched:
            yield danger(f"runs {words[0]}, which was fetched or decoded just before")
        code = re.sub(r"[\d.]+$", "", name) in INTERPRETERS or name in SHELLS or name in ("source", ".", "chmod")
        if code and any(paths.normalize_path(word) in self._fetched for word in words[1:]):
            yield danger("runs what was fetched or decoded just before")

    def scripts(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The scripts written here that these words run, each with the name of its interpreter."""
        name = re.sub(r"(?<=[a-z])[\d.]+$", "", posixpath.basename(words[0]))
        ran = [words[0]] if "/" in words[0] else operands(words[1:])[:1]
        runner = name if name in INTERPRETERS else "sh"
        if "/" in words[0] or name in SHELLS or name in INTERPRETERS or name in ("source", "."):
            yield from (
                (runner, self._written[paths.normalize_path(word)])
                for word in ran
                if paths.normalize_path(word) in self._written
            )

    def judge_leaks(self) -> Iterator[Verdict]:
        """Judge a script that expands the environment and uses the network."""
        stages = self._stages(self._root)
        if not any(stage.name in FETCHERS for stage in stages):
            return
        printing = [stage for part in find_nodes(self._root, "command_substitution") for stage in self._stages(part)]
        printing += [stage for stage in stages if stage.outputs]
        if any(stage.name in _TELLING and not operands(stage.arguments) and stage.name != "ps" for stage in printing):
            yield danger("sends the environment to another machine")

    def judge_chain(self, stages: list[Stage]) -> tuple[list[Verdict], list[tuple[str, str]]]:
        """Judge a pipe; returns verdicts and the scripts that are known to pass through it."""
        verdicts: list[Verdict] = []
        scripts: list[tuple[str, str]] = []
        if len(stages) > _LONGEST_PIPE:
            return [danger("it is too complex to be checked")], []
        for index, stage in enumerate(stages[1:], start=1):
            before = stages[:index]
            verdicts += _judge_given_words(before, stage)
            if stage.name in _UNPACKERS and any(earlier.name in FETCHERS for earlier in before):
                self._unpacked = True
            if stage.name in FETCHERS:
                verdicts += _judge_carried_away(before, stage)
            if _runs_input(stage):
                found, script = _judge_fed(before, stage)
                verdicts += found
                scripts += script
        return verdicts, scripts


def _judge_given_words(before: list[Stage], stage: Stage) -> Iterator[Verdict]:
    """Judge what xargs runs with its input, and commands fed by process substitution."""
    if stage.name == "tee" and any(name in SHELLS for name in stage.made_by):
        yield danger("passes commands to a shell indirectly")
    names = [earlier.name for earlier in before]
    looped = "read" in names and any(word.startswith(UNKNOWN) for word in stage.arguments)
    if not looped and not _gathers(stage):
        return
    if stage.name in _REMOVING and any(_wide(earlier) for earlier in before):
        yield danger("deletes what it finds in system folders or the home folder")
    if stage.name == "kill" and "ps" in names and not {"grep", "awk", "rg"} & set(names):
        yield danger("ends all processes it can")
    sources = [earlier for earlier in before if earlier.name != "read"]
    yield from _judge_filled_in((_predict_output(sources[0]) or "") if len(sources) == 1 else "", stage)


def _judge_filled_in(given: str, stage: Stage) -> Iterator[Verdict]:
    """Judge the command once for each input word."""
    words = given.split()
    for word in words[:_MOST_GIVEN]:
        yield from judge(stage.name, [argument.replace(UNKNOWN, word) for argument in stage.arguments])
    if len(words) > _MOST_GIVEN:
        yield danger("it is given more input than can be checked")


def judge_filled_here(stage: Stage) -> Iterator[Verdict]:
    """Judge what xargs runs with text given in the same command."""
    if stage.input is None:
        return
    if _gathers(stage):
        yield from _judge_filled_in(stage.input, stage)
    if stage.name in FETCHERS and any(paths.is_secret(word) for word in stage.input.split()[:_MOST_GIVEN]):
        yield danger("sends credentials to another machine")


def _gathers(stage: Stage) -> bool:
    return any(word.endswith(("xargs", "parallel")) for word in stage.words[:4])


def _wide(stage: Stage) -> bool:
    named = [word for word in stage.arguments if paths.is_root_like(word) or paths.is_system(word)]
    return stage.name in ("find", "fd", "ls", "locate", "du") and bool(named)


def _runs_input(stage: Stage) -> bool:
    return reads_code(stage.name, stage.arguments) and stage.input is None or stage.name in ("at", "batch")


def _judge_fed(before: list[Stage], stage: Stage) -> tuple[list[Verdict], list[tuple[str, str]]]:
    """Judge a shell or interpreter at the end of a pipe."""
    names = [earlier.name for earlier in before]
    if stage.name in LANGUAGES and all(name in HANDING for name in names):
        return [], []
    if any(name in FETCHERS or name in DECODERS for name in names) and stage.name not in LANGUAGES:
        return [danger(f"{stage.name} runs what was fetched or decoded")], []
    output = _predict_output(before[0]) if len(before) == 1 else None
    shell = stage.name in SHELLS or stage.name in ("source", ".")
    if output is not None and UNKNOWN not in output:
        return [], [(stage.name, output)]
    if shell and names != ["cat"]:
        return [danger(f"{stage.name} runs what {names[-1]} prints")], []
    return [doubt(f"{stage.name} runs what {names[-1]} prints")], []


def _predict_output(stage: Stage) -> str | None:
    """What a command prints, if its words determine it."""
    if stage.name == "echo":
        words = [word for word in stage.arguments if not re.fullmatch(r"-[neE]+", word)]
        return ansi(" ".join(words)) if "-e" in stage.arguments else " ".join(words)
    if stage.name == "printf" and stage.arguments:
        return ansi(" ".join(stage.arguments).replace("%s", " "))
    if stage.name == "cat" and not stage.arguments:
        return stage.input
    return None


def _judge_carried_away(before: list[Stage], stage: Stage) -> Iterator[Verdict]:
    for earlier in before:
        if earlier.name in _TELLING and (earlier.name != "ps" or stage.name in ("nc", "ncat")):
            yield danger(f"sends what {earlier.name} tells to another machine")
        elif earlier.name in _PACKING and any(
            paths.is_root_like(word) or paths.is_secret(word) or paths.is_private(word) for word in earlier.arguments
        ):
            yield danger("sends whole folders to another machine")
    if stage.name in ("curl", "wget", "ssh") and any(
        word in ("-T", "@-", "-F", "--upload-file") for word in stage.arguments
    ):
        yield doubt("sends its input to another machine")


def _downloads(stage: Stage) -> Iterator[str]:
    if stage.name not in ("curl", "wget", "aria2c", "scp"):
        return
    named = operands(stage.arguments)
    target = option_value(stage.arguments, "-o", "--output", "--output-document") or (
        option_value(stage.arguments, "-O") if stage.name == "wget" else ""
    )
    if target:
        yield paths.normalize_path(target)
    elif stage.name != "curl" or any(
        re.fullmatch(r"-[a-zA-Z]*O[a-zA-Z]*|--remote-name", word) for word in stage.arguments
    ):
        folder = option_value(stage.arguments, "-P", "--directory-prefix", "-d", "--dir", "--output-dir")
        found = [posixpath.basename(word.partition("?")[0]) for word in named if "/" in word]
        yield from (paths.normalize_path(posixpath.join(folder, name)) for name in found)


def floods(name: str, arguments: list[str], stage: Stage) -> Iterator[Verdict]:
    endless = (
        name == "yes" or name == "cat" and any(re.match(r"/dev/(zero|u?random|full)$", word) for word in arguments)
    )
    if endless and any(not target.startswith("/dev/") for target in stage.outputs):
        yield danger("writes until the disk is full")


def ends_all(name: str, stage: Stage) -> Iterator[Verdict]:
    names = [inner.name for inner in stage.substituted]
    if name == "kill" and "ps" in names and "grep" not in names and "pgrep" not in names:
        yield danger("ends all processes it can")
    for inner in stage.substituted if name == "kill" else ():
        if inner.name in ("pgrep", "pidof") and any(NEEDED.search(word) for word in inner.arguments):
            yield danger("ends processes the system needs")
        if inner.name == "pgrep" and has_option(inner.arguments, "uU") and len(operands(inner.arguments)) < 2:
            yield danger("ends all processes of a user")
