"""One command of a script with its words, redirections and input. Pure."""

import re

from msgspec import Struct, field

from moot.tools.shell.rules import DECODERS, FETCHERS
from moot.tools.shell.words import Node, Variables, find_nodes, node_text
from moot.tools.shell.wrappers import unwrap

_NUMBERED = re.compile(r"^(python|perl|ruby|node|php|lua)[\d.]+$")


class Stage(Struct):
    """One command with its input. `input` is the text given to it here, if known."""

    words: list[str]
    input: str | None = None
    # The names of commands whose output is its script or one of its words.
    made_by: list[str] = field(default_factory=list)
    # The commands whose output stands among its words.
    substituted: list["Stage"] = field(default_factory=list)
    # The files its output goes to.
    outputs: list[str] = field(default_factory=list)
    # The commands that its output is fed to beside a pipe.
    feeds: list["Stage"] = field(default_factory=list)
    _inner: list[str] | None = None
    _name: str | None = None

    @property
    def fetches(self) -> bool:
        return any(name in FETCHERS or name in DECODERS for name in self.made_by)

    @property
    def name(self) -> str:
        # Asked for many times, and the words do not change.
        if self._name is None:
            bare = self.inner[0].rpartition("/")[2] if self.inner else ""
            self._name = _NUMBERED.sub(r"\1", bare)
        return self._name

    @property
    def arguments(self) -> list[str]:
        return self.inner[1:]

    @property
    def inner(self) -> list[str]:
        """The words without wrapper commands."""
        if self._inner is None:
            self._inner = unwrap(self.words)
        return self._inner

    @classmethod
    def plain(cls, node: Node, variables: Variables) -> "Stage":
        """Build it from a `command` node's words only."""
        return cls([word for part in _child_parts(node) for word in variables.words(part)])

    @classmethod
    def of(cls, node: Node, variables: Variables) -> "Stage":
        """Build it from a `command` node with its redirections and command substitutions."""
        stage = cls.plain(node, variables)
        stage.input = _read_here_text(node, variables)
        stage.outputs = _outputs(node, variables)
        for part in _child_parts(node):
            for inner in find_nodes(part, "process_substitution"):
                stage.made_by += list_command_names(inner, variables)
            for inner in find_nodes(part, "command_substitution"):
                stage.substituted += [cls.plain(command, variables) for command in find_nodes(inner, "command")]
        here = node.parent
        if here is not None and here.type == "redirected_statement":
            stage.apply_redirects(here, variables)
        for redirect in find_nodes(node, "herestring_redirect"):
            for inner in find_nodes(redirect, "command_substitution"):
                stage.made_by += list_command_names(inner, variables)
        return stage

    def apply_redirects(self, around: Node, variables: Variables) -> None:
        self.input = _read_here_text(around, variables) if self.input is None else self.input
        self.outputs += _outputs(around, variables)
        for redirect in around.children_by_field_name("redirect"):
            for inner in find_nodes(redirect, "process_substitution"):
                self.made_by += list_command_names(inner, variables)
                if node_text(inner).startswith(">"):
                    self.feeds += [Stage.plain(command, variables) for command in find_nodes(inner, "command")]


def _child_parts(node: Node) -> list[Node]:
    name = node.child_by_field_name("name")
    return [*(name.named_children if name is not None else ()), *node.children_by_field_name("argument")]


def list_command_names(node: Node, variables: Variables) -> list[str]:
    return [Stage.plain(command, variables).name for command in find_nodes(node, "command")]


def _outputs(node: Node, variables: Variables) -> list[str]:
    found = []
    redirects = node.children_by_field_name("redirect")
    # What follows a here-document on its line hangs below it.
    redirects += [part for here in redirects if here.type == "heredoc_redirect" for part in here.named_children]
    for redirect in redirects:
        target = redirect.child_by_field_name("destination") if redirect.type == "file_redirect" else None
        if target is not None and target.type != "number" and ">" in node_text(redirect).lstrip("0123456789&")[:2]:
            found.append(variables.word(target))
    return found


def _read_here_text(node: Node, variables: Variables) -> str | None:
    """The text of a here-document or here-string of this node."""
    for child in node.named_children:
        if child.type == "herestring_redirect" and child.named_children:
            return variables.word(child.named_children[-1])
        if child.type == "heredoc_redirect":
            bodies = [part for part in child.named_children if part.type == "heredoc_body"]
            return node_text(bodies[0]) if bodies else ""
    return None
