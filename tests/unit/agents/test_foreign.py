from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moot.agents.foreign import Adopted, parse_foreign, read_foreign
from moot.domain.agent import AgentStatus
from moot.domain.front_matter import Broken


def parsed(front: str, *, path: str = "/x/critic.md", body: str = "You judge.") -> Adopted:
    return parse_foreign(f"---\n{front}\n---\n{body}\n", path=path, models=("claude",))


def test_name_description_and_text_are_taken() -> None:
    agent = parsed("name: judge\ndescription: |\n  Judges\n  code.\ncolor: red").agent

    assert (agent.name, agent.description, agent.instruction) == ("judge", "Judges code.", "You judge.")
    assert agent.prefixes is None
    assert agent.path == "/x/critic.md"


def test_a_file_without_a_name_is_called_by_its_own() -> None:
    assert parsed("description: d\nmode: subagent").agent.name == "critic"


@pytest.mark.parametrize(
    ("front", "prefixes"),
    [
        ("tools: Read, Grep, Glob", ("fs_read", "fs_stat", "fs_list")),
        ("tools: [Read, WebFetch]", ("fs_read", "fs_stat", "web_fetch")),
        ("tools: Bash", ("exec", "exec_*")),
        ("tools: Bash(git diff:*, git log:*), Read", ("fs_read", "fs_stat")),
        ("tools: mcp__tracker__list, mcp__files", ("mcp__tracker__list", "mcp__files__*")),
        ("tools: []", ()),
        ("tools: Unheard", ()),
        ("tools: TodoWrite", ()),
        ("tools: '*'", None),
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


def test_an_agent_with_no_tool_left_has_none_at_all() -> None:
    assert not parsed("description: d\ntools: Unheard").agent.scope.allows("ask_user")


def test_what_has_no_counterpart_is_told() -> None:
    adopted = parsed("description: d\ntools: Read, Bash(ls:*), NotebookEdit\nmodel: sonnet")

    assert adopted.left_out == ("tool Bash(ls:*)", "tool NotebookEdit", "model sonnet")
    assert adopted.agent.model == ""


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
