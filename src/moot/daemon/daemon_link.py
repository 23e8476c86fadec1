"""The identity of this daemon on the broker: its key, in a private file that is created once, and what it accepts.

Used by app.py.
"""

from pathlib import Path

from moot.daemon.config.config_file import ConfigFile
from moot.daemon.vault.master_key import load_key
from moot.domain.ports.broker import Broker
from moot.multiagent.peers.daemons.link import DaemonLink
from moot.multiagent.peers.daemons.signatures import Identity


def build_link(broker: Broker, config: ConfigFile, data: Path) -> DaemonLink:
    return DaemonLink(
        broker,
        load_identity=lambda: Identity(load_key(data / "identity.key", "file").view),
        accepts_unsigned=lambda: config.current.broker.accept_unsigned,
        max_outbox=lambda: config.current.broker.max_outbox,
        outbox_days=lambda: config.current.broker.outbox_days,
    )
