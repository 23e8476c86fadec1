"""kill -9 while teammates work: every run goes on or is told, every result arrives once, and no call is made twice."""

import asyncio
import shutil
from pathlib import Path
from random import Random

import apsw
import pytest

from moot.wire import moot_pb2 as pb
from tests.chaos.daemon import Mortal
from tests.chaos.team import People, Told, new_home
from tests.chaos.team_checker import check, fates, fulfilled, owed, take, turns_left
from tests.chaos.team_cycles import TERM, VISITED, TeamArena, plan
from tests.daemon_process import PATIENCE, Home, eventually
from tests.talking import Talking

# Each of these stands for a way to lose something; `./dev chaos --team` visits all of them, and more often.
_POINTS = ("tool.after", "committed.ask", "commit.spawn", "teammate.ended", "teammate.delivered", "teammates.recovered")


@pytest.mark.parametrize("points", [_POINTS[:3], _POINTS[3:]], ids=["at work", "done"])
def test_a_team_that_is_killed_at_a_point_loses_nothing(points: tuple[str, ...], tmp_path: Path) -> None:
    with TeamArena(tmp_path, seed=5, patience=PATIENCE) as arena:
        for number, point in enumerate(points):
            done = arena.cycle(number, point)
            assert done.reached, f"{done}: the daemon never came there"
            assert not done.problems, f"{done}:\n" + "\n".join(done.problems)


@pytest.mark.parametrize("how", ["", TERM], ids=["killed", "told to stop"])
def test_a_team_that_is_stopped_at_a_random_moment_loses_nothing(how: str, tmp_path: Path) -> None:
    with TeamArena(tmp_path, seed=23) as arena:
        done = arena.cycle(1, how)
        assert not done.problems, f"{done}:\n" + "\n".join(done.problems)


@pytest.mark.parametrize("how", ["", TERM], ids=["killed", "told to stop"])
def test_a_turn_that_waits_for_its_teammates_goes_on_and_gives_one_answer(how: str, tmp_path: Path) -> None:
    home, told = new_home(tmp_path), Told()
    daemon = Mortal.launch(home)
    assert daemon is not None
    asyncio.run(_until_it_waits(daemon, how))
    daemon.kill_9()
    dead = take(home)
    assert list(turns_left(dead).values()) == ["goes on"]
    risen = Mortal.launch(home)
    assert risen is not None

    async def settle() -> None:
        async with risen.client() as talk:
            await _decide_all_until_quiet(talk, People(talk, told, Random(3), says_yes=True), home)

    try:
        asyncio.run(settle())
        assert [*fulfilled(dead, take(home)), *check(home, told)] == []
        # Nothing was told or answered beside the turn itself.
        assert [run["outcome"] for run in take(home).talks["moot", "one"].runs] == ["completed"]
    finally:
        risen.stop()


async def _until_it_waits(daemon: Mortal, how: str) -> None:
    """A turn that spawns two who ask, and waits for them; then the daemon is stopped in one way or the other."""
    async with daemon.client() as talk:
        speech = talk.start("moot", "query #1", "one")
        await speech.until("tool_start", count=2)
        await eventually(talk.asks, seconds=PATIENCE)
        if how == TERM:
            daemon.terminate()
            await asyncio.to_thread(daemon.process.wait, PATIENCE)
        else:
            daemon.process.kill()


def test_a_plan_with_a_team_visits_every_point_and_every_kind_of_stop() -> None:
    planned = plan(300, 5)
    assert planned == plan(300, 5)
    assert {point for point, _ in planned} == {"", TERM, *VISITED}


# ---- the checker can fail ------------------------------------------------------------------------


