"""Nothing is built that the package itself does not use: tests alone do not keep a thing alive."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from moot.cli.main import COMMANDS
from tests.architecture.sources import FILES, SOURCE, nodes, parse

MODULES = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in FILES}

# Used from outside the package: the way in, one event in plain form, how a scope is written, and a clock for tests.
WAYS_IN = {
    ("moot.__main__", "main"),
    ("moot.wire.events", "stream_event"),
    ("moot.domain.scope", "only"),
    ("moot.daemon.clock", "ManualClock"),
    # Called by Python for an attribute of the module.
    ("moot.client.__init__", "__getattr__"),
    ("moot.client.__init__", "__dir__"),
}


def defined_in(path: Path) -> list[str]:
    """The functions and classes of a module. What is decorated is used by its decorator."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node.name
        for node in parse(path).body
        if isinstance(node, kinds) and (isinstance(node, ast.ClassDef) or not node.decorator_list)
    ]


def named_in(path: Path) -> set[str]:
    """Every name a module mentions beside defining it, in code and in quoted annotations."""
    names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            names.add(node.value)
    return names


def all_nodes() -> Iterator[ast.AST]:
    for path in FILES:
        yield from nodes(path)


@cache
def imported() -> frozenset[tuple[str, str]]:
    """Every (module, name) that some module of the package imports or reaches as an attribute of a module."""
    found = {
        (node.module, alias.name)
        for node in all_nodes()
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    modules = {f"{parent}.{name}" for parent, name in found} & set(MODULES)
    attributes = {node.attr for node in all_nodes() if isinstance(node, ast.Attribute)}
    return frozenset(found | {(module, name) for module in modules for name in attributes})


def test_every_function_and_class_is_used_by_the_package() -> None:
    commands = {tuple(entry.target.split(":")) for entry in COMMANDS.values()}
    known = imported() | commands | WAYS_IN
    idle = [
        f"{module}.{name}"
        for module, path in MODULES.items()
        for name in defined_in(path)
        if (module, name) not in known and name not in named_in(path)
    ]
    assert idle == []


def test_every_module_is_used_by_the_package() -> None:
    reached: set[object] = {node.module for node in all_nodes() if isinstance(node, ast.ImportFrom)}
    reached |= {f"{module}.{name}" for module, name in imported()}
    # A child process is started by the name of its module.
    reached |= {node.value for node in all_nodes() if isinstance(node, ast.Constant)}
    reached |= {entry.target.split(":")[0] for entry in COMMANDS.values()}
    # One that must run without the package is started by its file.
    reached |= {module for module in MODULES if f"{module.rsplit('.', 1)[-1]}.py" in reached}
    idle = [module for module in MODULES if module not in reached and not module.endswith(("__init__", "__main__"))]
    assert idle == []
