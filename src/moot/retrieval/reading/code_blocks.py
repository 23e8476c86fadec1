"""Cuts source code along its grammar: functions, classes and their methods stay whole where they fit.

Uses the tree-sitter grammars of the extra `rag`. Without one, code is cut where a line begins at the left margin.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from moot.retrieval.reading.pieces import TARGET, Block

# Endings of files, with the package of the grammar and the function in it.
_GRAMMARS = {
    "py": "python", "pyi": "python", "js": "javascript", "jsx": "javascript", "mjs": "javascript", "cjs": "javascript",
    "ts": "typescript:language_typescript", "tsx": "typescript:language_tsx", "go": "go", "rs": "rust", "java": "java",
    "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp", "hpp": "cpp", "sh": "bash", "bash": "bash",
}  # fmt: skip
# Languages without a grammar here, which are cut at the left margin.
_OTHERS = frozenset(
    {"cs", "rb", "php", "kt", "swift", "scala", "lua", "pl", "r", "sql", "dart", "ex", "hs", "ml", "proto", "css"}
)
CODE_ENDINGS = frozenset({*_GRAMMARS, *_OTHERS})
_DEEPEST = 6
_NAME_LENGTH = 120
_DEFINES = re.compile("definition|declaration|_item|class|function|method|struct|enum|interface|module|export")
_MARGIN = re.compile(r"^[^\s})\]]")

Cut = Callable[[Sequence[str]], Iterator[Block]]


def choose_cut(ending: str) -> Cut:
    """Return how code of files with this ending is cut."""
    parser = _load_parser(_GRAMMARS[ending]) if ending in _GRAMMARS else None
    if parser is None:
        return cut_at_margin
    return lambda lines: _cut_tree(parser, lines)


@cache
def _load_parser(grammar: str) -> Any:
    package, _, function = grammar.partition(":")
    try:
        from tree_sitter import Language, Parser  # noqa: PLC0415 - in an extra

        module = import_module(f"tree_sitter_{package}")
    except ImportError:
        return None
    return Parser(Language(getattr(module, function or "language")()))


def _cut_tree(parser: Any, lines: Sequence[str]) -> Iterator[Block]:
    tree = parser.parse("\n".join(lines).encode())
    yield from _cover(lines, list(_list_parts(tree.root_node, "", 0)))


def _list_parts(node: Any, path: str, depth: int) -> Iterator[tuple[int, int, str]]:
    """Yield the first and last row of parts that fit into a passage, with the names of what they are in."""
    for child in node.children:
        first, last = child.start_point[0], child.end_point[0]
        name = _read_name(child)
        inner = f"{path}.{name}" if path and name else name or path
        if child.end_byte - child.start_byte > TARGET and depth < _DEEPEST and child.child_count > 1:
            yield first, first, inner
            yield from _list_parts(child, inner, depth + 1)
        else:
            yield first, last, inner


def _read_name(node: Any) -> str:
    """Return the name of what a node defines; what it decorates or exports has it in turn."""
    if not _DEFINES.search(node.type):
        return ""
    for field in ("name", "definition", "declaration", "type"):
        found = node.child_by_field_name(field)
        if found is not None:
            return _read_name(found) if field in ("definition", "declaration") else _decode(found)
    return ""


def _decode(node: Any) -> str:
    return str(node.text.decode("utf-8", "replace"))[:_NAME_LENGTH]


def _cover(lines: Sequence[str], parts: list[tuple[int, int, str]]) -> Iterator[Block]:
    """Yield blocks of all lines, each from the start of a part to the next."""
    starts: dict[int, str] = {}
    for first, _, name in parts:
        # Of what begins in one line the innermost is named, such as the first method of a class.
        starts[first] = max(starts.get(first, ""), name, key=len)
    rows = sorted(starts)
    for place, row in enumerate(rows):
        begin = 0 if place == 0 else row
        end = rows[place + 1] if place + 1 < len(rows) else len(lines)
        block = lines[begin:end]
        if any(line.strip() for line in block):
            yield Block(lines=tuple(block), first=begin + 1, heading=starts[row])


def cut_at_margin(lines: Sequence[str]) -> Iterator[Block]:
    """Yield blocks that begin at a line without indentation after a blank or closing line."""
    start = 0
    for place in range(1, len(lines) + 1):
        is_cut = place == len(lines) or (
            _MARGIN.match(lines[place]) and (not lines[place - 1].strip() or lines[place - 1].startswith(("}", "end")))
        )
        if is_cut:
            if any(line.strip() for line in lines[start:place]):
                yield Block(lines=tuple(lines[start:place]), first=start + 1)
            start = place
