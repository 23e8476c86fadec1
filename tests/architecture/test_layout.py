"""The shape of the source: files that say what they contain, names from one vocabulary, layers that hold."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import FILES, ROOT, SOURCE, nodes, parse

TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "__pycache__" not in path.parts)

BANNED = ("manager", "service", "helper", "util", "utils", "base", "core", "common", "session")

# Files that may have more than four hundred lines, and why.
LONGER = {
    "src/moot/store/graph.py": "one class reads and writes all rows of the graph",
    "src/moot/multiagent/teammates/teammates.py": "one class owns the runs of teammates from spawn to delivery",
    "src/moot/tools/skills/skill_tools.py": "five tools that share how a skill is read and shown",
}

# Names that somebody else chose: a library's class, a standard's word.
# `moot service` is named after what systemd and launchd call it.
FOREIGN = {"_base32", "service"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def says_what_it_is_for(path: Path) -> bool:
    docstring = ast.get_docstring(parse(path)) or " "
    return text_of(path).startswith('"""') and len(docstring.splitlines()[0]) >= 15


def test_a_file_says_in_its_first_line_what_it_is_for() -> None:
    assert [named(path) for path in FILES if not says_what_it_is_for(path)] == []


def test_modules_named_in_the_first_lines_of_a_file_exist() -> None:
    """A module that was renamed is renamed there as well."""
    known = [f"/{named(path)}" for path in (*FILES, *(ROOT / "scripts").rglob("*.py"))]
    gone = [
        f"{named(path)}: {module}"
        for path in FILES
        for module in re.findall(r"[\w/]+\.py\b", ast.get_docstring(parse(path)) or "")
        if not any(each.endswith(f"/{module}") for each in known)
    ]
    assert gone == []


def test_a_file_is_at_most_four_hundred_lines_long_or_has_a_reason() -> None:
    lengths = {named(path): len(text_of(path).splitlines()) for path in FILES}
    assert {name: lines for name, lines in lengths.items() if lines > 400 and name not in LONGER} == {}
    assert LONGER.keys() <= lengths.keys()


def test_no_two_test_files_outside_of_packages_share_a_name() -> None:
    """Pytest imports them by their name alone, and collects nothing at all when it meets one twice."""
    files = [path for path in TESTS if path.name.startswith("test_") and not (path.parent / "__init__.py").exists()]
    names = [path.name for path in files]
    assert [named(path) for path in files if names.count(path.name) > 1] == []


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def definitions(path: Path) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in nodes(path) if isinstance(node, kinds)]


def test_no_name_says_nothing() -> None:
    empty = [
        f"{named(path)}: {name}"
        for path in FILES
        for name in (*path.relative_to(SOURCE).with_suffix("").parts, *definitions(path))
        if name not in FOREIGN and set(words(name)) & set(BANNED)
    ]
    assert empty == []


def test_the_layers_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--config", ROOT / "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_project_speaks_of_itself_alone() -> None:
    """No path of a machine it was built on, and no address of a package index."""
    marks = ("/work" + "/", "/root" + "/", "pypi" + ".org")
    text_files = [*FILES, *TESTS, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "dev", ROOT / "pyproject.toml"]
    found = [
        f"{named(path)}: {mark}"
        for path in text_files
        for mark in marks
        if path.exists() and mark in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_tasks_have_an_owner() -> None:
    """Only a task group, the supervisor, and a call of the synchronous client start tasks."""
    loose = []
    for path in FILES:
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            starts = node.func.attr in ("create_task", "ensure_future", "gather")
            if starts and ("asyncio" in ast.unparse(node.func.value) or "loop" in ast.unparse(node.func.value)):
                loose.append(f"{named(path)}:{node.lineno}")
    owners = ("src/moot/engine/supervisor.py", "src/moot/client/sync_client.py")
    assert [place for place in loose if not place.startswith(owners)] == []
