"""The documentation: complete, without broken links, and naming only what exists."""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from moot.cli.exits import Exit
from moot.cli.main import COMMANDS
from moot.daemon.config.keys import COMPACTION_KEYS, LIMIT_KEYS, LISTEN_KEYS, MODEL_KEYS, TOP_KEYS
from moot.domain import agent, approval, ask, owner, recovery, run, run_view
from moot.domain.events import EventBody
from moot.domain.run import Outcome
from moot.wire import moot_pb2 as pb
from tests.architecture.sources import nodes

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
KEYS = [key.name for keys in (TOP_KEYS, MODEL_KEYS, LIMIT_KEYS, COMPACTION_KEYS, LISTEN_KEYS) for key in keys]
DOCS = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "moot").rglob("*.py")))

INVARIANTS = list(range(1, 19))
# The pages that say where things are.
MAPS = ("ARCHITECTURE.md", "CONTRIBUTING.md")
SUFFIXES = (".py", ".md", ".proto", ".sql", "/")
# The modules of the domain whose public classes are concepts.
CONCEPTS = (
    "agent", "approval", "ask", "conversation", "events", "memory", "message", "note", "owner", "prompt",
    "recovery", "run", "run_view", "scope", "skill", "step_record", "task", "trace", "usage", "vocabulary",
    "workflow",
)  # fmt: skip
ENUMS: tuple[type[StrEnum], ...] = (
    Outcome, run.RunStatus, run.RunKind, run.Delivery, ask.AskKind, ask.AskState, approval.Decision,
    recovery.RecoveryAction, agent.AgentSource, agent.AgentStatus, run_view.TeammateStatus, run_view.Condition,
    run_view.GrantState, owner.Location,
)  # fmt: skip


@cache
def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_main_pages_exist(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8")) > 400


def test_every_decision_has_a_number_of_its_own() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    numbers = [int(path.name[:4]) for path in decisions]
    assert len(set(numbers)) == len(numbers)
    titles = [int(path.read_text(encoding="utf-8").removeprefix("# ").partition(".")[0]) for path in decisions]
    assert titles == numbers


@pytest.mark.parametrize("command", COMMANDS)
def test_the_docs_describe_every_command(command: str) -> None:
    assert re.search(rf"\bmoot {command}\b", DOCS)


@pytest.mark.parametrize("outcome", Outcome)
def test_the_docs_describe_every_outcome(outcome: Outcome) -> None:
    assert f"`{outcome.value}`" in DOCS


@pytest.mark.parametrize("code", Exit)
def test_the_docs_describe_every_exit_code(code: Exit) -> None:
    assert re.search(rf"\|\s*`?{int(code)}`?\s*\|", DOCS)


@pytest.mark.parametrize("key", KEYS)
def test_the_docs_describe_every_configuration_key(key: str) -> None:
    assert f"| `{key}` |" in DOCS


def test_the_protocol_page_describes_every_request() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    missing = [
        field.message_type.name for field in pb.ClientMessage.DESCRIPTOR.fields if field.message_type is not None
    ]
    assert [name for name in missing if name not in page] == []


@pytest.mark.parametrize("kind", [name.lower() for name in pb.AgentEventKind.keys()])  # noqa: SIM118 — no dict
def test_the_events_page_describes_every_kind(kind: str) -> None:
    assert f"`{kind}`" in read("docs/events.md")


def make_anchor(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", heading.strip().lower())
    return re.sub(r"\s", "-", words)


def test_links_to_sections_lead_somewhere() -> None:
    broken = []
    for path in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
            page = path.parent / target if target else path
            if "://" not in target and page.suffix == ".md":
                headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
                broken += [] if anchor in map(make_anchor, headings) else [f"{path.name} → {target}#{anchor}"]
    assert broken == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)} → {target}"
        for path in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_page_is_linked_from_the_index() -> None:
    index = read("docs/README.md")
    pages = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "README.md"]
    assert [name for name in pages if f"]({name})" not in index] == []
    assert "](adr/)" in index


# ---- invariants -----------------------------------------------------------------------------------


