"""TraceRetention: deletes, one batch at a time, data older than the configured retention. Called periodically."""

from collections.abc import Callable

from moot.domain.config import TraceConfig
from moot.domain.ports.clock import Clock
from moot.domain.ports.traces import Retention

_BATCH = 20
_PAUSE_SECONDS = 600.0


class TraceRetention:
    def __init__(self, *, store: Retention, config: Callable[[], TraceConfig], clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._next_at = 0.0

    async def expire(self) -> None:
        """Delete one batch of expired data; if there is none, do nothing until a pause has passed."""
        now = self._clock.monotonic()
        if now >= self._next_at:
            deleted = await self._store.expire(self._config(), now=self._clock.now(), batch=_BATCH)
            self._next_at = now if deleted else now + _PAUSE_SECONDS
