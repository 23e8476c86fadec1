"""Expands functions, aliases and loops of a script for the classifier. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence

from moot.tools.shell import paths
from moot.tools.shell.literals import substitute_words
from moot.tools.shell.words import UNKNOWN, Node, Variables, find_nodes, node_text


class ShellFunctions:
    """The functions and aliases that a script defines, by name."""

    def __init__(self, root: Node, variables: Variables) -> None:
        self._functions: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        # Most scripts have none; searching the text first is cheaper than searching the tree.
        raw: bytes = root.text
        if b"alias" not in raw and b"()" not in raw and b"function" not in raw:
            return
        for node in find_nodes(root, "function_definition"):
            body = node.child_by_field_name("body")
            if body is not None:
                self._functions[node_text(node.child_by_field_name("name"))] = node_text(body)
        for node in find_nodes(root, "command"):
            name = node.child_by_field_name("name")
            if name is not None and node_text(name) == "alias":
                words = [variables.word(part) for part in node.children_by_field_name("argument")]
                self._aliases.update(word.partition("=")[::2] for word in words if "=" in word)

    def scripts(self, words: Sequence[str]) -> Iterator[str]:
        """The scripts that these words run, if the first is one of the functions or aliases."""
        if (body := self._functions.get(words[0])) is not None:
            meant = substitute_words(body, words)
            if meant != body:
                yield meant
        elif (meant := self._aliases.get(words[0], "")) and len(words) > 1:
            yield f"{meant} {_quote_words(words[1:])}"


def loop_bodies(node: Node, variables: Variables) -> Iterator[str]:
    """The body of a loop over several words, once for each word that is a sensitive path."""
    values = [word for part in node.children_by_field_name("value") for word in variables.words(part)]
    body, name = node.child_by_field_name("body"), node_text(node.child_by_field_name("variable"))
    if body is None or len(values) < 2:
        return
    inner = node_text(body).removeprefix("do").removesuffix("done")
    for value in dict.fromkeys(values):
        known = (paths.is_root_like, paths.is_system, paths.is_startup_file, paths.is_secret)
        if UNKNOWN not in value and any(matters(value) for matters in known):
            yield f"{name}={shlex.quote(value)}\n{inner}"


# A list that stands for all its words, and a variable with a twist that is not followed.
_WHOLE = re.compile(r'"?\$\{(\w+)\[[@*]\]\}"?|"\$\{?([@*])\}?"|\$([@*])')
_GLUED = re.compile(rb"[^\s\\]\\\n[^\s\\]")
_TWISTED = re.compile(r"\$\{(\w+)(?::?[-=]([^{}$`\"']*)|[%#/^,:][^{}$`\"']*)\}")


def expand_script(root: Node, variables: Variables) -> Iterator[str]:
    """The script with lists expanded and variables replaced by their known or empty values.

    Used only to find something worse, because the values need not be the same at run time.
    """
    raw: bytes = root.text
    if _GLUED.search(raw):
        # A line continuation inside a word, which is only used for obfuscation.
        yield node_text(root).replace("\\\n", "")
    if b"${" not in raw and b"set --" not in raw:
        return
    source = node_text(root)
    lists = _list_variables(root, variables)

    def words(found: re.Match[str]) -> str:
        return lists.get(found[1] or found[2] or found[3], found[0])

    def value(found: re.Match[str]) -> str:
        known = variables.value(found[1])
        return known if UNKNOWN not in known else found[2] or found[0]

    meant = _TWISTED.sub(value, _WHOLE.sub(words, source))
    if meant != source:
        yield meant


def _list_variables(root: Node, variables: Variables) -> dict[str, str]:
    lists = {}
    for node in find_nodes(root, "variable_assignment"):
        value = node.child_by_field_name("value")
        if value is not None and value.type == "array":
            words = [word for part in value.named_children for word in variables.words(part)]
            lists[node_text(node.child_by_field_name("name"))] = _quote_words(words)
    for node in find_nodes(root, "command"):
        words = [variables.word(part) for part in node.named_children]
        if words[:2] == ["set", "--"]:
            lists["@"] = lists["*"] = _quote_words(words[2:])
    return lists


def _quote_words(words: Sequence[str]) -> str:
    return " ".join("${MOOT_UNKNOWN}" if UNKNOWN in word else shlex.quote(word) for word in words)
