"""Counts and removes folders of any depth, whatever is in them. Used by `workspaces` and `moot uninstall`."""

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def count_files(place: Path) -> int:
    """Return the number of files in a folder and its subfolders, as far as they can be read."""
    count, folders = 0, [str(place)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    count += 1
    return count


def remove_tree(place: Path) -> int:
    """Remove a folder with all that is in it and return the number of files. Links are removed, not followed.

    The subfolders of each folder are moved to the top before it is removed. So neither the depth of the tree nor the
    length of a path matters, and no more than two folders are open at a time. Permissions that the owner has lost are
    restored.
    """
    os.chmod(place, 0o700)
    top = os.open(place, _FOLDER)
    try:
        count, folders = _empty(top)
        taken, number = set(folders), 0
        while folders:
            name = folders.pop()
            inside = os.open(name, _FOLDER, dir_fd=top)
            try:
                files, below = _empty(inside)
                count += files
                for each in below:
                    number = _next_number(number, taken)
                    os.rename(each, f".{number}", src_dir_fd=inside, dst_dir_fd=top)
                    folders.append(f".{number}")
            finally:
                os.close(inside)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(place)
    return count


def _empty(folder: int) -> tuple[int, list[str]]:
    """Remove the files of a folder. Return how many there were, and the names of its subfolders."""
    count, below = 0, []
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            # A folder can be moved only with the right to write in it.
            with suppress(OSError):
                os.chmod(entry.name, 0o700, dir_fd=folder)
            below.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=folder)
            count += 1
    return count, below


def _next_number(number: int, taken: Container[str]) -> int:
    number += 1
    while f".{number}" in taken:
        number += 1
    return number
