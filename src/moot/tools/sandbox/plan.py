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
    """What to start: argv and where. `environment` is added to the little that is passed on; it may hold secrets."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)
    # A folder this command may read though it is hidden from others; it sees it as view.LENT.
    lent: str = ""
    # Whether it may know the owner's name and address, which a commit has to carry.
    signed: bool = False
    # Where programs are looked for besides the system's folders, as in PATH.
    search_path: str = ""
    # The mark of the folder that cwd was when somebody agreed to the command; in another it does not run.
    held: str = ""


class Plan(Struct, frozen=True, kw_only=True):
    """How one command is started: its argv, the descriptors it takes along, and what is looked at before it may go."""

    argv: list[str]
    kept: list[int]
    place: str
    # What must be mounted where, and the file that bubblewrap tells the process in that it made the mounts for.
    nested: dict[str, Identity | None] = field(default_factory=dict)
    told: int = -1
    # What it uses of the user's toolchain.
    toolchain: Toolchain = NO_TOOLCHAIN
    # What it must not see.
    regions: Regions = Regions()
    release: Callable[[], None] = lambda: None
    # What is kept from it, to explain by.
    held: HeldBack = HeldBack()
    # What it can write in, to look through afterwards.
    left: LeftBehind | None = None

    def abandon(self) -> None:
        """It was not started."""
        self.release()
        if self.left is not None:
            self.left.close()


def memory_file(content: bytes, stack: ExitStack) -> int:
    """A file that is nowhere, open for reading."""
    descriptor = os.memfd_create("moot", 0)
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
