"""Forward-only schema migrations: numbered SQL files, each applied once in its own transaction."""

from functools import cache
from pathlib import Path

import apsw
from msgspec import Struct

from moot.domain.errors import StoreError
from moot.failpoint import reach
from moot.store import dialect

APPLICATION_ID = 0x6D6F6F74  # "moot"


class Migration(Struct, frozen=True, kw_only=True):
    version: int
    name: str
    sql: str


@cache
def migrations() -> tuple[Migration, ...]:
    folder = Path(__file__).parent / "schema"
    files = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return tuple(
        Migration(version=int(name[:4]), name=name[5:-4], sql=(folder / name).read_text(encoding="utf-8"))
        for name in files
    )


def newest() -> int:
    return migrations()[-1].version


def version(connection: apsw.Connection) -> int:
    """Return the schema version of a database; 0 if empty. Raise if it is not ours, or newer than this program."""
    found, owner = dialect.read_version(connection)
    if owner != APPLICATION_ID and (owner or found or dialect.count_tables(connection)):
        raise StoreError(
            f"{connection.filename} belongs to another program", fix="Move it away or set MOOT_HOME to another folder."
        )
    if found > newest():
        raise StoreError(
            f"{connection.filename} has schema {found}, this Moot knows {newest()}",
            fix="Upgrade Moot, or restore a backup that an older Moot made.",
        )
    return found


def migrate(connection: apsw.Connection, *, upto: int = 0) -> None:
    """Bring the schema to the newest version, or to `upto`."""
    have = version(connection)
    for migration in migrations():
        if have < migration.version <= (upto or newest()):
            with connection:
                connection.execute(migration.sql)
                reach("migration.applied")
                dialect.write_version(connection, migration.version, APPLICATION_ID)
            reach("migration.committed")
