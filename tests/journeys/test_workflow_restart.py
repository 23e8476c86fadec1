"""The daemon is killed while a workflow runs: it goes on from the last finished step and repeats none."""

import json
from pathlib import Path

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, eventually, running
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script
from tests.talking import Talking
from tests.teaming import asked

CONFIG = PLAIN + '[security.interceptor]\npolicy = "none"\n'
TOOL = '''
from moot.tools import tool


@tool(safety="moderate")
async def note_down(path: str, text: str) -> str:
    """Add a line to a file.

    Args:
        path: The file.
        text: The line.
    """
    with open(path, "a") as file:
        file.write(text + "\\n")
    return "noted"
'''
SCRIPT = script(
    {"match": r"^call (?P<tool>\w+) (?P<args>.*)", "steps": [call("{tool}", "{args}"), say("{result}")]},
    {
        "match": "^note (?P<text>[a-z]+) in (?P<path>[^ ]+)",
        "steps": [call("note_down", path="{path}", text="{text}"), say("noted {text}")],
    },
    {"match": "^wait", "hang": True, "times": 1},
    {"reply": "Read."},
)
POINTS = (
    "workflow.created",
    "commit.workflow:2",
    "committed.workflow:2",
    "workflow.intended:2",
    "commit.spawn:2",
    "workflow.started:2",
    "workflow.stepped",
    "workflow.stepped:2",
    "commit.workflow:5",
    "workflow.ended",
    "workflow.reported",
)
ENDED = "SELECT count(*) FROM workflows WHERE ended_at > 0 AND status = ?"
REPORTED = "SELECT count(*) FROM deliveries JOIN workflow_reports ON workflow_reports.id = item_id WHERE seq > 0"
LEFT = "SELECT count(*) FROM runs WHERE status <> 'ended'"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home").furnish(script=SCRIPT, config=CONFIG)
    (home.path / "tools").mkdir()
    (home.path / "tools" / "note.py").write_text(TOOL)
    return home


def make_flow(path: Path) -> str:
    steps = [
        {"id": "a", "prompt": f"note first in {path} now"},
        {"id": "b", "prompt": f"note second in {path} after {{{{a.result}}}}", "depends_on": ["a"]},
        {"id": "c", "prompt": f"note third in {path} after {{{{b.result}}}}", "depends_on": ["b"]},
    ]
    return json.dumps({"name": "three", "steps": steps})


def start(talk: Talking, source: str) -> None:
    talk.start("moot", f"call workflow_run {json.dumps({'yaml_content': source})}")


@pytest.mark.parametrize("points", [POINTS[:4], POINTS[4:8], POINTS[8:]], ids=lambda points: points[0])
async def test_a_workflow_continues_after_a_kill_and_repeats_no_step(
    home: Home, tmp_path: Path, points: tuple[str, ...]
) -> None:
    for number, point in enumerate(points, 1):
        noted = tmp_path / f"noted-{number}"
        with running(home, MOOT_FAIL_AT=point) as daemon:
            async with daemon.client() as talk:
                start(talk, make_flow(noted))
                await eventually(lambda daemon=daemon: daemon.process.poll() is not None)  # type: ignore[misc]
        with daemon_thread(home):
            await eventually(lambda wanted=number: asked(home, ENDED, "completed") == wanted)  # type: ignore[misc]
            await eventually(lambda wanted=number: asked(home, REPORTED) == wanted)  # type: ignore[misc]
            await eventually(lambda: asked(home, LEFT) == 0)
        assert noted.read_text().splitlines() == ["first", "second", "third"], point
    attempts = home.query("SELECT count(*), count(DISTINCT workflow || step) FROM workflow_attempts")
    assert attempts == [(3 * len(points), 3 * len(points))]
    reports = home.query("SELECT count(*) FROM messages WHERE agent = 'workflow'")
    assert reports == [(len(points),)]


async def test_a_cancellation_that_was_stored_is_carried_out_by_the_next_daemon(home: Home) -> None:
    source = json.dumps({"name": "slow", "steps": [{"id": "a", "prompt": "wait"}, {"id": "b", "prompt": "wait"}]})
    with running(home, MOOT_FAIL_AT="workflow.cancelled") as daemon:
        async with daemon.client() as talk:
            start(talk, source)
            await eventually(lambda: asked(home, "SELECT count(*) FROM workflow_attempts") == 2)
            (found,) = home.query("SELECT id FROM workflows")
            talk.start("moot", f"call workflow_cancel {json.dumps({'run_id': found[0]})}", "other-turn")
            talk.start("moot", f"call workflow_cancel {json.dumps({'run_id': found[0]})}")
            await eventually(lambda: daemon.process.poll() is not None)
    with daemon_thread(home):
        await eventually(lambda: asked(home, ENDED, "cancelled") == 1)
        await eventually(lambda: asked(home, LEFT) == 0)
