import os
import re
from pathlib import Path

import pytest

from moot.agents.registry import EMBEDDED_NAMES, Registry
from moot.domain.agent import ROLES, AgentSource


def write(folder: Path, name: str, instruction: str = "Do.", *, named: str = "") -> Path:
    path = folder / name / "AGENT.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {named or name}\ndescription: about {name}\n---\n{instruction}\n")
    return path


def names(registry: Registry) -> list[str]:
    """The root agent and what is a person's own; the rest is always the same."""
    known = (*ROLES, *EMBEDDED_NAMES)
    return [agent.name for agent in registry.all() if agent.name not in known]


def test_without_a_folder_there_is_the_built_in_agent(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "agents")

    agent = registry.get("moot")

    assert names(registry) == ["moot"]
    assert agent is not None
    assert agent.source is AgentSource.BUILT_IN
    assert "recall" in agent.instruction
    assert registry.flaws == ()


def test_agents_are_listed_by_name_behind_the_built_in_one(tmp_path: Path) -> None:
    write(tmp_path, "writer")
    write(tmp_path, "critic")

    assert names(Registry(tmp_path)) == ["moot", "critic", "writer"]


def test_a_broken_file_is_reported_while_the_others_load(tmp_path: Path) -> None:
    write(tmp_path, "writer")
    broken = write(tmp_path, "critic")
    broken.write_text("---\nname: critic\n---\nDo.\n")

    registry = Registry(tmp_path)

    assert names(registry) == ["moot", "writer"]
    assert [flaw.path for flaw in registry.flaws] == [str(broken)]


def test_a_folder_whose_name_is_no_text_is_reported_while_the_others_load(tmp_path: Path) -> None:
    write(tmp_path, "writer")
    odd = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(odd)
    with open(odd + b"/AGENT.md", "w") as file:
        file.write("---\nname: cafe\ndescription: d\n---\nDo.\n")

    registry = Registry(tmp_path)

    (flaw,) = registry.flaws
    assert names(registry) == ["moot", "writer"]
    assert str(flaw).encode().startswith(os.fsencode(tmp_path) + b"/caf\\xe9/AGENT.md:1: ")


def test_a_file_that_becomes_broken_keeps_its_last_good_definition(tmp_path: Path) -> None:
    path = write(tmp_path, "writer", "First.")
    registry = Registry(tmp_path)

    path.write_text("nonsense")
    registry.reload()

    agent = registry.get("writer")
    assert agent is not None
    assert agent.instruction == "First."
    assert [flaw.line for flaw in registry.flaws] == [1]

    write(tmp_path, "writer", "Second.")
    registry.reload()

    agent = registry.get("writer")
    assert agent is not None
    assert agent.instruction == "Second."
    assert registry.flaws == ()


def test_new_changed_and_removed_files_are_noticed_without_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    registry = Registry(folder)
    assert not registry.refresh_if_changed()

    path = write(folder, "writer", "One.")
    assert registry.refresh_if_changed()
    assert not registry.refresh_if_changed()

    before = path.stat()
    write(folder, "writer", "Two.")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert registry.refresh_if_changed()
    agent = registry.get("writer")
    assert agent is not None
    assert agent.instruction == "Two."

    path.unlink()
    assert registry.refresh_if_changed()
    assert registry.get("writer") is None


def test_the_name_must_equal_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "writer", named="author")

    registry = Registry(tmp_path)

    assert names(registry) == ["moot"]
    assert (registry.flaws[0].line, "folder" in registry.flaws[0].reason) == (2, True)


@pytest.mark.parametrize("name", ["moot", "m00t", "Ｍoot", "mоot"])
def test_the_built_in_name_cannot_be_taken(tmp_path: Path, name: str) -> None:
    write(tmp_path, name)

    registry = Registry(tmp_path)

    assert names(registry) == ["moot"]
    assert registry.all()[0].source is AgentSource.BUILT_IN
    assert "built-in" in registry.flaws[0].reason


