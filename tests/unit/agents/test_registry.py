import os
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
