"""Opens the storage that the configuration names: a SQLite file, or memory. Used by app.py."""

import logging

from moot.daemon.config.config_file import ConfigFile
from moot.daemon.paths import Paths
from moot.domain.ports.clock import Clock
from moot.domain.ports.storage import Storage
from moot.store.sqlite import open_store
from moot.store.sqlite_storage import build_storage

logger = logging.getLogger(__name__)


async def open_storage(config: ConfigFile, paths: Paths, clock: Clock) -> Storage:
    if config.current.store.kind == "memory":
        from moot.store.memory.storage import open_memory_storage  # noqa: PLC0415 - few daemons need it

        logger.warning("everything is kept in memory and forgotten when the daemon stops ([store] kind)")
        return await open_memory_storage(clock)
    return build_storage(await open_store(paths.store, clock))
