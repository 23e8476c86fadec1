"""The SpawnedRuns port: what the engine needs to know of spawned runs. See teammates/live_runs."""

from collections.abc import Sequence
from typing import Protocol


class SpawnedRuns(Protocol):
    def has_spawned(self, run_id: str) -> bool:
        """Whether the run has spawned others whose results it may still request."""
        ...

    def mark_shown(self, run_ids: Sequence[str]) -> None:
        """Mark the results of these runs as shown: they are in a message that is in the history and being written."""
        ...
