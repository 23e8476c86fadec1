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
        # Notes a table, a key and the row before the change. Not a method of its own: it is called for every change.
        self.record: Callable[[tuple[Table[Any, Any], Hashable, Any]], None] = self._changes.append

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
        self._buckets: dict[str, dict[Hashable, dict[K, None]]] = {name: {} for name in indexes}
        # The buckets of each index, with what finds the one of a row.
        self._indexes = [(self._buckets[name], key_of) for name, key_of in indexes.items()]
        # Not a method of its own: it is called for most rows that are looked at.
        self.get: Callable[[K], V | None] = self._rows.get

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._rows.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __getitem__(self, key: K) -> V:
        return self._rows[key]

    def pairs(self) -> list[tuple[K, V]]:
        return list(self._rows.items())

    def find(self, index: str, value: Hashable) -> list[V]:
        return [self._rows[key] for key in self._buckets[index].get(value, ())]

    def count(self, index: str, value: Hashable) -> int:
        return len(self._buckets[index].get(value, ()))

    def put(self, key: K, row: V) -> V:
        before = self._rows.get(key)
        self._journal.record((self, key, before))
        self._set(key, row, before)
        return row

    def remove(self, key: K) -> bool:
        if key not in self._rows:
            return False
        self._journal.record((self, key, self._rows[key]))
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
            self._set(key, row, self._rows.get(key))

    def copy_rows(self, other: "Table[K, V]") -> None:
        for key, row in other.pairs():
            self._set(key, row, self._rows.get(key))

    def _set(self, key: K, row: V, before: V | None) -> None:
        self._rows[key] = row
        for buckets, key_of in self._indexes:
            value = key_of(row)
            if before is not None:
                old = key_of(before)
                if value == old:
                    continue
                _forget(buckets, old, key)
            if value is not None:
                bucket = buckets.get(value)
                if bucket is None:
                    buckets[value] = {key: None}
                else:
                    bucket[key] = None

    def _unset(self, key: K) -> None:
        row = self._rows.pop(key)
        for buckets, key_of in self._indexes:
            _forget(buckets, key_of(row), key)


def _forget(buckets: dict[Hashable, dict[K, None]], value: Hashable, key: K) -> None:
    bucket = buckets.get(value) if value is not None else None
    if bucket is not None:
        bucket.pop(key, None)
        if not bucket:
            del buckets[value]
