"""What a reader is promised: the house has its papers, and they speak of everything there is."""

import re
from pathlib import Path

import pytest

from moot.cli.exits import Exit
from moot.cli.main import COMMANDS
from moot.daemon.config.keys import COMPACTION_KEYS, LIMIT_KEYS, LISTEN_KEYS, MODEL_KEYS, TOP_KEYS
from moot.domain.run import Outcome
from moot.wire import moot_pb2 as pb

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
KEYS = [key.name for keys in (TOP_KEYS, MODEL_KEYS, LIMIT_KEYS, COMPACTION_KEYS, LISTEN_KEYS) for key in keys]
DOCS = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_house_has_its_papers(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8")) > 400


@pytest.mark.parametrize("command", COMMANDS)
def test_the_docs_speak_of_every_command(command: str) -> None:
    assert re.search(rf"\bmoot {command}\b", DOCS)


@pytest.mark.parametrize("outcome", Outcome)
def test_the_docs_speak_of_every_outcome(outcome: Outcome) -> None:
    assert f"`{outcome.value}`" in DOCS


@pytest.mark.parametrize("code", Exit)
def test_the_docs_speak_of_every_exit_code(code: Exit) -> None:
    assert re.search(rf"\|\s*`?{int(code)}`?\s*\|", DOCS)


@pytest.mark.parametrize("key", KEYS)
def test_the_docs_speak_of_every_configuration_key(key: str) -> None:
    assert f"| `{key}` |" in DOCS


def test_the_protocol_page_speaks_of_every_request() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    missing = [
        field.message_type.name for field in pb.ClientMessage.DESCRIPTOR.fields if field.message_type is not None
    ]
    assert [name for name in missing if name not in page] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)} → {target}"
        for path in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []


def test_the_invariants_page_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    for file, test in named:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {test or 'test_'}" in source, f"{file}::{test}"
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert numbers == list(range(1, 15))
