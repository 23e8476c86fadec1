"""Two daemons on a NATS server exchange mail while one of the three is killed: all of it is shown once, in order."""

from pathlib import Path

import pytest

from moot.failpoint import PEER_POINTS
from tests.chaos.peer_cycles import BROKER, DESK, LAPTOP, STREAMS, MailLedger, PeerArena, plan


def test_nothing_is_lost_or_shown_twice_when_a_daemon_or_the_broker_is_killed(tmp_path: Path) -> None:
    with PeerArena(tmp_path, seed=3) as arena:
        for number, kill in enumerate([(DESK, "relay.published", 3), (LAPTOP, "commit.receipt", 2), (BROKER, "", 1)]):
            done = arena.cycle(number, *kill)
            assert done.reached, f"{done}: it was not killed"
            assert not done.problems, f"{done}:\n" + "\n".join(done.problems)
    assert arena.accepted > len(STREAMS)


def test_a_plan_visits_every_point_and_kills_each_of_the_three_at_random() -> None:
    planned = plan(100, 5)
    assert planned == plan(100, 5)
    assert {point for _, point, _ in planned} == {"", *PEER_POINTS}
    assert {target for target, point, _ in planned if not point} == {BROKER, DESK, LAPTOP}


@pytest.mark.parametrize(
    ("shown", "complaint"),
    [
        ([1, 2, 2], "was shown twice"),
        ([2], "was lost"),
        ([2, 1], "in another order"),
        ([1, 2, 3], "was refused, and shown"),
    ],
)
def test_the_ledger_sees_what_went_wrong(shown: list[int], complaint: str) -> None:
    ledger, stream = MailLedger(), STREAMS[0]
    ledger.note(stream, 1, True, "")
    ledger.note(stream, 2, False, "queued for goal x: the broker is unavailable")
    ledger.note(stream, 3, False, "no such agent")
    assert ledger.check([(stream.name, 1), (stream.name, 2)], set()) == []
    assert ledger.check([(stream.name, 2)], {(stream.name, 1)}) == []
    (problem,) = ledger.check([(stream.name, number) for number in shown], set())
    assert complaint in problem
