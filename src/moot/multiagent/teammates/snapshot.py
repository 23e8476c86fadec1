"""Renders the conversation that teammates are spawned from as text. Cached, as many are spawned from one place."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.message import Entry, Role
from moot.domain.ports.store import Store
from moot.domain.text import clean, defuse
from moot.domain.transcript_text import CALL, CALL_END, render_calls
from moot.engine.history import Histories

_MESSAGES = 40
_CHARACTERS = 16_000
_KEPT = 16
_CUT = "… "


class Quote(Struct, frozen=True, kw_only=True):
    """Text between two marks. The text itself contains no marks: they are defused before."""

    mark: str
    words: str
    end: str = "</from>"

    def render(self, room: int) -> str:
        """Return the text with its marks; only its last `room` characters if it is longer."""
        words = self.words if len(self.words) <= room else f"{_CUT}{self.words[-room:]}"
        return f"{self.mark}\n{words}\n{self.end}"


class Snapshots:
    def __init__(self, histories: Histories, store: Store) -> None:
        self._histories = histories
        self._store = store
        self._kept: OrderedDict[tuple[ConversationKey, int], str] = OrderedDict()
        self._reading = asyncio.Lock()

    async def of(self, key: ConversationKey, seq: int, *, asker: str = "") -> str:
        """Return the conversation up to message `seq`, or "". `asker` is the agent behind its user messages, if any."""
        async with self._reading:
            text = self._kept.get((key, seq))
            if text is None:
                first = max(1, seq - _MESSAGES)
                # The parent is at work, so its history is in memory, unless the beginning is archived.
                history = self._histories.peek(key)
                entries: Sequence[Entry] = history.entries_between(first, seq) if history is not None else ()
                if not entries:
                    entries = await self._store.list_entries(key, first=first, last=seq)
                text = self._kept[key, seq] = render_conversation(entries, primary=key.agent, asker=asker)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return text


def open_mark(agent: str) -> str:
    """Return the mark before the text of an agent, or of a person if `agent` is empty."""
    return f'<from agent="{agent}">' if agent else "<from person>"


def render_conversation(entries: Sequence[Entry], *, primary: str, asker: str) -> str:
    """Return the newest messages up to the size limit, each between marks that name its author."""
    pieces: list[str] = []
    room = _CHARACTERS
    for spoken in reversed([spoken for spoken in _list_quotes(entries, primary, asker) if spoken.words]):
        if room <= 0:
            break
        pieces.append(spoken.render(room))
        room -= len(spoken.words)
    return "\n\n".join(reversed(pieces))


def _list_quotes(entries: Sequence[Entry], primary: str, asker: str) -> Iterator[Quote]:
    names: dict[str, str] = {}
    for entry in entries:
        message = replace(entry.message, content=defuse(clean(entry.message.content), enclosed=True).strip())
        if message.role is not Role.TOOL:
            speaker = primary if message.role is Role.ASSISTANT else asker
            yield Quote(mark=open_mark(message.agent or speaker), words=message.content)
        for done in render_calls(message, names):
            yield Quote(mark=CALL, words=done, end=CALL_END)
