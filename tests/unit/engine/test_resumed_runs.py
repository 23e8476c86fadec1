"""A run that an earlier daemon began: what it has used counts against its limits."""

from pathlib import Path

from moot.domain.run import Limits, Outcome, RunEnd, RunRequest
from moot.domain.usage import RunUsage
from moot.models.scripted import Rule
from tests.unit.engine.engine_kit import engine
from tests.unit.shelves import ADA, BOB


async def test_a_resumed_run_has_the_time_that_was_left(tmp_path: Path) -> None:
    async with engine(tmp_path, Rule(hang=True)) as desk:
        await desk.store.begin(RunRequest(id="root", key=BOB, speaker="bob", content="go"), now=1.0)
        # The limits of a root are those of its tree as well; a teammate has its own.
        request = RunRequest(
            id="one",
            key=ADA,
            speaker="ada",
            content="hello",
            parent_id="root",
            root_id="root",
            root=BOB,
            limits=Limits(seconds=1000),
        )
        await desk.store.begin(request, now=1.0)
        await desk.store.append(ADA, "one", [], now=2.0, spent=RunUsage(steps=1, seconds=1000.0))
        run = await desk.store.get_run("one")
        assert run is not None

        end = await desk.follow(desk.runs.resume(run))

    assert isinstance(end, RunEnd)
    assert (end.outcome, end.steps) == (Outcome.TIMEOUT, 1)
