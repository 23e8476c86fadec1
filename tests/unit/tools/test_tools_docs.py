"""docs/tools.md says what the tools of a daemon say, and every tool says enough."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from moot.domain.ports.tool import Renders
from moot.domain.prompt import Safety, ToolSpec
from scripts.tooldoc import TARGET, document, live, tools

OWN = '''
from moot.tools import tool


@tool
def add(what: str, number: int = 1) -> str:
    """Put something on the list.

    Args:
        what: What to put there.
        number: How many.
    """
    return what
'''


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> list[ToolSpec]:
    return asyncio.run(live(tmp_path_factory.mktemp("home")))


def test_the_list_of_tools_is_current(specs: list[ToolSpec]) -> None:
    assert TARGET.read_text(encoding="utf-8") == document(specs), "run: python scripts/tooldoc.py"


def test_the_list_tells_whole_sentences_and_what_is_inside_a_list_of_objects(specs: list[ToolSpec]) -> None:
    rows = {line.split("`")[1]: line for line in document(specs).splitlines() if line.startswith("| `")}
    assert rows["fs_list"].endswith("| List the contents of a folder; . is the working directory itself. |")
    assert "`questions`: {`question`, [`header`], [`options`: {`label`, [`description`]}, …]" in rows["ask_user"]


def test_every_tool_can_say_a_call_in_one_line(tmp_path: Path) -> None:
    own = tmp_path / "tools"
    own.mkdir(mode=0o700)
    (own / "own.py").write_text(OWN, encoding="utf-8")
    found = {tool.spec.name: tool for tool in asyncio.run(tools(tmp_path))}
    assert [name for name, tool in found.items() if not isinstance(tool, Renders)] == []
    said: dict[str, str] = {name: cast(Renders, tool).line({}) for name, tool in found.items()}
    assert [name for name, line in said.items() if not line] == []
    assert cast(Renders, found["add"]).line({"what": "milk", "number": 2}) == "add: what milk, number 2"
    assert cast(Renders, found["ask_user"]).line({"questions": [{"question": "Tea?"}]}) == "ask: Tea?"


def test_every_tool_says_what_it_is_for_and_belongs_to_a_family(specs: list[ToolSpec]) -> None:
    assert [spec.name for spec in specs if not spec.group] == []
    assert [spec.name for spec in specs if len(spec.description) < 20] == []
    # Searching reaches out, and only a run that has seen strangers' words is asked about it.
    assert [spec.name for spec in specs if spec.sinks and spec.safety is Safety.SAFE] == ["web_search"]
    undescribed = [
        f"{spec.name}.{name}"
        for spec in specs
        for name in spec.parameters.get("required", ())
        if name not in spec.parameters["properties"]
    ]
    assert undescribed == []
