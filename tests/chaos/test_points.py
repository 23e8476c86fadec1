"""Every named point is one a daemon really comes by: each of them kills it, and nothing promised is lost."""

import re
from pathlib import Path

import pytest

from moot import failpoint
from tests.chaos.cycles import Arena

# What the stores of mail commit.
_PEER_WRITES = ("mail", "outbox", "settled", "receipt")
# What changes of the knowledge graph commit.
_GRAPH_WRITES = ("graph",)
# What a firing of a scheduled job commits.
_CRON_WRITES = ("fire",)
# What workflows commit.
_WORKFLOW_WRITES = ("workflow",)
# What the index of documents commits.
_DOCUMENT_WRITES = ("documents",)
SOURCES = Path(failpoint.__file__).parent


def test_every_point_in_the_code_is_registered_and_every_registered_point_is_in_the_code() -> None:
    placed: set[str] = set()
    writes: set[str] = set()
    shelf: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        placed.update(re.findall(r'\breach\("([a-z.]+)"\)', text))
        placed.update(f"{moment}.{{}}" for moment in re.findall(r'\breach\("([a-z]+)", job\.name\)', text))
        calls = r'(?:self\._(?:write|writer\.post(?:_soon)?)|return post)\(.*, "([a-z]+)"\)$'
        writes.update(re.findall(calls, text, flags=re.MULTILINE))
        if path.parent.name == "store" and path.name in ("asks.py", "rules.py"):
            shelf.update(re.findall(r'"([a-z]+)",?\s*\)$', text, flags=re.MULTILINE))
    assert writes - {"spawn"} == set(failpoint.WRITES)
    # Withdrawing an ask and taking back a rule leave nothing half done.
    assert (shelf - {"rule", "close"}) | {"spawn"} == set(failpoint.TEAM_WRITES)
    writes |= set(failpoint.TEAM_WRITES)
    named = {point for point in placed if not point.endswith(".{}")}
    writes |= {*_PEER_WRITES, *_GRAPH_WRITES, *_CRON_WRITES, *_WORKFLOW_WRITES, *failpoint.KNOWLEDGE_WRITES}
    writes |= {*_DOCUMENT_WRITES}
    named.update(point.format(write) for point in placed - named for write in writes)
    rare = {*failpoint.FILE_POINTS, *failpoint.PEER_POINTS, *failpoint.STEER_POINTS}
    rare |= {*failpoint.GRAPH_POINTS, *failpoint.CRON_POINTS, *failpoint.WORKFLOW_POINTS, *failpoint.KNOWLEDGE_POINTS}
    rare |= {*failpoint.DOCUMENT_POINTS}
    assert named == {*failpoint.POINTS, *rare}


def test_there_are_at_least_twenty_five_points_and_no_two_have_one_name() -> None:
    assert len(set(failpoint.POINTS)) == len(failpoint.POINTS) >= 25


def test_a_point_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no point 'nowhere'"):
        failpoint._setting("nowhere:2")
    assert failpoint._setting("commit.begin:3") == ("commit.begin", 3)


# The daemon that is started after one kill is the one that dies next, so that a test has a dozen of them.
_PLAIN = tuple(point for point in failpoint.POINTS if point not in failpoint.TEAM_POINTS)
_GROUPS = [_PLAIN[first : first + 11] for first in range(0, len(_PLAIN), 11)]


@pytest.mark.parametrize("points", _GROUPS, ids=lambda points: points[0])
def test_each_point_kills_the_daemon_and_nothing_promised_is_lost(points: tuple[str, ...], tmp_path: Path) -> None:
    with Arena(tmp_path, seed=7) as arena:
        for number, point in enumerate(points):
            done = arena.cycle(number, point)
            assert done.reached, f"{done}: the daemon never came there"
            assert not done.problems, f"{done}:\n" + "\n".join(done.problems)
