"""The parsed source of the package, each file once: what the tests of this folder look at."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "moot"
FILES = sorted(path for path in SOURCE.rglob("*.py") if not path.name.startswith("moot_pb2"))


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, in the order of ast.walk."""
    return tuple(ast.walk(parse(path)))
