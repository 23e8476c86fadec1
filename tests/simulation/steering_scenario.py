"""A simulated history in which messages are also sent to active runs, and conversations begin anew and are resumed.

Works with scenario.py.
"""

from collections.abc import Callable, Iterator

from moot.domain.message import Role
from moot.domain.run import Outcome
from moot.store.memory import found_runs, runs
from moot.store.memory.database import Database
from tests.simulation.mutants import Patch
from tests.simulation.scenario import KEYS, Scenario, Violation
from tests.simulation.world import Daemon

# After these a run has made its last step, which was shown all that was shown before.
_FINISHED = (Outcome.COMPLETED, Outcome.LIMIT)


class SteeringScenario(Scenario):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._operations = (
            *self._operations,
            *[self._steer] * 9,
            *[self._begin_anew] * 2,
            *[self._resume_archive] * 2,
        )

    def run(self) -> None:
        super().run()
        self.world.database.transact(_check_steered)

    async def _steer(self, daemon: Daemon) -> None:
        sent = self._new_message("")
        sent.steers = True
        await self._submit(daemon, sent)

    async def _begin_anew(self, daemon: Daemon) -> None:
        archive = await daemon.runtime.runs.open_stretch(self._rng.choice(KEYS))
        self.world.note(f"began anew after {archive.last_seq}")

    async def _resume_archive(self, daemon: Daemon) -> None:
        key = self._rng.choice(KEYS)
        archives = await daemon.storage.store.list_archives(key)
        if archives:
            number = self._rng.choice(archives).number
            await daemon.runtime.runs.open_stretch(key, number)
            self.world.note(f"resumed archive {number} of {key}")


def _check_steered(db: Database) -> None:
    if problems := list(_list_unseen(db)):
        raise Violation("; ".join(problems))


def _list_unseen(db: Database) -> Iterator[str]:
    """A message that was shown to a run was sent to its model, unless something has stopped the run."""
    for row in db.runs:
        delivery = db.deliveries.get(row.id)
        if delivery is None or row.parent_id or row.user_seq or row.spawn.kind != "turn":
            continue
        steered = db.runs.get(delivery.run_id)
        if steered is None or steered.end is None or steered.end.outcome not in _FINISHED:
            continue
        later = db.entries(delivery.conversation, delivery.seq + 1, delivery.seq + 10_000)
        if not any(each.run_id == steered.id and each.message.role is Role.ASSISTANT for each in later):
            content = found_runs.read(db, row).request.content
            yield f"{content!r} was shown to {steered.id}, which ended {steered.end.outcome} without another step"


def _leave_in_queue() -> list[Patch]:
    """A message that was shown to a run stays queued."""
    return [(runs, "_end_steered", lambda *_given: None)]


STEERING_MUTANTS: dict[str, Callable[[], list[Patch]]] = {"leave in the queue": _leave_in_queue}
