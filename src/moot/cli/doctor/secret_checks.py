"""The check of `moot doctor` of stored secrets: whether the master key that opens them is there."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from moot.cli.doctor import checks
from moot.cli.doctor.checks import Finding
from moot.cli.render import numbers
from moot.daemon.paths import Paths
from moot.daemon.vault.master_key import MasterKey

_CHECK = "secrets"
_SHOWN = 3


def count_stored(home: Paths) -> int:
    """The number of secrets, read directly from the store. Only when no daemon has it open."""
    from moot.store import migrate  # noqa: PLC0415 - a broken installation of SQLite is something to find
    from moot.store.connection import Tuning, connect_reader  # noqa: PLC0415
    from moot.store.secrets import count_secrets  # noqa: PLC0415

    if not home.store.exists():
        return 0
    connection = connect_reader(home.store, Tuning())
    try:
        return count_secrets(connection) if migrate.version(connection) == migrate.newest() else 0
    finally:
        connection.close(True)


def _command_for(key_file: Path) -> str:
    return "moot secrets set NAME" + ("" if MasterKey(key_file).may_be_new else " --new-key")


def check_unreadable(names: Sequence[str]) -> Iterator[Finding]:
    """Check the secrets that a running daemon cannot open although it has a key."""
    if names:
        yield checks.error(
            _CHECK,
            f"{numbers.format_plural(len(names), 'stored secret')} cannot be opened: {', '.join(names[:_SHOWN])}"
            f"{' …' if len(names) > _SHOWN else ''}.",
            "Set it again with `moot secrets set NAME`, or remove it with `moot secrets rm NAME`.",
        )


def check_key(home: Paths, count: int) -> Iterator[Finding]:
    """Check the file that holds or names the key. A keyring is not opened: it may ask for a password."""
    path = home.data / "vault.key"
    place = MasterKey(path).place
    if not count or place in ("file", "keyring"):
        return
    problem = "is missing" if place == "none" else "cannot be used"
    yield checks.error(
        _CHECK,
        f"{numbers.format_plural(count, 'stored secret')} cannot be opened: {path}, the master key, {problem}.",
        "Restore a backup that was made with --with-keys, put that file back (mode 600), "
        f"or set the secrets again: {_command_for(path)}",
    )