def test_two_folders_that_mean_the_same_name_do_not_both_count(tmp_path: Path) -> None:
    write(tmp_path, "writer", "Plain.")
    write(tmp_path, "ｗriter", "Wide.", named="writer")

    registry = Registry(tmp_path)

    agent = registry.get("writer")
    assert agent is not None
    assert agent.instruction == "Plain."
    assert "already" in registry.flaws[0].reason


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("---\nname: spy\ndescription: d\n---\nSecret.\n")
    folder = tmp_path / "agents"
    (folder / "spy").mkdir(parents=True)
    (folder / "spy" / "AGENT.md").symlink_to(secret)
    write(tmp_path / "outside", "other")
    (folder / "other").symlink_to(tmp_path / "outside" / "other")

    registry = Registry(folder)

    assert names(registry) == ["moot"]
    assert len(registry.flaws) == 2
    assert "Secret" not in repr(registry.flaws)


def test_the_agents_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", "writer")
    (tmp_path / "agents").symlink_to(tmp_path / "real")

    assert names(Registry(tmp_path / "agents")) == ["moot", "writer"]


def test_a_loop_of_links_is_a_flaw(tmp_path: Path) -> None:
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "AGENT.md").symlink_to(tmp_path / "round" / "AGENT.md")

    assert len(Registry(tmp_path).flaws) == 1


def test_a_named_pipe_does_not_hold_the_registry(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "AGENT.md")

    registry = Registry(tmp_path)

    assert "regular" in registry.flaws[0].reason


@pytest.mark.parametrize("data", [b"\xff\xfe", b"---\nname: a\ndescription: d\n---\nDo\0it", b"x" * 300_000])
def test_bytes_that_are_no_agent_are_a_flaw(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "AGENT.md").write_bytes(data)

    assert len(Registry(tmp_path).flaws) == 1


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "AGENT.md").write_bytes(b"\xef\xbb\xbf---\r\nname: a\r\ndescription: d\r\n---\r\nDo.\r\nIt.\r\n")

    agent = Registry(tmp_path).get("a")

    assert agent is not None
    assert agent.instruction == "Do.\nIt."


def test_files_and_hidden_folders_beside_the_agents_are_no_flaws(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "notes").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "AGENT.md").write_text("x")

    registry = Registry(tmp_path)

    assert (names(registry), registry.flaws) == (["moot"], ())


def test_every_role_is_built_in_and_says_what_it_is_for(tmp_path: Path) -> None:
    registry = Registry(tmp_path)

    for name in ROLES:
        agent = registry.get(name)
        assert agent is not None
        assert agent.source is AgentSource.BUILT_IN
        assert agent.keywords
        assert agent.capabilities
        assert agent.cannot_do
        assert agent.accepts
        assert agent.returns
        assert agent.session_isolation == (name not in ("planner", "chronicler"))
        assert agent.always_include == (name == "planner")


def test_the_root_agent_does_not_claim_tools_that_its_team_has(tmp_path: Path) -> None:
    agent = Registry(tmp_path).get("moot")

    assert agent is not None
    assert "every tool" not in agent.description


def test_a_role_is_told_to_end_in_visible_text_and_names_no_tool_it_does_not_have(tmp_path: Path) -> None:
    registry = Registry(tmp_path)

    for agent in (each for each in registry.all() if each.name != "moot"):
        named = re.findall(r"`([a-z]+(?:_[a-z]+)+)`", agent.instruction)
        assert [tool for tool in named if not agent.scope.allows(tool)] == [], agent.name
        assert "Always end with text" in agent.instruction


