"""MountCheck: whether an open file is in a mount of what is off limits. Used by `confined_paths` for one call.

Something that is mounted a second time as a whole is recognised by its device and inode; a part of it is not, since
nothing above it tells what it is. So the mounts that a path leads through are looked up in the table of the kernel.
"""

import os

from moot.tools.files.mount_table import NO_MOUNT_ID, find_mount_id
from moot.tools.files.off_limits import OffLimits

# A handle for the entry itself, whatever it is; only on systems that tell of mounts.
_ENTRY = getattr(os, "O_PATH", 0)


class MountCheck:
    def __init__(self, off_limits: OffLimits) -> None:
        self._off_limits = off_limits
        # The mounts that show nothing that is off limits.
        self._harmless: set[int] = {NO_MOUNT_ID}

    def trust(self, descriptor: int) -> None:
        """Allow the mount of an open file."""
        self._harmless.add(find_mount_id(descriptor))

    def is_off_limits(self, descriptor: int) -> bool:
        """Whether an open file is in a mount of a part of what is off limits."""
        mount = find_mount_id(descriptor)
        if mount in self._harmless:
            return False
        if self._off_limits.mounts(mount):
            return True
        self._harmless.add(mount)
        return False

    def has_off_limits(self, folder: int, name: str) -> bool:
        """Whether something that is off limits is mounted over an entry of an open folder."""
        if not _ENTRY:
            return False
        try:
            entry = os.open(name, _ENTRY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return False
        try:
            return self.is_off_limits(entry)
        finally:
            os.close(entry)
