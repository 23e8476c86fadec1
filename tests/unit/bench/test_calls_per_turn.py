"""What one message costs, in calls of Moot's functions. Times are not tested.

A feature that is not used must cost a message nothing. Who needs more calls says why, and raises the number here and in
docs/performance.md.
"""

from pathlib import Path

import pytest

from bench.turn_cost import count_turns, make_load_home
from bench.work import mock_server

# By kind of turn: the calls that are made in every turn.
# Arguments are compared with descriptions, and a request with what agents are told: 1 to 2 % more than before.
MOST = {"chat": 590, "tools": 1_160, "spawn": 3_320}
TURNS = {"chat": 20, "tools": 20, "spawn": 8}


@pytest.mark.parametrize("load", MOST)
async def test_a_turn_needs_no_more_calls_than_it_did(load: str, tmp_path: Path) -> None:
    async with mock_server() as base:
        home = make_load_home(load, tmp_path / "home", base)
        counts = await count_turns(load, home, warm=6, turns=TURNS[load])
    # The first may have begun before counting did.
    assert len(counts.turns) >= TURNS[load] - 1
    assert counts.least_calls <= MOST[load], sorted(counts.functions.items())
