"""The identity key of this daemon, with which it signs mail for other daemons. In a private file, created once."""

from pathlib import Path

from moot.daemon.vault.master_key import load_key
from moot.multiagent.peers.signatures import Identity


def load_identity(path: Path) -> Identity:
    """Return the key in the file; create it if there is none. Others know this daemon by it."""
    return Identity(load_key(path, "file").view)
