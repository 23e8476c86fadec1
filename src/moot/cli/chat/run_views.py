"""RunViews: the runs that the chat follows, and which of them is shown next. Used by controller.py."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from moot.cli.chat.view import RunView


class RunViews:
    """In the order in which they were followed. A message of this chat is followed from the moment it is sent."""

    def __init__(self) -> None:
        self._views: list[RunView] = []
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[RunView]:
        return iter(self._views)

    def __bool__(self) -> bool:
        return bool(self._views)

    @contextmanager
    def follow(self, view: RunView) -> Iterator[None]:
        self._views.append(view)
        try:
            yield
        finally:
            self._views.remove(view)
            self._changed.set()

    async def wait_for_turn(self, view: RunView) -> None:
        """Wait until earlier runs are shown to their end: each has its own stream, and one can overtake another."""
        while self._is_behind(view):
            self._changed.clear()
            await self._changed.wait()

    def _is_behind(self, view: RunView) -> bool:
        """Whether another run is being shown, or an own message that was sent earlier is still to be."""
        is_earlier = True
        for other in self._views:
            if other is view:
                is_earlier = False
            elif other.end is None and (other.started or (is_earlier and _is_queued(other) and view.echo)):
                return True
        return False

    def is_showing(self, user_seq: int = 0) -> bool:
        """Whether a run is being shown: any, or the one that answers this message."""
        return any(view.started and user_seq in (0, view.user_seq) for view in self._views)

    def list_waiting(self) -> list[RunView]:
        """Return the messages of this chat whose runs have not started."""
        return [view for view in self._views if not view.started and view.echo]


def _is_queued(view: RunView) -> bool:
    """Whether it is a message of this chat that a run of its own will answer."""
    return bool(view.echo) and not view.steers
