"""OutboxExpiry: gives mail back that its daemon has not received for too long. Built by other_daemons.py.

A daemon that is gone for good would otherwise keep its mail in the outboxes of all others.
"""

import logging

from msgspec import Struct

from moot.domain.errors import MootError
from moot.domain.outbox import ReturnedMail
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.outbox import Outbox
from moot.multiagent.peers.bridge import find_refusal
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.losses import Losses

logger = logging.getLogger(__name__)

DAY = 86_400.0
_INTERVAL = 3_600.0
_BATCH = 256


class OutboxExpiryDependencies(Struct, frozen=True, kw_only=True):
    link: DaemonLink
    outbox: Outbox
    mail: MailStore
    losses: Losses
    clock: Clock


class OutboxExpiry:
    def __init__(self, dependencies: OutboxExpiryDependencies) -> None:
        self._d = dependencies

    async def run(self) -> None:
        """Look for old mail every hour."""
        while True:
            try:
                await self.expire()
            except MootError as error:
                logger.warning("old mail for other daemons cannot be removed: %s", error.message)
            await self._d.clock.sleep(_INTERVAL)

    async def expire(self) -> None:
        """Give back what is too old, and tell its senders."""
        d = self._d
        days, now = d.link.outbox_days(), d.clock.now()
        reason = f"it was not received within {days:g} days"
        while returned := await d.outbox.expire(before=now - days * DAY, reason=reason, now=now, batch=_BATCH):
            await d.losses.announce_returned(returned)
            for each in returned:
                await self._answer(each)

    async def _answer(self, returned: ReturnedMail) -> None:
        """Answer a shutdown or plan request that nobody has received."""
        d = self._d
        refusal = await find_refusal(returned, d.mail, d.clock.now())
        if refusal is not None:
            await d.losses.deliver(refusal)
