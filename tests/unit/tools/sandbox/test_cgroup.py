"""Where control groups are made, on file trees that look like the kernel's: this machine has one kind only."""

import os
from pathlib import Path

import pytest

from moot.tools.sandbox import cgroup


def unified(root: Path, path: str, *, enabled: str = "", processes: tuple[int, ...] = ()) -> Path:
    """A version 2 hierarchy with this process in the group of that path; the file that says so."""
    group = root / path.strip("/")
    group.mkdir(parents=True, exist_ok=True)
    (root / "cgroup.controllers").write_text("cpu memory pids\n")
    for folder in (root, group):
        for name in ("cgroup.subtree_control", "cgroup.procs"):
            if not (folder / name).exists():
                (folder / name).write_text("")
    (group / "cgroup.subtree_control").write_text(enabled)
    (group / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in processes))
    own = root.parent / "own"
    own.write_text(f"0::{path}\n")
    return own


def test_a_delegated_group_is_divided_and_the_daemon_moves_into_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "fs"
    own = unified(root, "/user.slice/moot.service", processes=(os.getpid(),))
    group = root / "user.slice" / "moot.service"
    leaf = group / "daemon.moot"
    leaf.mkdir()
    (leaf / "cgroup.procs").write_text("")
    monkeypatch.setattr(cgroup, "_is_delegated", lambda _group: True)
    assert cgroup.find_parents(root, own) is None
    cgroup.claim_own_group(root, own)
    assert (leaf / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+memory +pids"
    # As the kernel then has it.
    (group / "cgroup.subtree_control").write_text("memory pids")
    own.write_text("0::/user.slice/moot.service/daemon.moot\n")
    parents = cgroup.find_parents(root, own)
    assert parents == cgroup.Parents(version=2, folders={"memory": group, "pids": group})


@pytest.mark.parametrize(("delegated", "others"), [(False, ()), (True, (1,))])
def test_a_group_that_is_not_delegated_or_has_other_processes_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delegated: bool, others: tuple[int, ...]
) -> None:
    root = tmp_path / "fs"
    own = unified(root, "/session.scope", processes=(os.getpid(), *others))
    monkeypatch.setattr(cgroup, "_is_delegated", lambda _group: delegated)
    cgroup.claim_own_group(root, own)
    assert not (root / "session.scope" / "daemon.moot").exists()
    assert (root / "session.scope" / "cgroup.subtree_control").read_text() == ""


def test_a_group_that_cannot_be_divided_after_all_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "fs"
    own = unified(root, "/moot.service", processes=(os.getpid(),))
    group = root / "moot.service"
    monkeypatch.setattr(cgroup, "_is_delegated", lambda _group: True)
    written: list[tuple[str, str]] = []

    def write(file: Path, value: object) -> None:
        written.append((str(file.relative_to(group)), str(value)))
        if file.name == "cgroup.subtree_control":
            raise OSError(16, "busy")

    monkeypatch.setattr(cgroup, "_write", write)
    cgroup.claim_own_group(root, own)
    assert written[-1] == ("cgroup.procs", str(os.getpid()))
    assert not (group / "daemon.moot").exists()


def test_a_command_in_version_2_has_one_limit_for_memory_without_swap_and_ends_as_a_whole(tmp_path: Path) -> None:
    wanted = cgroup._settings(2, "memory", 5000)
    assert wanted == [("memory.max", 5000), ("memory.swap.max", 0), ("memory.oom.group", 1)]
    assert cgroup._settings(1, "memory", 5000)[0] == ("memory.limit_in_bytes", 5000)


def test_groups_of_version_1_are_made_beneath_our_own(tmp_path: Path) -> None:
    root = tmp_path / "fs"
    for folder in ("memory", "memory/box/a", "pids"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "cgroup.procs").write_text("")
    own = tmp_path / "own"
    own.write_text("4:memory:/box/a\n3:cpu,cpuacct:/\n8:pids:/not/mounted/here\n0::/\n")
    parents = cgroup.find_parents(root, own)
    assert parents == cgroup.Parents(
        version=1, folders={"memory": root / "memory" / "box" / "a", "pids": root / "pids"}
    )
    assert parents.name == "cgroup v1"


def test_without_control_groups_there_is_no_place_for_one(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/\n")
    assert cgroup.find_parents(tmp_path, own) is None
    assert cgroup.find_parents(tmp_path, tmp_path / "missing") is None
