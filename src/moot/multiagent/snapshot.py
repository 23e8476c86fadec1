"""The conversation a teammate was called from, as text to read. Many are called from one place; it is told once."""

import asyncio
from collections import OrderedDict

from moot.domain.conversation import ConversationKey
from moot.domain.ports import Store
from moot.domain.text import clean, defuse
from moot.domain.transcript_text import as_text

_MESSAGES = 40
_CHARACTERS = 16_000
_KEPT = 16


class Snapshots:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[ConversationKey, int], str] = OrderedDict()
        self._reading = asyncio.Lock()

    async def of(self, key: ConversationKey, seq: int) -> str:
        """What was said up to this message, empty where nothing was."""
        async with self._reading:
            text = self._kept.get((key, seq))
            if text is None:
                text = self._kept[key, seq] = await self._read(key, seq)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return text

    async def _read(self, key: ConversationKey, seq: int) -> str:
        entries = await self._store.entries(key, first=max(1, seq - _MESSAGES), last=seq)
        told = as_text([entry.message for entry in entries])
        lines = [f"{message.agent or message.role}: {message.content}" for message in told if message.content.strip()]
        return defuse(clean("\n\n".join(lines)[-_CHARACTERS:]))