async def _decide_all_until_quiet(talk: Talking, people: People, home: Home) -> None:
    async def quiet() -> bool:
        for ask in await talk.asks():
            await people.decide(ask)
        busy = [*await talk.active(), *(await talk.ask(list_runs=pb.ListRunsMsg())).run_list.runs]
        return not busy and not owed(take(home))

    await eventually(quiet, seconds=PATIENCE)


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home where a team has worked and all is well."""
    home, told = new_home(tmp_path_factory.mktemp("worked")), Told()
    daemon = Mortal.launch(home)
    assert daemon is not None

    async def work() -> None:
        async with daemon.client() as talk:
            people = People(talk, told, Random(3))
            for act in ("crowd", "leave"):
                await people.turn(act, "one")
            await _decide_all_until_quiet(talk, people, home)

    try:
        asyncio.run(work())
    finally:
        daemon.stop()
    assert check(home, told) == []
    return home


@pytest.fixture
def copied(worked: Home, tmp_path: Path) -> Home:
    """A copy that a test may damage."""
    shutil.copytree(worked.path, tmp_path / "home", ignore=shutil.ignore_patterns("*.sock"))
    return Home(tmp_path / "home")


def _damage(home: Home, statement: str) -> None:
    db = apsw.Connection(str(home.store))
    db.execute(statement)
    db.close()


_FIRST = "(SELECT number FROM runs WHERE kind <> 'turn' ORDER BY number LIMIT 1)"
_SECOND = "(SELECT number FROM runs WHERE kind <> 'turn' ORDER BY number LIMIT 1 OFFSET 1)"
_REPORTED = "(SELECT item_id FROM deliveries JOIN runs ON runs.id = run_id AND author <> '' LIMIT 1)"


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (f"UPDATE runs SET status = 'running', outcome = '' WHERE number = {_FIRST}", "is running"),
        (f"UPDATE runs SET outcome = 'timeout' WHERE id = {_REPORTED}", "was told as"),
        (f"DELETE FROM deliveries WHERE item_id = {_REPORTED}", "was delivered to nobody"),
        (f"UPDATE deliveries SET seq = 1 WHERE item_id = {_REPORTED}", "does not show it"),
        (
            "UPDATE messages SET content = content || char(10) || content WHERE content LIKE '%has ended:%'",
            "was told in",
        ),
        ("DELETE FROM messages WHERE role = 'tool'", "belong"),
        (f"UPDATE runs SET parent_call = 'another' WHERE number = {_FIRST}", "was told it spawned"),
    ],
)
def test_the_checker_of_teams_sees_damage(copied: Home, damage: str, complaint: str) -> None:
    _damage(copied, damage)
    problems = check(copied, Told())
    assert any(complaint in problem for problem in problems), problems


def test_the_checker_of_teams_sees_a_call_that_was_made_twice_and_one_that_was_not_made(copied: Home) -> None:
    marks = copied.path / "marks.txt"
    first, *others = marks.read_text().splitlines(keepends=True)
    marks.write_text("".join([*others, others[0]]))
    problems = check(copied, Told())
    assert any("was made 2 times" in problem for problem in problems), problems
    assert any(f"{first.strip()} was made, and it was not" in problem for problem in problems), problems


def test_the_checker_of_teams_sees_a_run_that_was_given_up_without_need(copied: Home) -> None:
    """A run that had only its last words left to say goes on; one with an open call does not."""
    _damage(copied, f"UPDATE runs SET status = 'running', outcome = '' WHERE number IN ({_FIRST}, {_SECOND})")
    left = f"(SELECT conversation << 32 FROM runs WHERE number = {_SECOND})"
    _damage(copied, f"DELETE FROM messages WHERE role <> 'user' AND id > {left} + 2 AND id < {left} + (1 << 32)")
    dead = take(copied)
    goes_on, unknown = list(dead.mates)[:2]
    assert fates(dead) == {goes_on: "goes on", unknown: "interrupted"}
    _damage(copied, f"UPDATE runs SET status = 'ended', outcome = 'interrupted' WHERE number = {_FIRST}")
    _damage(copied, f"UPDATE runs SET status = 'ended', outcome = 'completed' WHERE number = {_SECOND}")
    problems = list(fulfilled(dead, take(copied)))
    assert [goes_on in problems[0], unknown in problems[1]] == [True, True]


def test_the_checker_of_teams_sees_a_turn_that_was_given_up_or_answered_twice(copied: Home) -> None:
    led = f"(SELECT parent_id FROM runs WHERE number = {_FIRST})"
    _damage(copied, f"UPDATE runs SET status = 'running', outcome = '' WHERE id = {led}")
    assert list(turns_left(take(copied)).values()) == ["interrupted"]
    _damage(copied, f"DELETE FROM deliveries WHERE item_id = (SELECT id FROM runs WHERE number = {_FIRST})")
    dead = take(copied)
    assert list(turns_left(dead).values()) == ["goes on"]
    _damage(copied, f"UPDATE runs SET status = 'ended', outcome = 'interrupted' WHERE id = {led}")
    assert any("is 'interrupted' with 1 answers" in problem for problem in fulfilled(dead, take(copied)))
    _damage(copied, f"UPDATE runs SET outcome = 'completed' WHERE id = {led}")
    _damage(copied, f"UPDATE messages SET run_id = {led} WHERE content = 'Begun.'")
    assert any("is 'completed' with 2 answers" in problem for problem in fulfilled(dead, take(copied)))
