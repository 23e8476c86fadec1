"""Unix socket addresses of any length: the kernel takes 107 bytes, a home folder may be deeper."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moot.domain.errors import ConfigError

_MAX_ADDRESS = 103


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """An address for `path` to bind or connect inside the block; a long one goes through the open folder."""
    address = os.fspath(path)
    if len(os.fsencode(address)) <= _MAX_ADDRESS:
        yield address
        return
    if not Path("/proc/self/fd").is_dir():
        raise ConfigError(
            f"the socket path is longer than {_MAX_ADDRESS} bytes: {address}",
            fix="set MOOT_HOME to a shorter path",
        )
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
