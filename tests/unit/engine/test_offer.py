"""Which tools a model is offered where not all of them fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from moot.domain.brief_tools import BRIEF_TOOLS
from moot.domain.config import ModelConfig
from moot.domain.ports.model import Model, ToolSupport
from moot.domain.prompt import MOST_BY_SCHEMA, ToolSpec
from moot.domain.tokens import estimate_tools
from moot.engine.offer import choose_tools, make_offer


@dataclass
class Window:
    window: int
    tools: ToolSupport = ToolSupport.NATIVE
    small: bool = False

    @property
    def config(self) -> ModelConfig:
        return ModelConfig(name="m", provider="openai", small=self.small)


def spec(name: str, *, length: int = 400, **more: Any) -> ToolSpec:
    return ToolSpec(name=name, description="d" * length, parameters={"type": "object"}, **more)


BUILT_IN = [spec(f"built_{number}") for number in range(30)]
OWN = spec("word_count", added=True)


def names(
    specs: Sequence[ToolSpec], window: int, prefixes: Sequence[str] | None = None, tools: str = "native"
) -> list[str]:
    model = cast(Model, Window(window, ToolSupport(tools)))
    return [each.name for each in choose_tools(specs, model, prefixes)]


def test_all_are_offered_where_all_fit() -> None:
    assert names([*BUILT_IN, OWN], 128_000) == [*(each.name for each in BUILT_IN), "word_count"]


def test_a_deferred_tool_is_offered_only_where_the_agents_file_names_it() -> None:
    search = spec("tool_search")
    deferred = [spec("cron_add", deferred=True, group="automation"), spec("save_fact", deferred=True, group="facts")]
    specs = [BUILT_IN[0], *deferred, search]

    assert names(specs, 128_000) == ["built_0", "tool_search"]
    assert names(specs, 128_000, ["*"]) == ["built_0", "tool_search"]
    assert names(specs, 128_000, ["cron_*", "save_fact"]) == ["built_0", "cron_add", "save_fact"]
    assert names(specs, 128_000, ["cron_*"], tools="schema") == ["built_0", "cron_add"]
    offer = make_offer(specs, cast(Model, Window(128_000)), ["cron_*"])
    assert [each.name for each in offer.left_out] == ["save_fact"]
    assert offer.without_room == ()
    assert offer.specs[-1].description.endswith("Among them are tools for: facts.")


def test_what_the_owner_added_comes_before_what_is_built_in_and_keeps_its_place() -> None:
    found = names([*BUILT_IN, OWN], 4096)

    assert found[-1] == "word_count"
    assert found[:-1] == [each.name for each in BUILT_IN][: len(found) - 1]
    assert 5 < len(found) < 20


def test_what_the_agents_file_names_comes_before_everything() -> None:
    added = [spec(f"mcp_{number}", added=True) for number in range(30)]

    found = names([*BUILT_IN, *added], 2048, ["built_2[0-2]", "mcp_29"])

    assert found == ["built_20", "built_21", "built_22", "mcp_0", "mcp_29"]


def test_a_pattern_for_everything_names_nothing() -> None:
    assert "word_count" in names([*BUILT_IN, OWN], 2048, ["*"])


def test_one_that_is_too_large_keeps_no_other_out() -> None:
    giant = spec("giant", length=100_000, added=True)

    found = names([giant, *BUILT_IN, OWN], 4096)

    assert "giant" not in found
    assert {"built_0", "word_count"} <= set(found)


def test_tools_for_working_with_others_and_for_asking_are_left_out_last() -> None:
    leading = [spec("agent_spawn"), spec("agent_wait")]

    assert names([*BUILT_IN, *leading], 2048)[-2:] == ["agent_spawn", "agent_wait"]
    assert names([*BUILT_IN, *leading], 2048, ["built_*"])[-2:] == ["agent_spawn", "agent_wait"]
    # A model that can choose among a few only has a specialist's own tools first.
    assert "agent_spawn" not in names([*BUILT_IN, *leading], 2048, ["built_*"], "schema")


def test_a_model_held_to_a_schema_is_offered_a_dozen_and_one_without_tools_none() -> None:
    found = names([*BUILT_IN, OWN], 1_000_000, tools="schema")

    assert len(found) == MOST_BY_SCHEMA
    assert found[-1] == "word_count"
    assert names([*BUILT_IN, OWN], 1_000_000, tools="none") == []


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=40),
    st.integers(1, 40_000),
)
def test_tools_never_take_more_than_a_third_of_a_window(sizes: list[tuple[int, bool]], window: int) -> None:
    specs = [spec(f"t{number}", length=length, added=added) for number, (length, added) in enumerate(sizes)]
    model = cast(Model, Window(window))

    found = choose_tools(specs, model, None)

    assert estimate_tools(found) <= window // 3
    assert found == choose_tools(specs, model, None)


def test_a_small_model_is_offered_few_tools_in_few_words_and_those_its_agent_is_there_for() -> None:
    path = {"path": {"type": "string", "description": "d" * 200}, "lines": {"type": "integer"}}
    read = ToolSpec(
        name="fs_read", description="d" * 400, parameters={"type": "object", "properties": path, "required": ["path"]}
    )
    specs = [read, spec("fs_stat"), spec("memory_save"), OWN]
    model = cast(Model, Window(8192, ToolSupport.SCHEMA, small=True))

    def offered(prefixes: Sequence[str] | None = None) -> list[str]:
        return [each.name for each in choose_tools(specs, model, prefixes)]

    assert offered() == ["fs_read", "word_count"]
    assert offered(["fs_*"]) == ["fs_read", "word_count"]
    assert offered(["memory_*"]) == ["fs_read", "memory_save", "word_count"]
    assert offered(["fs_*", "fs_stat"]) == ["fs_read", "fs_stat", "word_count"]
    brief = choose_tools(specs, model, None)[0]
    assert (brief.description, list(brief.parameters["properties"])) == ("read a file", ["path"])
    assert "description" not in brief.parameters["properties"]["path"]


def test_no_sample_value_for_a_small_model_is_a_description_that_it_could_copy() -> None:
    samples = [value for tool in BRIEF_TOOLS.values() for value in tool.sample.values()]
    assert [value for value in samples if len(value.split()) > 2] == []
