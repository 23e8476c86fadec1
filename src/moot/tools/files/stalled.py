"""Tells whether a process does nothing but wait, such as for a pipe that nobody writes to. Used by `ripgrep`."""

import os
from contextlib import suppress

# States of a thread in which it has something to do, or waits for a disk.
_BUSY = frozenset("RD")
# Looks in a row without anything read and hardly any time used. Threads that wait for others still use a little.
_QUIET_LOOKS = 5
_QUIET_TICKS = 10


class StallWatch:
    """Compares what a process has done each time it is looked at; where there is no /proc, nothing is ever stalled."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._reads = -1
        self._ticks = 0
        self._quiet = 0

    def look(self) -> bool:
        """Return whether the process has done nothing since several looks."""
        reads, ticks, is_busy = -1, 0, True
        with suppress(OSError, ValueError, IndexError):
            reads = self._count_reads()
            states, ticks = self._read_threads()
            is_busy = not _BUSY.isdisjoint(states)
        moved = reads != self._reads or ticks - self._ticks > _QUIET_TICKS
        self._reads, self._ticks = reads, ticks
        self._quiet = 0 if moved or is_busy or reads < 0 else self._quiet + 1
        return self._quiet >= _QUIET_LOOKS

    def _count_reads(self) -> int:
        with open(f"/proc/{self._pid}/io", encoding="ascii") as file:
            fields = dict(line.split(": ") for line in file.read().splitlines())
        return int(fields["syscr"]) + int(fields["syscw"])

    def _read_threads(self) -> tuple[set[str], int]:
        states: set[str] = set()
        ticks = 0
        for thread in os.listdir(f"/proc/{self._pid}/task"):
            with open(f"/proc/{self._pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            states.add(fields[0])
            ticks += int(fields[11]) + int(fields[12])
        return states, ticks
