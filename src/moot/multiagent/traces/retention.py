"""TraceRetention: deletes, one batch at a time, data older than the configured retention. Called periodically.

It deletes the records of teammates, and mail that nobody read.
"""

from collections.abc import Callable

from moot.domain.config import Config
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.traces import Retention
from moot.engine.history import Histories

_BATCH = 20
_PAUSE_SECONDS = 600.0
_DAY = 86_400.0


class TraceRetention:
    def __init__(
        self, *, store: Retention, mail: MailStore, histories: Histories, config: Callable[[], Config], clock: Clock
    ) -> None:
        self._store = store
        self._mail = mail
        self._histories = histories
        self._config = config
        self._clock = clock
        self._next_at = 0.0

    async def expire(self) -> None:
        """Delete one batch of expired data; if there is none, do nothing until a pause has passed."""
        now = self._clock.monotonic()
        if now >= self._next_at:
            config, at = self._config(), self._clock.now()
            expired = await self._store.expire(config.traces, now=at, batch=_BATCH)
            for key in expired.conversations:
                # A schedule may begin the same conversation anew.
                self._histories.drop(key)
            dead = await self._mail.expire_dead(before=at - config.peers.keep_dead_days * _DAY, batch=_BATCH)
            self._next_at = now if expired.count or dead else now + _PAUSE_SECONDS
