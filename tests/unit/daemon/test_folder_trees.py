"""A folder is counted and removed whatever is in it: any depth, lost permissions, links, strange names."""

import os
from pathlib import Path

from moot.daemon.folder_trees import count_files, remove_tree
from moot.daemon.workspaces import Workspaces
from moot.domain.conversation import ConversationKey

# Deeper than Python's recursion, than the usual number of open files, and than the longest path.
DEEP = 2_500


def make_deep(top: Path) -> None:
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


async def test_a_conversation_with_a_folder_of_any_depth_can_be_deleted(tmp_path: Path) -> None:
    workspaces, key = Workspaces(tmp_path / "workspaces"), ConversationKey("moot", "user")
    place = Path(workspaces(key))
    make_deep(place)
    (place / "beside").write_text("")
    assert await workspaces.count(key) >= 1
    assert await workspaces.remove(key) == 2
    assert os.listdir(tmp_path / "workspaces") == []
    assert await workspaces.remove(key) == 0


def test_links_are_removed_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    top = tmp_path / "top"
    for name in ("a/b/c", ".1", ".2/.1", "new\nline"):
        (top / name).mkdir(parents=True)
        (top / name / "link").symlink_to(outside)
        (top / name / "file").write_text("")
        (top / name / "file").chmod(0)
    os.mkfifo(top / "a" / "pipe")
    for locked in ("a/b/c", "a/b", ".2"):
        (top / locked).chmod(0)
    (top / "a").chmod(0o500)
    count_files(top)
    assert remove_tree(top) == 9
    assert os.listdir(outside) == ["kept"]
    assert os.listdir(tmp_path) == ["outside"]
