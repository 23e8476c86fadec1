"""A folder for every conversation, for when nobody names another."""

from hashlib import sha256
from pathlib import Path

from moot.daemon.paths import make_folder
from moot.domain.conversation import ConversationKey

_KNOWN = 4096


class Workspaces:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[ConversationKey, str] = {}

    def __call__(self, key: ConversationKey) -> str:
        """The conversation's own folder, there when this returns. The name cannot collide or escape."""
        place = self._known.get(key)
        if place is None:
            digest = sha256(f"{key.agent}\x00{key.sender}".encode()).hexdigest()[:16]
            place = str(make_folder(self._folder / f"{key.agent}-{digest}"))
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = place
        return place
