"""Names of functions: verbs, not past participles. `render_ask`, not `asked`."""

import ast

import pytest

from tests.architecture.sources import FILES, SOURCE, nodes

# Past participles that do not end in -ed.
IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "broken",
        "brought",
        "built",
        "chosen",
        "come",
        "cut",
        "done",
        "drawn",
        "fed",
        "found",
        "given",
        "gone",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "put",
        "read",
        "said",
        "seen",
        "sent",
        "set",
        "shown",
        "spent",
        "split",
        "spoken",
        "stood",
        "taken",
        "thought",
        "told",
        "torn",
        "understood",
        "unbroken",
        "unheld",
        "woken",
        "won",
        "worn",
        "written",
    ]
)
# These are verbs as well; as a name of a function each is one.
VERBS = frozenset({"cut", "feed", "put", "read", "set", "split"})
# The share of functions of a package that may be named by a bare participle.
MOST = {
    "agents": 0.02,
    "automation": 0.01,
    "retrieval": 0.01,
    "broker": 0.02,
    "cli": 0.005,
    "client": 0.05,
    "daemon": 0.02,
    "domain": 0.02,
    "engine": 0.02,
    "hooks": 0.02,
    "models": 0.01,
    "multiagent": 0.01,
    "redaction": 0.02,
    "store": 0.01,
    "tools": 0.01,
    "wire": 0.02,
}


def is_bare_participle(name: str) -> bool:
    word = name.strip("_")
    if "_" in word or word in VERBS:
        return False
    return word in IRREGULAR or (word.endswith("ed") and not word.endswith("eed"))


def functions(package: str) -> list[str]:
    return [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
        for path in FILES
        if path.is_relative_to(SOURCE / package)
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_every_package_is_looked_at() -> None:
    assert set(MOST) == {path.parent.name for path in SOURCE.glob("*/__init__.py")}


@pytest.mark.parametrize("package", MOST)
def test_functions_are_named_after_what_they_do(package: str) -> None:
    found = functions(package)
    bare = [each for each in found if is_bare_participle(each.rsplit(" ", 1)[1])]
    assert len(bare) <= MOST[package] * len(found), "\n".join(bare)
