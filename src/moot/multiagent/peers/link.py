"""DaemonLink: what connects this daemon to others. Given by daemon/app.py, used by the modules of this package."""

from collections.abc import Callable

from msgspec import Struct

from moot.domain.ports.broker import Broker
from moot.multiagent.peers.signatures import Identity


class DaemonLink(Struct, frozen=True, kw_only=True):
    broker: Broker
    # The name of this daemon on the broker.
    name: str
    identity: Identity
    # Whether mail without a valid signature is accepted.
    accepts_unsigned: Callable[[], bool]
    # How many mails may wait for other daemons.
    max_outbox: Callable[[], int]
