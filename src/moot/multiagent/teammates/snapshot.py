"""Renders the conversation that teammates are spawned from as text. Cached, as many are spawned from one place."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.message import Entry, Role
from moot.domain.ports.store import Store
from moot.domain.run import Run
from moot.domain.text import clean, defuse
from moot.domain.transcript_text import CALL, CALL_END, render_calls
from moot.engine.history import Histories
from moot.multiagent.teammates.live_runs import LiveRuns
from moot.multiagent.teammates.parent import find_parent_key

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
    def __init__(self, histories: Histories, live: LiveRuns, store: Store) -> None:
        self._histories = histories
        self._live = live
        self._store = store
        # By the parent and the number of its last message before the spawn.
        self._kept: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._reading = asyncio.Lock()

    async def find(self, run: Run) -> str:
        """Return the conversation of the run's parent up to the spawn, or ""."""
        place = (run.parent_id, run.spawn.parent_seq)
        async with self._reading:
            text = self._kept.get(place)
            if text is None:
                text = self._kept[place] = await self._render(run)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return text

    async def _render(self, run: Run) -> str:
        key, seq = await find_parent_key(run, self._live, self._store), run.spawn.parent_seq
        assert key is not None, "only a spawned run has a snapshot"
        first = max(1, seq - _MESSAGES)
        # The parent is at work, so its history is in memory, unless the beginning is archived.
        history = self._histories.peek(key)
        entries: Sequence[Entry] = history.entries_between(first, seq) if history is not None else ()
        if not entries:
            entries = await self._store.list_entries(key, first=first, last=seq)
        # The chain lists the agents from the root down to the parent; the last but one spawned the parent.
        asker = run.spawn.chain[-2] if len(run.spawn.chain) > 1 else ""
        return render_conversation(entries, primary=key.agent, asker=asker)


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
