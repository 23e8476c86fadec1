"""Whether a folder is a project: a place where an agent may write. Used by the file tools and the sandbox."""

import os
import sys
from pathlib import Path

from moot.tools.files.private_places import homes, private_places

# Never a place to write, not even as a working directory.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/boot", "/dev", "/proc", "/sys", "/run")
# Folders that everything of everybody is below.
_SHARED_ROOTS = ("/", "/home", "/tmp", "/var", "/var/tmp", "/opt", "/srv", "/mnt", "/media")


def is_beneath(path: str, folder: str) -> bool:
    """Whether the path is the folder or something in it. Both must be absolute and without links."""
    return folder in ("/", path) or path.startswith(folder.rstrip("/") + "/")


def is_visible(path: str) -> bool:
    """Whether a command sees what is in this real path when it is the working directory, and not just the system."""
    is_shared = path in _SHARED_ROOTS or any(is_beneath(home, path) and path != home for home in homes())
    return not is_shared and not any(is_beneath(path, folder) for folder in _SYSTEM)


def is_project(path: str) -> bool:
    """Whether an agent may write in this real path when it is the working directory."""
    is_code = any(is_beneath(path, os.path.realpath(code)) for code in own_code_folders())
    # Where keys are kept, or could be put, is to look at only: the home itself, .config and the like.
    has_keys = path in homes() or any(is_beneath(place, path) for place in private_places())
    return is_visible(path) and not has_keys and not is_code


def touches_own_code(place: str) -> bool:
    """Whether a real path is in the program itself, or a folder with the program in it."""
    own = [os.path.realpath(folder) for folder in own_code_folders()]
    return any(is_beneath(place, folder) or is_beneath(folder, place) for folder in own)


def is_shared_root(folder: str) -> bool:
    """Whether who sees this folder sees everybody's things: the root, a home, what lies above one."""
    return folder in _SHARED_ROOTS or any(is_beneath(home, folder) for home in homes())


def own_code_folders() -> list[str]:
    """The program itself, with all that is imported from beside it: who can rewrite it needs no other way out."""
    return [str(Path(__file__).resolve().parents[3]), sys.prefix]
