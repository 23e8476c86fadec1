"""PendingMessage: the user message of a turn while the store writes it; used by turns."""

import asyncio
import logging
from typing import Any, NamedTuple

from moot.domain.errors import MootError, StoreError
from moot.domain.message import Entry

logger = logging.getLogger(__name__)


class PendingMessage(NamedTuple):
    """A turn's message: its number, and a future that is done when it is stored or refused."""

    seq: int
    stored: "asyncio.Future[Any]"

    def is_refused(self) -> bool:
        return self.stored.cancelled() or self.stored.exception() is not None

    async def refusal(self) -> MootError | None:
        """Wait for the write; return why the message could not be stored, or None."""
        if not self.stored.done():
            await asyncio.wait({self.stored})
        error = None if self.stored.cancelled() else self.stored.exception()
        if isinstance(error, MootError) or not self.is_refused():
            return error if isinstance(error, MootError) else None
        logger.error("a message could not be stored", exc_info=error)
        return StoreError("the message could not be stored", fix="See the daemon's log.")


def on_disk(entry: Entry) -> PendingMessage:
    stored: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    stored.set_result(None)
    return PendingMessage(entry.seq, stored)
