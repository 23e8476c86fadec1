"""Cleans up after a command: frees its resources and checks the files it left. Used by `sandbox`."""

import asyncio
import logging
import os
from collections.abc import Callable

from moot.tools.sandbox import set_id
from moot.tools.sandbox.explained import HeldBack

logger = logging.getLogger(__name__)

_MOST_NAMED = 5


class LeftBehind:
    """The folder in which a command can write, open from before its start until its files were checked."""

    def __init__(self, folder: int, path: str) -> None:
        self._folder = os.dup(folder)
        self._path = path
        self._since = set_id.file_time_ns()

    def clear(self) -> list[str]:
        """Clear set-id bits of the files that the command left, and close the folder. Return a note about them."""
        try:
            cleared = [_printable(path) for path in set_id.clear_set_id(self._folder, since=self._since)]
        finally:
            self.close()
        if not cleared:
            return []
        logger.warning("a command left set-id files in %s; their bits are cleared: %s", self._path, cleared)
        more = f" and {len(cleared) - _MOST_NAMED} more" if len(cleared) > _MOST_NAMED else ""
        return [f"(The sandbox cleared the set-id bits of {', '.join(cleared[:_MOST_NAMED])}{more}.)"]

    def close(self) -> None:
        os.close(self._folder)


def _printable(path: str) -> str:
    """Return a path as text that can be stored and shown: the command chose its bytes."""
    text = os.fsencode(path).decode(errors="replace")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


class Cleanup:
    """Called once when a command has ended. `notes` then contains what the caller should know."""

    def __init__(self, free: Callable[[], list[str]], *, left: LeftBehind | None, held: HeldBack) -> None:
        self._free = free
        self._left = left
        self.held = held
        self._notes: list[str] = []
        self._looking: asyncio.Future[list[str]] | None = None

    def __call__(self) -> None:
        self._notes += self._free()
        if self._left is not None:
            self._looking = asyncio.get_running_loop().run_in_executor(None, self._left.clear)

    async def notes(self) -> list[str]:
        """Wait until the files it left are checked."""
        found = await asyncio.shield(self._looking) if self._looking is not None else []
        return [*self._notes, *found]
