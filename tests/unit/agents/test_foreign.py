from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.agents.agent_md import parse_agent, render_agent
from moot.agents.foreign import ForeignAgent, parse_foreign, read_foreign
from moot.domain.agent import AgentStatus
from moot.domain.front_matter import Broken
from moot.multiagent.partition import Partition


def parsed(front: str, *, path: str = "/x/critic.md", body: str = "You judge.") -> ForeignAgent:
    return parse_foreign(f"---\n{front}\n---\n{body}\n", path=path, models=("claude",))


def test_name_description_and_text_are_taken() -> None:
    agent = parsed("name: judge\ndescription: |\n  Judges\n  code.\ncolor: red").agent

    assert (agent.name, agent.description, agent.instruction) == ("judge", "Judges code.", "You judge.")
    assert agent.path == "/x/critic.md"


def test_a_file_without_a_name_is_called_by_its_own() -> None:
    assert parsed("description: d\nmode: subagent").agent.name == "critic"


@pytest.mark.parametrize(
    ("front", "prefixes"),
    [
        ("tools: Read, Grep, Glob", ("fs_read", "fs_stat", "fs_search", "fs_glob", "fs_list")),
        ("tools: [Read, WebFetch]", ("fs_read", "fs_stat", "web_fetch")),
        ("tools: Bash", ("exec", "exec_bg", "exec_status", "exec_stop")),
        ("tools: Bash(git diff:*, git log:*), Read", ("fs_read", "fs_stat")),
        ("tools: mcp__tracker__list, mcp__files", ("mcp__tracker__list", "mcp__files__*")),
        ("tools: []", ()),
        ("tools: Unheard", ()),
        ("tools: TodoWrite", ()),
        ("tools:\n  write: true\n  read: true\n  bash: false", ("fs_write", "fs_mkdir", "fs_read", "fs_stat")),
        ("tools: Read, Edit\ndisallowedTools: Edit", ("fs_read", "fs_stat")),
        ("tools: Read\npermission:\n  read: deny", ()),
    ],
)
def test_tools_get_the_names_they_have_here_and_never_more_than_was_allowed(
    front: str, prefixes: tuple[str, ...] | None
) -> None:
    assert parsed(f"description: d\n{front}").agent.prefixes == prefixes


@pytest.mark.parametrize(
    "front",
    [
        "tools:\n  bash: false",
        "tools:\n  Bash: no",
        "disallowedTools: Bash",
        "permission:\n  bash: deny",
        "permission:\n  bash:\n    'git *': allow\n    '*': deny",
    ],
)
def test_what_a_file_denies_is_not_given_and_the_rest_is(front: str) -> None:
    agent = parsed(f"description: d\n{front}").agent

    assert not agent.scope.allows("exec")
    assert agent.scope.allows("fs_read")


FILES = {"fs_read", "fs_stat", "fs_list", "fs_search", "fs_glob"}
CHANGES = {"fs_write", "fs_mkdir", "fs_edit", "fs_patch"}
COMMANDS = {"exec", "exec_bg", "exec_status", "exec_stop"}
REST = {"web_fetch", "web_search", "list_skills", "view_skill"}
SPAWNING = {"agent_spawn", "agent_wait", "agent_stop"}
EVERYBODYS = {"ask_user", "task_create", "recall"}
SERVERS = {"mcp__files__read", "mcp__tracker__close"}
NEVER = {"fs_delete", "secrets_get", "create_skill", "memory_agent_save"}
TOOLS = FILES | CHANGES | COMMANDS | REST | SPAWNING | EVERYBODYS | SERVERS | NEVER
ALL = TOOLS - NEVER
LISTED = EVERYBODYS

