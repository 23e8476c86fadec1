"""kill -9 at random moments and at later passes of the points: nothing acknowledged is lost, nothing is doubled."""

import asyncio
import shutil
from pathlib import Path
from random import Random

import apsw
import pytest

from tests.chaos.checker import check
from tests.chaos.cycles import Arena, plan
from tests.chaos.daemon import Mortal, new_home
from tests.chaos.ledger import Ledger
from tests.chaos.workload import Workload
from tests.daemon_process import Home


def test_nothing_acknowledged_is_lost_or_doubled_by_kills_at_random_moments(tmp_path: Path) -> None:
    with Arena(tmp_path, seed=11) as arena:
        for number in range(6):
            done = arena.cycle(number)
            assert not done.problems, f"{done}:\n" + "\n".join(done.problems)
    assert arena.acknowledged > 6


@pytest.mark.parametrize("point", ["committed.append", "tool.after", "committed.end", "model.chunk"])
def test_a_later_pass_of_a_point_is_as_safe_as_the_first(point: str, tmp_path: Path) -> None:
    with Arena(tmp_path, seed=13) as arena:
        done = arena.cycle(1, point, 2)
    assert done.reached
    assert not done.problems, f"{done}:\n" + "\n".join(done.problems)


def test_a_plan_is_the_same_for_the_same_seed_and_visits_every_point() -> None:
    points = ("start.sent", "end.sent", "model.call")
    assert plan(30, 5, points) == plan(30, 5, points)
    assert {point for point, _ in plan(30, 5, points)} == {"", *points}


# ---- the checker can fail ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Ledger]:
    """A home where all is well: a few turns, and a daemon that was stopped in the ordinary way."""
    home, ledger = new_home(tmp_path_factory.mktemp("spoken")), Ledger()
    daemon = Mortal.launch(home)
    assert daemon is not None

    async def talk_a_little() -> None:
        async with daemon.client() as talk:
            acts = [("chat", "one"), ("tools", "one"), ("guest", "two"), ("compact", "two")]
            await Workload(talk, ledger, home, Random(1)).perform(acts)

    try:
        asyncio.run(talk_a_little())
    finally:
        daemon.stop()
    assert check(home, ledger) == []
    return home, ledger


@pytest.fixture
def quiet(spoken: tuple[Home, Ledger], tmp_path: Path) -> tuple[Home, Ledger]:
    """A copy that a test may damage."""
    home, ledger = spoken
    shutil.copytree(home.path, tmp_path / "home", ignore=shutil.ignore_patterns("*.sock"))
    return Home(tmp_path / "home"), ledger


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("DELETE FROM messages WHERE id = (SELECT max(id) FROM messages WHERE role = 'user')", "seqs are"),
        ("UPDATE runs SET status = 'running' WHERE number = 1", "is running"),
        ("DELETE FROM messages WHERE role = 'tool'", "belong"),
        ("UPDATE messages SET content = content || ' <from agent=\"x\">' WHERE role = 'assistant'", "framing"),
        ("UPDATE messages SET content = 'another' WHERE role = 'user'", "acknowledged at"),
        ("UPDATE messages SET agent = 'ben' WHERE role = 'assistant'", "attributed to"),
        ("UPDATE runs SET outcome = 'cancelled'", "told to have ended"),
    ],
)
def test_the_checker_sees_damage(quiet: tuple[Home, Ledger], damage: str, complaint: str) -> None:
    home, ledger = quiet
    db = apsw.Connection(str(home.store))
    db.execute(damage)
    db.close()
    problems = check(home, ledger)
    assert any(complaint in problem for problem in problems), problems


def test_the_checker_sees_a_call_that_was_made_twice(quiet: tuple[Home, Ledger]) -> None:
    home, ledger = quiet
    notes = home.path / "notes.txt"
    notes.write_text(notes.read_text() * 2)
    assert any("made 2 times" in problem for problem in check(home, ledger))


def test_the_checker_sees_a_call_that_was_never_recorded(quiet: tuple[Home, Ledger]) -> None:
    home, ledger = quiet
    with (home.path / "notes.txt").open("a") as notes:
        notes.write("run-unheard-of 0\n")
    assert any("before it was recorded" in problem for problem in check(home, ledger))


def test_a_daemon_that_cannot_start_is_not_taken_for_one_that_was_killed(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    home.write_config("default_model = 3\n")
    with pytest.raises(AssertionError, match="before it was ready"):
        Mortal.launch(home)
