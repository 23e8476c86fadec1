"""The queued messages of a store, for tests that look into one."""

from moot.domain.ports.store import Store
from moot.domain.run import Run, RunKind, RunStatus


async def list_queued_runs(store: Store) -> list[Run]:
    """The runs of all queued messages, in the order of arrival."""
    live = [owned.run for owned in await store.list_live_runs()]
    return [run for run in live if run.status is RunStatus.QUEUED and run.kind is RunKind.TURN]