REFUSALS = {
    # Nothing is refused.
    "": ALL,
    "tools: '*'": ALL,
    "tools:\n  '*': true": ALL,
    "permission: allow": ALL,
    "permission:\n  '*': ask": ALL,
    "permissions:\n  - {action: '*', resource: '*', effect: allow}": ALL,
    # A list of names that are refused.
    "disallowedTools: Write": ALL - {"fs_write", "fs_mkdir"},
    "disallowedTools: Edit": ALL - {"fs_edit", "fs_patch"},
    "disallowedTools: Write, Edit": ALL - CHANGES,
    "disallowedTools: [Write, Edit, NotebookEdit]": ALL - CHANGES,
    "disallowed-tools: Write, Edit": ALL - CHANGES,
    "disallowedTools: MultiEdit": ALL - {"fs_edit", "fs_patch"},
    "disallowedTools: Bash": ALL - COMMANDS,
    "disallowedTools: Bash(rm:*, mv:*)": ALL - COMMANDS,
    "disallowedTools: KillShell": ALL - {"exec_stop"},
    "disallowedTools: Read(./.env)": ALL - {"fs_read", "fs_stat", "fs_search"},
    "disallowedTools: Grep": ALL - {"fs_search"},
    "disallowedTools: Glob": ALL - {"fs_list", "fs_glob"},
    "disallowedTools: WebFetch, WebSearch, Skill": ALL - REST,
    "disallowedTools: Task": ALL - SPAWNING,
    "disallowedTools: Agent(worker)": ALL - SPAWNING,
    "disallowedTools: TodoWrite, AskUserQuestion": ALL - {"task_create", "ask_user"},
    "disallowedTools: mcp__files": ALL - SERVERS,
    "disallowedTools: Unheard": ALL - SERVERS,
    "disallowedTools: '*'": set(),
    "tools: Read\ndisallowedTools: '*'": set(),
    "tools: mcp__files\ndisallowedTools: mcp__files__read": set(),
    "tools: mcp__files, mcp__tracker\ndisallowedTools: mcp__files__read": {"mcp__tracker__close"} | LISTED,
    "tools: mcp__files__read\ndisallowedTools: mcp__*": set(),
    "tools: mcp__*__read\ndisallowedTools: mcp__files__*": set(),
    "tools: MCP__files__read": set(),
    "permissionMode: plan": ALL - CHANGES - COMMANDS,
    "tools: Read, Edit, Bash\npermissionMode: plan": {"fs_read", "fs_stat"} | LISTED,
    # A list of names that are asked for.
    "tools: Read, Grep, Glob, LS": FILES | LISTED,
    "tools: Read, Task": {"fs_read", "fs_stat"} | SPAWNING | LISTED,
    "tools: Bash, BashOutput, KillShell\ndisallowedTools: BashOutput": COMMANDS - {"exec_status"} | LISTED,
    "tools: Edit, MultiEdit\ndisallowedTools: Edit": set(),
    "tools: Skill": {"list_skills", "view_skill"} | LISTED,
    # A table of tools.
    "tools:\n  edit: false": ALL - CHANGES,
    "tools:\n  write: false": ALL - CHANGES,
    "tools:\n  patch: false": ALL - CHANGES,
    "tools:\n  edit: false\n  write: false\n  patch: false\n  bash: false": ALL - CHANGES - COMMANDS,
    "tools:\n  bash: false": ALL - COMMANDS,
    "tools:\n  BASH: off": ALL - COMMANDS,
    "tools:\n  bash: perhaps": ALL - COMMANDS,
    "tools:\n  bash:": ALL - COMMANDS,
    "tools:\n  'ba*': false": ALL - COMMANDS - SERVERS,
    "tools:\n  'web*': false": ALL - {"web_fetch", "web_search"} - SERVERS,
    "tools:\n  'files_*': false": ALL - SERVERS,
    "tools:\n  task: false": ALL - SPAWNING,
    "tools:\n  '*': false": set(),
    "tools:\n  '**': false": set(),
    "tools:\n  '?*': false": set(),
    "tools: {'*': false, read: true}": {"fs_read", "fs_stat"} | LISTED,
    "tools: {read: true, '*': false}": set(),
    "tools: {'*': false, glob: true}": {"fs_list", "fs_glob"} | LISTED,
    "tools: {'*': false, edit: true}": {"fs_edit", "fs_patch"} | LISTED,
    "tools: {'*': true, bash: false}": ALL - COMMANDS,
    "tools: {'*': false, '*': true}": set(),
    "tools: {write: true, edit: false}": set(),
    # Permissions, in tables and in rows.
    "permission:\n  edit: deny": ALL - CHANGES,
    "permission:\n  edit: DENY": ALL - CHANGES,
    "permission:\n  edit: {'*': deny, '*.md': allow}": ALL - CHANGES,
    "permission:\n  bash: {'*': allow, 'rm *': deny}": ALL - COMMANDS,
    "permission:\n  bash: {'*': allow, 'git push': ask}": ALL,
    "permission:\n  bash: deny\n  '*': allow": ALL - COMMANDS,
    "permission:\n  task: deny": ALL - SPAWNING,
    "permission:\n  task: {'*': deny, helper: allow}": ALL - SPAWNING,
    "permission:\n  webfetch: deny\n  websearch: deny": ALL - {"web_fetch", "web_search"},
    "permission:\n  todowrite: deny\n  question: deny": ALL - {"task_create", "ask_user"},
    "permission: deny": set(),
    "permission:\n  '*': deny": set(),
    "permission: {'*': deny, read: allow}": {"fs_read", "fs_stat"} | LISTED,
    "permission: {'*': deny, edit: ask}": CHANGES | LISTED,
    "permission: {read: allow, '*': deny}": set(),
    "permission: {'*': deny, read: {'*': allow, '*.env': deny}}": set(),
    "tools: Read, Edit, Bash\npermission: {'*': deny, read: allow, edit: allow}": {
        "fs_read",
        "fs_stat",
        "fs_edit",
        "fs_patch",
    }
    | LISTED,
    "tools: {edit: true, read: true}\npermission:\n  edit: deny": {"fs_read", "fs_stat"} | LISTED,
    "permissions:\n  - {action: shell, resource: 'git push *', effect: deny}": ALL - COMMANDS,
    "permissions:\n  - {action: edit, resource: '*', effect: deny}": ALL - CHANGES,
    "permissions:\n  - {action: '*', resource: '*', effect: deny}": set(),
    "permissions:\n  - {action: '*', effect: deny}\n  - {action: read, effect: allow}": {"fs_read", "fs_stat"} | LISTED,
    "permissions:\n  - {resource: '*', effect: deny}": set(),
    "permissions:\n  - {action: bash}": ALL - COMMANDS,
}


