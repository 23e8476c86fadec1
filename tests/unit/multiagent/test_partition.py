from pathlib import Path

import pytest

from moot.agents.registry import Registry
from moot.domain.agent import ROLES, Agent, AgentStatus, scope_of
from moot.domain.errors import BadRequest, NotFound
from moot.multiagent.partition import Partition

SHARED = ("ask_user", "recall", "set_title", "task_create", "tool_output_get")
CONTROL = ("agent_spawn", "agent_stop", "agent_wait")
OWNERS = {
    "librarian": (
        "create_skill", "graph_query", "import_skill", "learning_stats", "librarian_dismiss_inquiry", "list_skills",
        "rag_retrieve", "save_knowledge", "save_learning", "search_knowledge", "view_skill", "web_fetch",
    ),
    "chronicler": ("memory_agent_save", "observe_add", "reflect_now"),
    "automator": ("bg_submit", "cron_add", "workflow_save"),
    "navigator": ("browser_search",),
    "vault": ("crypto_sign", "payment_send", "secrets_get"),
    "ontologist": ("ontology_add_fact",),
    "operator": ("exec", "exec_bg", "fs_read", "fs_write", "skill_deploy"),
}  # fmt: skip
UNMATCHED = ("mcp__tracker__list_issues", "review_diff")
TOOLS = [*SHARED, *CONTROL, *UNMATCHED, *(tool for owned in OWNERS.values() for tool in owned)]


def agents() -> list[Agent]:
    return [agent for agent in Registry(Path("/nowhere")).active() if agent.name in ("moot", *ROLES)]


def custom(
    name: str,
    *,
    prefixes: tuple[str, ...] | None = None,
    keywords: tuple[str, ...] = (),
    capabilities: tuple[str, ...] = (),
    always_include: bool = False,
    status: AgentStatus = AgentStatus.ACTIVE,
) -> Agent:
    return Agent(
        name=name,
        description="d",
        instruction="Do.",
        prefixes=prefixes,
        scope=scope_of(prefixes),
        keywords=keywords,
        capabilities=capabilities,
        always_include=always_include,
        status=status,
    )


def names(partition: Partition) -> list[str]:
    return [agent.name for agent in partition.teammates()]


@pytest.mark.parametrize("role", OWNERS)
def test_a_role_has_the_tools_its_prefixes_name(role: str) -> None:
    assert Partition(agents(), TOOLS).tools_of(role) == frozenset(OWNERS[role])


def test_every_tool_is_one_roles_or_everybodys_or_nobodys() -> None:
    partition = Partition(agents(), TOOLS)

    owned = [tool for role in ROLES for tool in partition.tools_of(role)]

    assert sorted([*owned, *partition.shared, *partition.unmatched]) == sorted(TOOLS)
    assert set(partition.unmatched) == set(UNMATCHED)
    assert set(partition.shared) == {*SHARED, *CONTROL}


def test_a_tool_two_roles_could_have_goes_to_the_earlier_in_the_matching_order() -> None:
    everything = ("*",)
    claimed = [
        Agent(name=agent.name, description="d", instruction="Do.", prefixes=everything, source=agent.source)
        if agent.name in ("operator", "vault", "chronicler")
        else agent
        for agent in agents()
    ]

    partition = Partition(claimed, TOOLS)

    assert partition.tools_of("librarian") == frozenset(OWNERS["librarian"])
    assert "fs_read" in partition.tools_of("chronicler")
    assert partition.tools_of("vault") == partition.tools_of("operator") == frozenset()


def test_the_planner_has_no_tool_and_is_a_teammate_all_the_same() -> None:
    partition = Partition(agents(), TOOLS)

    assert partition.tools_of("planner") == frozenset()
    assert "planner" in names(partition)
    assert not any(partition.spawn_scope("planner").allows(tool) for tool in TOOLS)


def test_a_role_without_tools_is_no_teammate() -> None:
    assert names(Partition(agents(), ["fs_read", "ask_user"])) == ["operator", "planner"]


def test_the_root_agent_is_nobodys_teammate() -> None:
    partition = Partition(agents(), TOOLS)

    assert "moot" not in names(partition)
    with pytest.raises(NotFound, match="moot"):
        partition.spawn_scope("moot")


def test_a_custom_agent_has_what_its_patterns_match_and_takes_it_from_nobody() -> None:
    reviewer = custom("reviewer", prefixes=("review_*", "fs_read"))

    partition = Partition([*agents(), reviewer], TOOLS)

    assert partition.tools_of("reviewer") == {"review_diff", "fs_read"}
    assert "fs_read" in partition.tools_of("operator")
    assert partition.unmatched == ("mcp__tracker__list_issues",)


