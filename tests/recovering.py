"""Recovers runs as a starting daemon does, for tests of the store: runs that cannot continue are interrupted."""

from moot.domain.ports.store import Store
from moot.domain.recovery import RecoveryAction, decide
from moot.domain.run import Outcome, Run, RunEnd


async def end_interrupted(store: Store, *, now: float) -> list[Run]:
    """End what a dead daemon left and cannot go on, where no tool may be called twice; those it ended."""
    ended: list[Run] = []
    for left in await store.recover():
        if decide(left, is_repeatable=lambda _tool: False) is RecoveryAction.INTERRUPT:
            await store.end(left.run.key, left.run.id, RunEnd(outcome=Outcome.INTERRUPTED), (), now=now)
            run = await store.get_run(left.run.id)
            assert run is not None
            ended.append(run)
    return ended