def test_embedded_agents_are_for_someone_who_has_written_none(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    embedded = [agent.name for agent in registry.all() if agent.source is AgentSource.EMBEDDED]

    write(tmp_path, "writer")
    registry.refresh_if_changed()

    assert embedded == list(EMBEDDED_NAMES)
    assert registry.get("translator") is None

    (tmp_path / "writer" / "AGENT.md").unlink()
    registry.refresh_if_changed()
    assert registry.get("translator") is not None


def test_agents_of_the_demo_take_no_embedded_ones_away(tmp_path: Path) -> None:
    for name in ("writer", "translator"):
        path = write(tmp_path, name)
        path.write_text(path.read_text().replace("description:", "made_by: moot demo\ndescription:"))
    registry = Registry(tmp_path)

    assert [(agent.name, str(agent.source)) for agent in registry.all()][-4:] == [
        ("code-reviewer", "embedded"), ("data-analyst", "embedded"), ("translator", "user"), ("writer", "user")
    ]  # fmt: skip

    write(tmp_path, "critic")
    registry.refresh_if_changed()
    assert registry.get("code-reviewer") is None


def test_a_broken_file_is_a_file_that_was_written(tmp_path: Path) -> None:
    write(tmp_path, "writer").write_text("nonsense")

    assert Registry(tmp_path).get("translator") is None


def test_an_agent_of_ones_own_may_have_the_name_of_an_embedded_one(tmp_path: Path) -> None:
    write(tmp_path, "translator", "Mine.")

    agent = Registry(tmp_path).get("translator")

    assert agent is not None
    assert (agent.source, agent.instruction) == (AgentSource.USER, "Mine.")


def test_priorities_rise_from_what_is_built_in_to_what_is_remote() -> None:
    assert [(str(source), source.priority) for source in AgentSource] == [
        ("built-in", 0), ("embedded", 1), ("user", 2), ("remote", 3)
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["disabled", "draft"])
def test_an_agent_that_is_not_active_is_listed_and_cannot_be_used(tmp_path: Path, status: str) -> None:
    path = write(tmp_path, "writer")
    path.write_text(path.read_text().replace("description:", f"status: {status}\ndescription:"))

    registry = Registry(tmp_path)

    assert names(registry) == ["moot", "writer"]
    assert registry.get("writer") is None
    assert registry.find("writer") is not None
    assert "writer" not in [agent.name for agent in registry.active()]
    assert status in registry.problem("writer")


@pytest.mark.parametrize("name", [*ROLES, "Operator", "ＶＡＵＬＴ", "p1anner"])
def test_the_name_of_a_role_cannot_be_taken(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name)

    registry = Registry(tmp_path)

    assert names(registry) == ["moot"]
    assert registry.flaws[0].path == str(path)
    assert "built-in" in registry.flaws[0].reason


def test_files_of_other_programs_are_agents_of_the_persons_own(tmp_path: Path) -> None:
    folder, other = tmp_path / "agents", tmp_path / ".claude" / "agents"
    other.mkdir(parents=True)
    (other / "critic.md").write_text("---\nname: critic\ndescription: d\ntools: Read\nmodel: sonnet\n---\nJudge.\n")
    (other / "README.txt").write_text("not an agent")
    registry = Registry(folder, foreign_folders=[other], models=lambda: ["fast"])

    agent = registry.get("critic")

    assert agent is not None
    assert (agent.source, agent.path, agent.model) == (AgentSource.USER, str(other / "critic.md"), "")
    assert not agent.scope.allows("exec")
    assert registry.get("translator") is None
    assert registry.flaws == ()


def test_a_file_of_another_program_does_not_replace_ones_own_and_is_told(tmp_path: Path) -> None:
    folder, other = tmp_path / "agents", tmp_path / "other"
    write(folder, "critic", "Mine.")
    other.mkdir()
    (other / "critic.md").write_text("---\ndescription: d\n---\nTheirs.\n")
    (other / "vault.md").write_text("---\ndescription: d\n---\nTheirs.\n")

    registry = Registry(folder, foreign_folders=[other])

    agent = registry.get("critic")
    assert agent is not None
    assert agent.instruction == "Mine."
    assert [flaw.path for flaw in registry.flaws] == [str(other / "critic.md"), str(other / "vault.md")]
    assert registry.problem("vault") != ""


def test_a_file_of_another_program_is_reread_and_keeps_its_last_good_definition(tmp_path: Path) -> None:
    path = tmp_path / "other" / "critic.md"
    path.parent.mkdir()
    path.write_text("---\ndescription: d\n---\nOne.\n")
    registry = Registry(tmp_path / "agents", foreign_folders=[path.parent])

    path.write_text("broken, and longer than before")
    assert registry.refresh_if_changed()

    agent = registry.get("critic")
    assert agent is not None
    assert agent.instruction == "One."
    assert registry.flaws[0].line == 1
