"""kill -9 while jobs fire, background tasks work and workflows run: nothing is lost, and no effect is repeated."""

import asyncio
import shutil
from pathlib import Path
from random import Random

import apsw
import pytest

from tests.chaos.automation import People, Told, new_home
from tests.chaos.automation_checker import check, left
from tests.chaos.automation_cycles import TERM, VISITED, AutomationArena, plan
from tests.chaos.daemon import Mortal
from tests.daemon_process import PATIENCE, Home, eventually

# Each stands for a way to lose something or to do it twice; `./dev chaos --automation` visits all points.
_POINTS = ("committed.fire", "workflow.intended", "tool.after", "workflow.ended")


def test_automation_that_is_killed_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    with AutomationArena(tmp_path, seed=5, patience=PATIENCE) as arena:
        for number, point in enumerate((*_POINTS, "", TERM)):
            done = arena.cycle(number, point)
            assert done.reached or not point, f"{done}: the daemon never came there"
            assert not done.problems, f"{done}:\n" + "\n".join(done.problems)


def test_a_plan_visits_every_point_and_every_kind_of_stop() -> None:
    planned = plan(200, 5)
    assert planned == plan(200, 5)
    assert {point for point, _ in planned} == {"", TERM, *VISITED}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home where all is well."""
    home, told = new_home(tmp_path_factory.mktemp("worked")), Told()
    daemon = Mortal.launch(home)
    assert daemon is not None

    async def work() -> None:
        async with daemon.client() as talk:
            people = People(talk, told, Random(3))
            await people.perform(["schedule", "submit", "run"])
            async with asyncio.TaskGroup() as group:
                deciding = group.create_task(people.approve_all())
                await eventually(lambda: not left(home), seconds=PATIENCE)
                deciding.cancel()

    try:
        asyncio.run(work())
    finally:
        daemon.stop()
    assert check(home, told) == []
    return home


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("DELETE FROM cron_firings", "has the runs []"),
        ("UPDATE workflows SET status = 'failed'", "failed with"),
        ("UPDATE runs SET outcome = 'timeout' WHERE kind = 'background'", "ended timeout"),
        ("UPDATE workflow_attempts SET step = 'a', attempt = 2 WHERE step = 'b'", "was repeated"),
        ("DELETE FROM messages WHERE content LIKE '%has ended%'", "was told 0 times"),
        ("UPDATE messages SET content = 'mark unmade' WHERE content LIKE 'mark cron%'", "was made, and it was not"),
    ],
)
def test_the_checker_of_automation_sees_damage(worked: Home, tmp_path: Path, damage: str, complaint: str) -> None:
    shutil.copytree(worked.path, tmp_path / "home", ignore=shutil.ignore_patterns("*.sock"))
    home = Home(tmp_path / "home")
    db = apsw.Connection(str(home.store))
    db.execute(damage)
    db.close()
    problems = check(home, Told())
    assert any(complaint in problem for problem in problems), problems


def test_the_checker_of_automation_sees_an_effect_that_was_repeated_and_what_was_lost(worked: Home) -> None:
    marks = worked.path / "marks.txt"
    before = marks.read_text()
    try:
        marks.write_text(before + before.splitlines()[0] + "\n")
        assert any("was made 2 times" in problem for problem in check(worked, Told()))
    finally:
        marks.write_text(before)
    lost = Told(jobs={"cron-x"}, workflows={"wf-x"}, tasks={"arun-x"})
    assert [problem for problem in check(worked, lost) if problem.endswith("was lost")] == [
        "the job cron-x was lost",
        "the task arun-x was lost",
        "the workflow wf-x was lost",
    ]
