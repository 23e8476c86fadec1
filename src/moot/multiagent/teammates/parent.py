"""find_parent_key: the conversation of the run that spawned a teammate. Used by snapshot.py and workers.py."""

from moot.domain.conversation import ConversationKey
from moot.domain.ports.store import Store
from moot.domain.run import Run
from moot.multiagent.teammates.live_runs import LiveRuns


async def find_parent_key(run: Run, live: LiveRuns, store: Store) -> ConversationKey | None:
    """Return the conversation of a run's parent; None if nothing has spawned it.

    It is read from the parent: a background run works in another conversation than the one it asks in.
    """
    if not run.parent_id:
        return None
    view = live.find(run.parent_id)
    parent = view.run if view is not None else await store.get_run(run.parent_id)
    return parent.key if parent is not None else run.parent_key
