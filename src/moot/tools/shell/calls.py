"""What a script says once and means several times: functions, aliases, the rounds of a loop. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from moot.tools.shell import paths
from moot.tools.shell.literals import with_words
from moot.tools.shell.words import UNKNOWN, Node, Variables, every, text


class Calls:
    """The functions and aliases that a script defines, by name."""

    def __init__(self, root: Node, variables: Variables) -> None:
        self._functions: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        # Most scripts have none, and looking for them costs more than looking at the text.
        if b"alias" not in root.text and b"()" not in root.text and b"function" not in root.text:
            return
        for node in every(root, "function_definition"):
            body = node.child_by_field_name("body")
            if body is not None:
                self._functions[text(node.child_by_field_name("name"))] = text(body)
        for node in every(root, "command"):
            name = node.child_by_field_name("name")
            if name is not None and text(name) == "alias":
                words = [variables.word(part) for part in node.children_by_field_name("argument")]
                self._aliases.update(word.partition("=")[::2] for word in words if "=" in word)

    def scripts(self, words: Sequence[str]) -> Iterator[str]:
        """What these words come to where the first of them is one of these."""
        if (body := self._functions.get(words[0])) is not None:
            meant = with_words(body, words)
            if meant != body:
                yield meant
        elif (meant := self._aliases.get(words[0], "")) and len(words) > 1:
            yield f"{meant} {' '.join(word if UNKNOWN in word else shlex.quote(word) for word in words[1:])}"


def rounds(node: Node, variables: Variables) -> Iterator[str]:
    """The body of a loop over several words, once for each of them that is a place of consequence."""
    values = [word for part in node.children_by_field_name("value") for word in variables.words(part)]
    body, name = node.child_by_field_name("body"), text(node.child_by_field_name("variable"))
    if body is None or len(values) < 2:
        return
    inner = text(body).removeprefix("do").removesuffix("done")
    for value in dict.fromkeys(values):
        known = (paths.root_like, paths.system, paths.starting, paths.secret)
        if UNKNOWN not in value and any(matters(value) for matters in known):
            yield f"{name}={shlex.quote(value)}\n{inner}"
