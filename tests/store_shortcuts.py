"""Makes stores cheap: new ones are copied from an empty one, and those of the test process are not synced.

The migrations take thirty milliseconds, a copy less than one, and the suite makes thousands of stores; the copied one
is made by them, once in each process. A sync protects from a crash of the machine, which no test can cause: those of
the order of syncs look at the calls, and use the fixture `no_store_shortcuts` as those of the migrations do.
Used by conftest and fork_server.
"""

import threading
from functools import cache, partial
from pathlib import Path

import apsw

from moot import failpoint
from moot.store import connection, migrate, sqlite

_migrate = migrate.migrate
_sync_directory = connection.sync_directory
# Daemons of several threads may start at the same time.
_turn = threading.Lock()


def copy_new_stores() -> None:
    vars(migrate)["migrate"] = _copy_or_migrate


def skip_syncs() -> None:
    """Do not sync the stores that this process opens without a tuning of its own, nor the folders it makes for them."""
    vars(sqlite)["Tuning"] = partial(connection.Tuning, synchronous="OFF")
    vars(connection)["sync_directory"] = _check_directory


def undo() -> None:
    vars(migrate)["migrate"] = _migrate
    vars(sqlite)["Tuning"] = connection.Tuning
    vars(connection)["sync_directory"] = _sync_directory


@cache
def empty_store() -> apsw.Connection:
    made = apsw.Connection(":memory:")
    _migrate(made)
    return made


def _copy_or_migrate(store: apsw.Connection, *, upto: int = 0) -> None:
    # A process that is to be killed during a migration has to apply one.
    if upto or failpoint._name.startswith("migration.") or migrate.version(store):
        _migrate(store, upto=upto)
        return
    with _turn, store.backup("main", empty_store(), "main") as copy:
        copy.step(-1)
    # Two stores never have the same number.
    store.execute("UPDATE store_identity SET number = random() & 0xfffffffffffffff")


def _check_directory(path: Path) -> None:
    """Fail where the folder cannot be synced because it is none."""
    if not path.is_dir():
        raise NotADirectoryError(path)
