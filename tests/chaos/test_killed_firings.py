"""A daemon that is killed anywhere in a firing of a scheduled job: it runs once, and its result is told once."""

import time

from moot.failpoint import CRON_POINTS
from tests.daemon_process import CONFIG, PATIENCE, Home, eventually, running, spawn
from tests.daemon_thread import daemon_thread

SCRIPT = """
[[rule]]
match = "has ended"
reply = "Told."

[[rule]]
reply = "Counted."
"""
ENDED = "SELECT count(*) FROM runs WHERE kind = 'background' AND status = 'ended' AND outcome = 'completed'"
REPORTS = (
    "SELECT count(*) FROM messages JOIN runs ON runs.id = run_id WHERE role = 'user'"
    " AND instr(messages.content, 'has ended') > 0 AND runs.status = 'ended'"
)


async def test_each_point_kills_the_daemon_and_every_job_runs_and_is_told_once(home: Home) -> None:
    home.furnish(script=SCRIPT, config=CONFIG + "[project]\ninstructions = false\n")
    with daemon_thread(home) as daemon:
        for number in range(len(CRON_POINTS)):
            added = daemon.cli("cron", "add", f"job {number}", f"count {number}", "--agent", "ada", "--every", "1h")
            assert added.returncode == 0, added.stderr
    for number, point in enumerate(CRON_POINTS):
        # It was missed while no daemon was there, so it fires as soon as one is.
        home.change("UPDATE cron_jobs SET next_at = ? WHERE name = ?", [(time.time() - 300, f"job {number}")])
        process = spawn(home, MOOT_FAIL_AT=point)
        process.communicate(timeout=PATIENCE)
        assert process.returncode < 0, f"the daemon never came to {point}"
    with running(home):
        await eventually(lambda: home.query(ENDED)[0][0] >= len(CRON_POINTS))
        await eventually(lambda: home.query(REPORTS)[0][0] >= len(CRON_POINTS))
    firings = home.query(
        "SELECT name, count(*), count(DISTINCT run_id) FROM cron_firings JOIN cron_jobs ON cron_jobs.id = job_id"
        " WHERE run_id <> '' GROUP BY name ORDER BY name"
    )
    assert firings == [(f"job {number}", 1, 1) for number in range(len(CRON_POINTS))]
    assert home.query(ENDED) == [(len(CRON_POINTS),)]
    assert home.query(REPORTS) == [(len(CRON_POINTS),)]
    assert home.query("SELECT count(*) FROM runs WHERE status <> 'ended'") == [(0,)]
