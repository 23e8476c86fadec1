"""Composes the YAML of workflow files as untrusted input, with limits. Used by workflow_file.py. Pure."""

from collections.abc import Callable
from typing import Any

import yaml
from msgspec import Struct

from moot.domain.text import clean

MAX_BYTES = 1_048_576
_MAX_DEPTH = 8
_MAX_NODES = 100_000
_FastLoader: Any = getattr(yaml, "CSafeLoader", None)


class WorkflowProblem(Struct, frozen=True, order=True):
    """One mistake in a workflow file. Lines and columns count from 1."""

    line: int
    column: int
    reason: str

    def render(self, file: str = "") -> str:
        return f"{file or 'workflow'}:{self.line}:{self.column}: {self.reason}"


class Unreadable(Exception):
    """A file of which no more can be read."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(reason)
        self.problem = WorkflowProblem(line, column, clean(reason))


def compose(text: str) -> yaml.Node:
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise Unreadable(1, 1, f"the file is larger than {MAX_BYTES // 1024} KiB")
    if clean(text) != text:
        raise Unreadable(1, 1, "the file contains NUL or half of a surrogate pair")
    node = _compose_with(_FastLoader, text) if _FastLoader is not None else _compose_with(yaml.SafeLoader, text)
    if node is None:
        raise Unreadable(1, 1, "the file is empty")
    return node


def _compose_with(loader: Any, text: str) -> yaml.Node | None:
    try:
        _check_events(lambda: yaml.parse(text, Loader=loader))
        node: yaml.Node | None = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise Unreadable(line, column, f"this is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise Unreadable(1, 1, "the file contains a character that YAML does not allow") from None
    return node


def _check_events(parse: Callable[[], Any]) -> None:
    """Refuse what makes YAML slow or large: aliases, deep nesting, very many values, several documents."""
    depth = nodes = documents = 0
    for event in parse():
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable(line, column, f"aliases such as *{event.anchor} are not allowed")
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise Unreadable(line, column, "a file contains one workflow, not several documents")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > _MAX_DEPTH:
            raise Unreadable(line, column, "it is nested too deeply")
        if nodes > _MAX_NODES:
            raise Unreadable(line, column, f"it has more than {_MAX_NODES} values")
