"""The digest of an absence as lines: how long it was, if that is known."""

import pytest

from moot.cli.render.digest_lines import render_digest
from moot.wire import moot_pb2 as pb

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("since", "first"),
    [(NOW - 5 * 3600, "While you were away (5 h): 1 run ended"), (0.0, "While you were away: 1 run ended")],
    ids=["after a visit", "never opened before"],
)
def test_a_digest_says_how_long_the_person_was_away(since: float, first: str) -> None:
    item = pb.DigestItemInfo(kind="run", agent="moot", text="completed: report", id="run-1")
    assert render_digest(pb.DigestInfo(since=since, total=1, items=[item]), now=NOW)[0] == first
