"""Mirrors the approvals that block teammates from the bus into the run ledger, if that is configured.

No run waits for the ledger or fails because of it.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from moot.domain.ask import Ask
from moot.domain.config import RunLedgerConfig
from moot.domain.errors import MootError
from moot.domain.events import AskClosed, AskOpened, Event, RunEnded
from moot.domain.ledger import block_payload
from moot.domain.ports.clock import Clock
from moot.domain.ports.traces import Ledger
from moot.domain.senders import BACKGROUND_SENDER, CHILD_SENDER
from moot.multiagent.blocked import block_of

logger = logging.getLogger(__name__)

# The events that may change what blocks a run.
MIRRORED = (AskOpened, AskClosed, RunEnded)

# Supervisor.start; the supervisor owns the task that waits for a write.
Start = Callable[[str, Coroutine[Any, Any, None]], object]


class OpenAsks(Protocol):
    def list_local_of_run(self, run_id: str) -> Sequence[Ask]: ...


class Mirror:
    def __init__(
        self, *, journal: Ledger, start: Start, asks: OpenAsks, config: Callable[[], RunLedgerConfig], clock: Clock
    ) -> None:
        self._start = start
        self._journal = journal
        self._asks = asks
        self._config = config
        self._clock = clock
        # The number of failed writes since the daemon started.
        self.failures = 0

    def read(self, event: Event) -> None:
        """Record what blocks the run of a MIRRORED event, from its asks: they may be from before a restart."""
        config = self._config()
        if not (config.enabled and config.write_through and _is_spawned(event)):
            return
        run_id = event.source.run_id
        asks = () if isinstance(event.body, RunEnded) else self._asks.list_local_of_run(run_id)
        # A run is blocked by its newest approval.
        self._write(run_id, next((ask for ask in reversed(asks) if not ask.is_question), None))

    def _write(self, run_id: str, approval: Ask | None) -> None:
        now = self._clock.now()
        try:
            if approval is not None:
                written = self._journal.record_block(run_id, block_payload(block_of(approval)), now=now)
            else:
                written = self._journal.record_unblock(run_id, now=now)
        except MootError as error:
            self._count_failure(error)
            return
        self._start("ledger", self._confirm(written))

    async def _confirm(self, written: Awaitable[None]) -> None:
        try:
            await written
        except Exception as error:  # noqa: BLE001 — counted and logged; nothing fails because of the ledger
            self._count_failure(error)

    def _count_failure(self, error: BaseException) -> None:
        self.failures += 1
        logger.warning("what blocks a teammate could not be mirrored into the ledger: %s", error)


def _is_spawned(event: Event) -> bool:
    """Return whether the event belongs to a teammate or background run."""
    return event.source.key.sender.startswith((CHILD_SENDER, BACKGROUND_SENDER))
