"""The SpawnedRuns port: what the engine has to know of runs that other runs have spawned. See teammates/live_runs."""

from collections.abc import Sequence
from typing import Protocol


class SpawnedRuns(Protocol):
    def leads(self, run_id: str) -> bool:
        """Whether the run has spawned others whose results it may still ask for."""
        ...

    def mark_shown(self, run_ids: Sequence[str]) -> None:
        """The results of these runs are in a message that is in the history and on its way to the disk."""
        ...
