"""What `sandbox` is asked to start, and how one command is started: argv, descriptors and what is checked before."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from msgspec import Struct, field

from moot.tools.files.off_limits import Identity
from moot.tools.sandbox.aliases import Regions
from moot.tools.sandbox.cleanup import LeftBehind
from moot.tools.sandbox.explained import HeldBack
from moot.tools.sandbox.toolchain import NO_TOOLCHAIN, Toolchain


class Command(Struct, frozen=True, kw_only=True):
    """What to start: argv and working directory. `environment` is added to the default one and may contain secrets."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    # A folder that only this command may read, at view.LENT.
    lent: str = ""
    # Whether it gets the owner's git name and address, for commits.
    signed: bool = False
    # Where programs are looked for besides the system's folders, as in PATH.
    search_path: str = ""
    # Identifies the folder that cwd was when the command was approved; it does not run in another one.
    held: str = ""


class Plan(Struct, frozen=True, kw_only=True):
    """How one command is started: its argv, the descriptors it inherits, and what is checked before it runs."""

    argv: list[str]
    kept: list[int]
    place: str
    # What must be mounted where, and the file in which bubblewrap reports the process that has the mounts.
    nested: dict[str, Identity | None] = field(default_factory=dict)
    info_fd: int = -1
    # What it uses of the user's toolchain.
    toolchain: Toolchain = NO_TOOLCHAIN
    # Files that it must not see.
    regions: Regions = Regions()
    release: Callable[[], None] = lambda: None
    # Its restrictions, to explain failures.
    held: HeldBack = HeldBack()
    # The folder it can write in, to check afterwards.
    left: LeftBehind | None = None

    def abandon(self) -> None:
        """Release everything: it was not started."""
        self.release()
        if self.left is not None:
            self.left.close()


def memory_file(content: bytes, stack: ExitStack) -> int:
    """Return an anonymous file with this content, open for reading."""
    descriptor = os.memfd_create("moot", 0)
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