def test_each_invariant_has_tests_that_exist() -> None:
    rows = re.findall(r"^\| +(\d*) *\|[^|]+\|([^|]+)\|$", read("docs/invariants.md"), re.MULTILINE)
    assert [int(number) for number, _ in rows if number] == INVARIANTS
    for number, tests in rows:
        named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", tests)
        assert named, number
        for file, test in named:
            assert f"def {test or 'test_'}" in read(f"tests/{file}"), f"{file}::{test}"


def test_the_architecture_page_lists_the_same_invariants() -> None:
    section = read("ARCHITECTURE.md").partition("## Invariants")[2]
    assert [int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)] == INVARIANTS


# ---- glossary -------------------------------------------------------------------------------------


def is_port_or_error(node: ast.ClassDef) -> bool:
    return any(ast.unparse(parent).endswith(("Protocol", "Exception", "Error")) for parent in node.bases)


def list_nouns() -> list[str]:
    """The public classes of the domain modules that hold concepts."""
    return sorted(
        {
            node.name
            for module in CONCEPTS
            for node in ast.parse(read(f"src/moot/domain/{module}.py")).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_port_or_error(node)
        }
    )


@pytest.mark.parametrize("noun", list_nouns())
def test_every_public_noun_is_in_the_glossary(noun: str) -> None:
    assert f"`{noun}`" in read("docs/glossary.md")


@pytest.mark.parametrize("body", get_args(EventBody))
def test_every_event_is_in_the_glossary(body: type) -> None:
    assert f"`{body.__name__}`" in read("docs/glossary.md")


@pytest.mark.parametrize("enum", ENUMS)
def test_every_value_of_a_public_enum_is_in_the_glossary(enum: type[StrEnum]) -> None:
    page = read("docs/glossary.md")
    assert [value for value in enum if value and f"`{value}`" not in page] == []


def test_the_glossary_names_only_classes_that_exist() -> None:
    named = set(re.findall(r"`([A-Z][a-z]\w+)`", read("docs/glossary.md")))
    assert sorted(named - {name for name, _ in list_classes()}) == []


# ---- the maps for contributors --------------------------------------------------------------------


@cache
def list_classes() -> tuple[tuple[str, frozenset[str]], ...]:
    """Every class of the package, with the names that it defines."""
    return tuple(
        (node.name, frozenset(list_members(node)))
        for path in sorted((ROOT / "src" / "moot").rglob("*.py"))
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    )


def list_members(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def find_paths(page: str) -> list[str]:
    """What a page names in backticks that looks like a file or a folder."""
    return [name for name in re.findall(r"`([\w./-]+)`", page) if name.endswith(SUFFIXES) or "/" in name.strip("./")]


def path_exists(name: str) -> bool:
    """Whether a file or folder exists: from the root, or below the package, where its folders may be left out."""
    package = ROOT / "src" / "moot"
    if any((folder / f"{name}{suffix}").exists() for folder in (ROOT, package) for suffix in ("", ".py")):
        return True
    return any(path.as_posix().endswith(f"/{name.rstrip('/')}") for path in package.rglob(Path(name).name))


@pytest.mark.parametrize("page", MAPS)
def test_every_file_a_map_names_exists(page: str) -> None:
    paths = find_paths(read(page))
    assert len(paths) > 20
    assert [name for name in paths if not path_exists(name)] == []


@pytest.mark.parametrize("page", MAPS)
def test_every_class_method_and_command_a_map_names_exists(page: str) -> None:
    members: dict[str, set[str]] = {}
    for name, own in list_classes():
        members.setdefault(name, set()).update(own)
    text = read(page)
    methods = re.findall(r"`([A-Z][a-z]\w*)\.(\w+)`", text)
    assert len(methods) > 3
    assert [f"{name}.{method}" for name, method in methods if method not in members.get(name, ())] == []
    functions = re.findall(r"`([a-z]+_[a-z_]+[a-z])`", text)
    assert [name for name in functions if not re.search(rf"\b{name}\b", SOURCE)] == []
    commands = re.findall(r"`moot ([a-z]+)", text)
    assert [command for command in commands if command not in COMMANDS] == []


def test_the_code_map_names_every_package() -> None:
    packages = sorted(path.parent.name for path in (ROOT / "src" / "moot").glob("*/__init__.py"))
    page = read("ARCHITECTURE.md")
    assert [name for name in packages if f"`{name}/`" not in page] == []
