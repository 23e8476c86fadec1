"""The conversation a teammate was called from, as text to read. Many are called from one place; it is told once."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.message import Entry, Role
from moot.domain.ports.store import Store
from moot.domain.text import clean, defuse
from moot.domain.transcript_text import CALL, CALL_END, done_in

_MESSAGES = 40
_CHARACTERS = 16_000
_KEPT = 16
_CUT = "… "


class Quote(Struct, frozen=True, kw_only=True):
    """Words between two marks of ours; no mark of anybody else is among them."""

    mark: str
    words: str
    end: str = "</from>"

    def render(self, room: int) -> str:
        """With the end of the words where there is no room for all."""
        words = self.words if len(self.words) <= room else f"{_CUT}{self.words[-room:]}"
        return f"{self.mark}\n{words}\n{self.end}"


class Snapshots:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[ConversationKey, int], str] = OrderedDict()
        self._reading = asyncio.Lock()

    async def of(self, key: ConversationKey, seq: int, *, asker: str = "") -> str:
        """What was said up to this message, empty where nothing was. `asker` is the agent that asks there, if any."""
        async with self._reading:
            text = self._kept.get((key, seq))
            if text is None:
                entries = await self._store.entries(key, first=max(1, seq - _MESSAGES), last=seq)
                text = self._kept[key, seq] = render_conversation(entries, primary=key.agent, asker=asker)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return text


def by(agent: str) -> str:
    """The mark before an agent's words, or before a person's where no agent spoke."""
    return f'<from agent="{agent}">' if agent else "<from person>"


def render_conversation(entries: Sequence[Entry], *, primary: str, asker: str) -> str:
    """The newest of it, every word inside the mark of who said it."""
    pieces: list[str] = []
    room = _CHARACTERS
    for said in reversed([said for said in _list_quotes(entries, primary, asker) if said.words]):
        if room <= 0:
            break
        pieces.append(said.render(room))
        room -= len(said.words)
    return "\n\n".join(reversed(pieces))


def _list_quotes(entries: Sequence[Entry], primary: str, asker: str) -> Iterator[Quote]:
    names: dict[str, str] = {}
    for entry in entries:
        message = replace(entry.message, content=defuse(clean(entry.message.content), enclosed=True).strip())
        if message.role is not Role.TOOL:
            speaker = primary if message.role is Role.ASSISTANT else asker
            yield Quote(mark=by(message.agent or speaker), words=message.content)
        for done in done_in(message, names):
            yield Quote(mark=CALL, words=done, end=CALL_END)
