"""Reads the owner's git name and email address, so that commits made in the sandbox have them."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence

# Where git in the sandbox looks for its owner's settings; a repository's own come before them.
PLACE = "/tmp/home/.gitconfig"
# How long the settings are cached: somebody who sets a name after a failed commit need not restart the daemon.
_FRESH_SECONDS = 60.0
_ASK_SECONDS = 5.0
_LONGEST = 256
_WANTED = ("user.name", "user.email")
_NEEDED = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")


class GitAuthor:
    """Reads the owner's git settings from time to time. `path` is the PATH of commands."""

    def __init__(self, path: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._path = os.pathsep.join(path)
        self._clock = clock
        self._until = -1.0
        self._settings = b""

    def settings(self) -> bytes:
        """Return git settings with name and address; empty if neither is set or git is missing. Blocks."""
        now = self._clock()
        if now >= self._until:
            self._settings = _render_settings(_query_git(shutil.which("git", path=self._path)))
            self._until = now + _FRESH_SECONDS
        return self._settings


def _query_git(git: str | None) -> dict[str, str]:
    """Return the owner's git settings, read at the root folder, so that no repository can influence them."""
    if git is None:
        return {}
    words = [git, "config", "--global", "--includes", "--null", "--get-regexp", r"^user\.(name|email)$"]
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    try:
        done = subprocess.run(
            words,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        # Commits then fail as they do for anybody without a name, and git says what to do.
        return {}
    pairs = [entry.partition("\n") for entry in done.stdout.decode(errors="replace").split("\0")]
    return {key: value for key, _, value in pairs if key in _WANTED}


def _render_settings(known: dict[str, str]) -> bytes:
    lines = [f"\t{key.partition('.')[2]} = {_quote_value(known[key])}\n" for key in _WANTED if known.get(key)]
    return "".join(["[user]\n", *lines]).encode() if lines else b""


def _quote_value(value: str) -> str:
    plain = "".join(character for character in value if character.isprintable())[:_LONGEST]
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
