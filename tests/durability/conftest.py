"""A disk that writes down what is asked of it, and refuses when told to."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import apsw
import pytest
from typing_extensions import Buffer

_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Noted:
    """One thing that happened: a write or a sync of a file, or something the test said itself."""

    what: str
    file: str = ""
    data: bytes = b""


class Disk(apsw.VFS):
    """The real file system behind a notebook. Operations that can fail are counted from 1."""

    def __init__(self) -> None:
        self.name = f"noting-{next(_names)}"
        self.notes: list[Noted] = []
        self.count = 0
        self.failures = 0
        self._lock = threading.Lock()
        self._fails_at = 0
        self._fails_on = False
        self._error: type[Exception] = apsw.IOError
        super().__init__(self.name, "")

    def fail(self, at: int, error: type[Exception], *, until_mended: bool) -> None:
        """Refuse operation number `at` from now, once or until mend() is called."""
        with self._lock:
            self.count, self._fails_at, self._fails_on, self._error = 0, at, until_mended, error

    def mend(self) -> None:
        self._fails_at = 0

    def note(self, what: str, file: str = "", data: bytes = b"") -> None:
        with self._lock:
            self.notes.append(Noted(what, file, data))

    def operate(self) -> None:
        with self._lock:
            self.count += 1
            fails = self._fails_at and (
                self.count == self._fails_at or (self._fails_on and self.count > self._fails_at)
            )
            self.failures += bool(fails)
        if fails:
            raise self._error("this disk was told to fail")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "_File":  # noqa: N802 - SQLite's name
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._disk = disk
        self._kind = "log" if path.endswith("-wal") else "journal" if path.endswith("-journal") else "database"
        super().__init__("", name, flags)

    def xWrite(self, data: Buffer, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.operate()
        super().xWrite(data, offset)
        self._disk.note("write", self._kind, bytes(data))

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        # The machine of a test does not stop: what matters is when it is asked for, and that it can fail.
        self._disk.operate()
        self._disk.note("sync", self._kind)

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.operate()
        super().xTruncate(size)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()
