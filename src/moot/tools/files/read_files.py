"""Which files each conversation has read and what was in them then. Used by the tools that change files."""

import hashlib
from collections import OrderedDict
from threading import Lock

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Conflict

_MOST_CONVERSATIONS = 1_000
_MOST_FILES = 1_000


class _Read(Struct, frozen=True):
    digest: str
    run_id: str


class ReadFiles:
    """In memory: after a restart a file has to be read again, and so it has when compaction removed the read.

    A teammate has a conversation of its own, so what it reads its parent has not read.
    """

    def __init__(self) -> None:
        # Tools work in threads.
        self._lock = Lock()
        self._read: OrderedDict[ConversationKey, OrderedDict[str, _Read]] = OrderedDict()

    def note(self, key: ConversationKey, run_id: str, place: str, data: bytes) -> None:
        """Note what a file at a real path contains, because the conversation has read or written it."""
        with self._lock:
            read = self._read.setdefault(key, OrderedDict())
            read[place] = _Read(digest_of(data), run_id)
            read.move_to_end(place)
            self._read.move_to_end(key)
            if len(read) > _MOST_FILES:
                read.popitem(last=False)
            if len(self._read) > _MOST_CONVERSATIONS:
                self._read.popitem(last=False)

    def require(self, key: ConversationKey, place: str, data: bytes, path: str) -> None:
        """Raise unless the conversation has read the file with exactly this content."""
        with self._lock:
            read = self._read[key].get(place) if key in self._read else None
        if read is None:
            raise Conflict(f"{path} has not been read", fix="Read it with fs_read first, then change it.")
        if read.digest != digest_of(data):
            raise Conflict(f"{path} changed since it was read", fix="Read it again, then change it.")

    def forget(self, key: ConversationKey, *, but_of: str = "") -> None:
        """Forget what a conversation has read, except in the run `but_of`, whose messages are still there."""
        with self._lock:
            read = self._read.pop(key, None)
            kept = OrderedDict((place, one) for place, one in (read or {}).items() if but_of and one.run_id == but_of)
            if kept:
                self._read[key] = kept


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