@pytest.mark.parametrize("front", REFUSALS)
def test_an_agent_ends_with_what_its_file_allows_and_nothing_it_refuses(front: str) -> None:
    agent = parsed(f"description: d\n{front}").agent
    copied = parse_agent(render_agent(agent))

    assert {tool for tool in TOOLS if agent.scope.allows(tool)} == REFUSALS[front]
    assert {tool for tool in TOOLS if copied.scope.allows(tool)} == REFUSALS[front]


@pytest.mark.parametrize("front", REFUSALS)
def test_what_is_refused_is_not_among_the_tools_of_a_teammate_either(front: str) -> None:
    agent = parsed(f"description: d\n{front}").agent

    divided = Partition([agent], TOOLS)

    shared = SPAWNING | EVERYBODYS
    assert divided.tools_of(agent.name) == REFUSALS[front] - shared
    assert [each.name for each in divided.teammates()] == (["critic"] if REFUSALS[front] - shared else [])


def test_an_agent_with_no_tool_left_has_none_at_all() -> None:
    assert not parsed("description: d\ntools: Unheard").agent.scope.allows("ask_user")


def test_what_has_no_counterpart_is_told() -> None:
    adopted = parsed(
        "description: d\ntools: Read, Bash(ls:*), NotebookEdit\nmodel: sonnet\ncolor: red\ntemperature: 0.1\n"
        "permission:\n  edit: ask\nmode: subagent\npermissionMode: acceptEdits"
    )

    assert adopted.left_out == (
        "tool Bash(ls:*)", "tool NotebookEdit", "permission edit: ask", "model sonnet", "color", "temperature", "mode",
        "permissionMode",
    )  # fmt: skip
    assert adopted.agent.model == ""


def test_which_tool_became_which_is_told() -> None:
    assert parsed("description: d\ntools: Read, Grep, Task").became == (
        ("Read", ("fs_read", "fs_stat")),
        ("Grep", ("fs_search",)),
    )
    assert parsed("description: d").became == ()


def test_a_model_that_is_configured_is_kept() -> None:
    assert parsed("description: d\nmodel: claude").agent.model == "claude"


def test_a_disabled_agent_is_disabled() -> None:
    assert parsed("description: d\ndisable: true").agent.status is AgentStatus.DISABLED


@pytest.mark.parametrize(
    ("front", "path", "line", "word"),
    [
        ("name: operator\ndescription: d", "/x/a.md", 2, "built-in"),
        ("description: d", "/x/Planner.md", 1, "built-in"),
        ("name: A B\ndescription: d", "/x/a.md", 2, "a-z"),
        ("name: a", "/x/a.md", 1, "description"),
        ("name: a\ndescription: d\ntools: [[x]]", "/x/a.md", 4, "texts"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_its_line(front: str, path: str, line: int, word: str) -> None:
    with pytest.raises(Broken, match=word) as caught:
        parsed(front, path=path)

    assert caught.value.line == line


def test_a_link_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("---\ndescription: d\n---\nSecret.")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "spy.md").symlink_to(tmp_path / "secret")

    with pytest.raises(Broken, match="link"):
        read_foreign(tmp_path / "agents" / "spy.md", within=tmp_path / "agents")


@given(st.text(max_size=300))
def test_no_front_matter_does_more_harm_than_being_broken(text: str) -> None:
    lines = []
    try:
        parsed(f"description: d\ntools: {text}")
    except Broken as broken:
        lines.append(broken.line)

    assert all(line >= 1 for line in lines)