def test_a_custom_agent_without_prefixes_has_no_tools_as_a_teammate() -> None:
    plain = custom("plain")
    always = custom("always", always_include=True)

    partition = Partition([*agents(), plain, always], TOOLS)

    assert partition.tools_of("plain") == frozenset()
    assert "plain" not in names(partition)
    assert "always" in names(partition)
    assert not any(partition.spawn_scope("always").allows(tool) for tool in TOOLS)
    with pytest.raises(BadRequest, match="no tools"):
        partition.spawn_scope("plain")


def test_an_agent_that_is_not_active_is_not_there() -> None:
    partition = Partition([*agents(), custom("idle", prefixes=("review_*",), status=AgentStatus.DRAFT)], TOOLS)

    assert "idle" not in names(partition)
    assert "review_diff" in partition.unmatched


def test_a_word_gives_nobody_a_tool_but_says_whose_it_could_be() -> None:
    tracker = custom("tracker", prefixes=("jira_*",), keywords=("tracker",))
    critic = custom("critic", prefixes=("lint_*",), capabilities=("diff-review", "cooking"), keywords=("diff",))

    partition = Partition([*agents(), tracker, critic], TOOLS)

    assert set(partition.unmatched) == set(UNMATCHED)
    assert [(kin.agent, kin.signal) for kin in partition.find_related("mcp__tracker__list_issues")] == [
        ("tracker", "keyword")
    ]
    assert [(kin.agent, kin.signal, kin.word) for kin in partition.find_related("review_diff")] == [
        ("critic", "keyword", "diff")
    ]
    assert partition.find_related("exec_shell") == ()


def test_a_spawn_without_allowed_tools_has_all_of_its_role_and_nothing_else() -> None:
    scope = Partition(agents(), TOOLS).spawn_scope("operator")

    assert {tool for tool in TOOLS if scope.allows(tool)} == {*OWNERS["operator"], *SHARED, *CONTROL}


def test_an_empty_list_of_allowed_tools_is_no_tool_at_all() -> None:
    scope = Partition(agents(), TOOLS).spawn_scope("operator", [])

    assert not [tool for tool in TOOLS if scope.allows(tool)]


def test_allowed_tools_narrow_a_role_and_take_the_tools_that_set_others_to_work() -> None:
    scope = Partition(agents(), TOOLS).spawn_scope("operator", ["fs_read"])

    assert {tool for tool in TOOLS if scope.allows(tool)} == {"fs_read", *SHARED}


def test_allowed_tools_may_be_patterns_and_name_tools_of_no_role() -> None:
    partition = Partition(agents(), TOOLS)

    files = partition.spawn_scope("operator", ["fs_*", "agent_wait"])
    talking = partition.spawn_scope("operator", ["ask_user"])
    everything = partition.spawn_scope("operator", ["*"])

    assert {tool for tool in TOOLS if files.allows(tool)} == {"fs_read", "fs_write", "agent_wait", *SHARED}
    assert {tool for tool in TOOLS if talking.allows(tool)} == set(SHARED)
    assert not everything.allows("web_fetch")


@pytest.mark.parametrize(
    ("role", "wanted", "hint"),
    [
        ("operator", "web_fetch", "exec, exec_bg, fs_read"),
        ("operator", "no_such_tool", "exec, exec_bg, fs_read"),
        ("operator", "", "exec, exec_bg, fs_read"),
        ("operator", "browser_*", "exec, exec_bg, fs_read"),
        ("planner", "exec", "leave allowed_tools out"),
        ("planner", "ask_user", "leave allowed_tools out"),
    ],
)
def test_a_tool_outside_the_role_is_refused_with_what_is_allowed(role: str, wanted: str, hint: str) -> None:
    with pytest.raises(BadRequest, match=role) as refused:
        Partition(agents(), TOOLS).spawn_scope(role, ["fs_read", wanted] if role == "operator" else [wanted])

    assert hint in refused.value.fix


def test_an_unknown_teammate_is_refused_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="debugger") as refused:
        Partition(agents(), TOOLS).spawn_scope("debugger", ["exec"])

    assert "operator" in refused.value.fix


@pytest.mark.parametrize("role", [role for role in ROLES if role != "planner"])
def test_what_a_role_is_given_is_within_what_its_file_allows(role: str) -> None:
    """The loop intersects the two, so a difference would be a tool that is promised and never there."""
    (agent,) = [agent for agent in agents() if agent.name == role]
    scope = Partition(agents(), TOOLS).spawn_scope(role)

    assert all(agent.scope.allows(tool) for tool in TOOLS if scope.allows(tool))
