"""Mirrors what blocks teammates into the ledger, where that is wanted. Nothing waits for it and nothing fails by it."""

import logging
from asyncio import Future
from collections.abc import Callable
from typing import Protocol

from moot.domain.agent_run import AgentRun, Condition
from moot.domain.config import RunLedgerConfig
from moot.domain.errors import MootError
from moot.domain.ledger import blocked
from moot.domain.ports import Clock

logger = logging.getLogger(__name__)


class Journal(Protocol):
    def blocked(self, run_id: str, payload: dict[str, object], *, now: float) -> "Future[None]": ...
    def unblocked(self, run_id: str, *, now: float) -> "Future[None]": ...


class Mirror:
    def __init__(self, *, journal: Journal, config: Callable[[], RunLedgerConfig], clock: Clock) -> None:
        self._journal = journal
        self._config = config
        self._clock = clock
        self._blocked: set[str] = set()
        # How often the journal could not be written since the daemon started.
        self.failures = 0

    def __call__(self, run: AgentRun) -> None:
        """Take note of a run as it stands now."""
        config = self._config()
        if not (config.enabled and config.write_through):
            return
        now = self._clock.now()
        try:
            if run.block.condition is Condition.BLOCKED:
                self._blocked.add(run.id)
                self._journal.blocked(run.id, blocked(run.block), now=now).add_done_callback(self._written)
            elif run.id in self._blocked or run.status.is_terminal:
                # One that ends may have been blocked under an earlier daemon.
                self._blocked.discard(run.id)
                self._journal.unblocked(run.id, now=now).add_done_callback(self._written)
        except MootError as error:
            self._failed(error)

    def _written(self, done: "Future[None]") -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self.failures += 1
        logger.warning("what blocks a teammate could not be mirrored into the ledger: %s", error)
