"""Private working folders of conversations, removed with the conversation."""

import asyncio
from hashlib import sha256
from pathlib import Path

from moot.daemon.folder_trees import count_files, remove_tree
from moot.daemon.paths import make_folder
from moot.domain.conversation import ConversationKey
from moot.domain.errors import Unavailable

_KNOWN = 4096


class Workspaces:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[ConversationKey, str] = {}

    def __call__(self, key: ConversationKey) -> str:
        """Return the folder of the conversation; create it if necessary."""
        place = self._known.get(key)
        if place is None:
            place = str(make_folder(self._folder_of(key)))
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = place
        return place

    def _folder_of(self, key: ConversationKey) -> Path:
        """Return the path of the folder. Its name is unique and cannot leave the parent folder."""
        digest = sha256(f"{key.agent}\x00{key.sender}".encode()).hexdigest()[:16]
        return self._folder / f"{key.agent}-{digest}"

    async def count(self, key: ConversationKey) -> int:
        """Return the number of files in the folder and its subfolders."""
        return await asyncio.to_thread(count_files, self._folder_of(key))

    async def remove(self, key: ConversationKey) -> int:
        """Remove the folder with its contents; return the number of files. Raise Unavailable if that fails."""
        self._known.pop(key, None)
        return await asyncio.to_thread(_remove, self._folder_of(key))


def _remove(place: Path) -> int:
    try:
        return remove_tree(place)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise Unavailable(
            f"{error.filename or place} cannot be removed: {error.strerror}; the conversation is still there",
            fix="See who owns it and whether the disk can be written, then delete again.",
        ) from error
