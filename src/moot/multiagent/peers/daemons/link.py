"""DaemonLink: what connects this daemon to others. Given by daemon/app.py, used by the modules of this package."""

from collections.abc import Callable

from moot.domain.ports.broker import Broker
from moot.multiagent.peers.daemons.signatures import Identity


class DaemonLink:
    """The broker and the identity of this daemon on it. A reload can change the broker and the name."""

    def __init__(
        self,
        broker: Broker,
        *,
        load_identity: Callable[[], Identity],
        accepts_unsigned: Callable[[], bool],
        max_outbox: Callable[[], int],
        outbox_days: Callable[[], float],
    ) -> None:
        self.broker = broker
        # Return whether mail without a valid signature is accepted, how many mails may wait for other daemons, and
        # how long each of them.
        self.accepts_unsigned = accepts_unsigned
        self.max_outbox = max_outbox
        self.outbox_days = outbox_days
        self._load_identity = load_identity
        self._identity: Identity | None = None

    @property
    def name(self) -> str:
        return self.broker.name

    @property
    def is_up(self) -> bool:
        """Whether other daemons can be reached now."""
        return self.broker.is_shared and self.broker.is_connected

    @property
    def identity(self) -> Identity:
        """The key of this daemon, loaded at first use: most daemons need none."""
        if self._identity is None:
            self._identity = self._load_identity()
        return self._identity
