"""TeammateTexts: joins what a run is told about teammates with their taint. Used by control and delivery.

It is the only way by which text about a teammate reaches another run. It works with engine/history.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from moot.domain.run import Run
from moot.domain.run_view import RunView
from moot.engine.history import Histories

# The taint of a run whose conversation was deleted, so that nobody knows any more what it has read.
UNKNOWN = frozenset({"teammate"})


class TeammateText(Struct, frozen=True, kw_only=True):
    """Text about teammates, and the sources of untrusted text in it."""

    content: str
    taint: frozenset[str]


class TeammateTexts:
    def __init__(self, histories: Histories, find_live: Callable[[str], RunView | None]) -> None:
        self._histories = histories
        self._find_live = find_live

    async def join(self, seen: Sequence[RunView], render: Callable[[Sequence[RunView]], str]) -> TeammateText:
        """Return the rendered text with the taint of every run in it: queued, running, blocked or ended.

        The taint is read after the views were taken, so it covers everything that they can contain.
        """
        taint: frozenset[str] = frozenset()
        for each in seen:
            taint |= await self._taint_of(each.run)
            # A run that waits is in this state because of what those it waits for do.
            for below in filter(None, map(self._find_live, each.waiting_on)):
                taint |= await self._taint_of(below.run)
        return TeammateText(content=render(seen), taint=taint)

    async def _taint_of(self, run: Run) -> frozenset[str]:
        """Return the taint of the run's instruction and of everything it has read so far."""
        history = await self._histories.load(run.key)
        if history is not None:
            return history.taint
        return run.request.taint | UNKNOWN if run.started_at else run.request.taint
