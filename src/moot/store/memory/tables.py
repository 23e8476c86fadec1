"""Tables of immutable rows with indexes, and the journal for rolling back a transaction. Used by database.py."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Returns the index key of a row; None leaves it out of the index.
IndexKey = Callable[[Any], Hashable]


class Journal:
    """The changes of the current transaction."""

    def __init__(self) -> None:
        self._changes: list[tuple[Table[Any, Any], Hashable, Any]] = []

    def record(self, table: "Table[Any, Any]", key: Hashable, before: object) -> None:
        self._changes.append((table, key, before))

    def commit(self) -> None:
        self._changes.clear()

    def roll_back(self) -> None:
        while self._changes:
            table, key, before = self._changes.pop()
            table.restore(key, before)


class Table(Generic[K, V]):
    """Rows by key. A row is replaced, never changed, so readers keep a consistent row."""

    def __init__(self, journal: Journal, **indexes: IndexKey) -> None:
        self._journal = journal
        self._rows: dict[K, V] = {}
        self._indexes = indexes
        self._buckets: dict[str, dict[Hashable, dict[K, None]]] = {name: {} for name in indexes}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._rows.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def get(self, key: K) -> V | None:
        return self._rows.get(key)

    def pairs(self) -> list[tuple[K, V]]:
        return list(self._rows.items())

    def find(self, index: str, value: Hashable) -> list[V]:
        return [self._rows[key] for key in self._buckets[index].get(value, ())]

    def count(self, index: str, value: Hashable) -> int:
        return len(self._buckets[index].get(value, ()))

    def put(self, key: K, row: V) -> V:
        self._journal.record(self, key, self._rows.get(key))
        self._set(key, row)
        return row

    def remove(self, key: K) -> bool:
        if key not in self._rows:
            return False
        self._journal.record(self, key, self._rows[key])
        self._unset(key)
        return True

    def remove_all(self, index: str, value: Hashable) -> int:
        keys = list(self._buckets[index].get(value, ()))
        for key in keys:
            self.remove(key)
        return len(keys)

    def restore(self, key: K, row: V | None) -> None:
        """Restore a row to its state before a change, without journaling it."""
        if row is None:
            self._unset(key)
        else:
            self._set(key, row)

    def copy_rows(self, other: "Table[K, V]") -> None:
        for key, row in other.pairs():
            self._set(key, row)

    def _set(self, key: K, row: V) -> None:
        before = self._rows.get(key)
        self._rows[key] = row
        for name, key_of in self._indexes.items():
            value, old = key_of(row), None if before is None else key_of(before)
            if value == old and before is not None:
                continue
            self._forget(name, old, key)
            if value is not None:
                self._buckets[name].setdefault(value, {})[key] = None

    def _unset(self, key: K) -> None:
        row = self._rows.pop(key)
        for name, key_of in self._indexes.items():
            self._forget(name, key_of(row), key)

    def _forget(self, name: str, value: Hashable, key: K) -> None:
        bucket = self._buckets[name].get(value) if value is not None else None
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del self._buckets[name][value]
