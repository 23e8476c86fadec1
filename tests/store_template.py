"""Makes new stores by copying an empty one instead of applying every migration. Used by conftest and fork_server.

The migrations take thirty milliseconds, a copy less than one, and the suite makes thousands of stores. The copied one
is made by them, once in each process. Tests about them use the fixture `real_migrations`.
"""

import threading
from functools import cache

import apsw

from moot import failpoint
from moot.store import migrate

_migrate = migrate.migrate
# Daemons of several threads may start at the same time.
_turn = threading.Lock()


def install() -> None:
    vars(migrate)["migrate"] = _copy_or_migrate


def uninstall() -> None:
    vars(migrate)["migrate"] = _migrate


def _copy_or_migrate(connection: apsw.Connection, *, upto: int = 0) -> None:
    # A process that is to be killed during a migration has to apply one.
    if upto or failpoint._name.startswith("migration.") or migrate.version(connection):
        _migrate(connection, upto=upto)
        return
    with _turn, connection.backup("main", empty_store(), "main") as copy:
        copy.step(-1)


@cache
def empty_store() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    _migrate(connection)
    return connection
