"""Transactions: how the modules of this package read and write. Implemented by sqlite.py."""

from typing import Protocol, TypeVar

from moot.store.writer import Work

T = TypeVar("T")


class Transactions(Protocol):
    @property
    def node(self) -> int:
        """The number under which this daemon is registered."""
        ...

    async def read(self, work: Work[T]) -> T: ...
    async def write(self, work: Work[T], name: str = "") -> T: ...
