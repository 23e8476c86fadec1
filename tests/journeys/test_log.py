"""The daemon does not care who reads its log."""

import os
import shutil
import subprocess
import sys
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path

from moot.client.connection import connect
from moot.wire import moot_pb2 as pb
from tests.daemon_process import Home, running


async def test_a_standard_error_that_nobody_reads_does_not_stop_the_daemon(tmp_path: Path) -> None:
    agents = tmp_path / "agents"
    for number in range(150):
        (agents / f"broken-{number}-{'x' * 40}").mkdir(parents=True)
        (agents / f"broken-{number}-{'x' * 40}" / "AGENT.md").write_text("no front matter", encoding="utf-8")
    (tmp_path / "config.toml").write_text('[listen]\nhttp = "off"\ntcp = "off"\n', encoding="utf-8")
    unread, writing = os.pipe()
    # The least a pipe can hold.
    fcntl(writing, F_SETPIPE_SZ, 4096)
    environ = {**os.environ, "MOOT_HOME": str(tmp_path)}
    daemon = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "moot", "serve"], env=environ, stdout=subprocess.PIPE, stderr=writing, text=True
    )
    try:
        os.close(writing)
        assert daemon.stdout is not None
        assert "ready" in daemon.stdout.readline()
        async with connect(tmp_path / "run" / "moot.sock") as client:
            answer = await client.request(pb.ClientMessage(get_stats=pb.GetStats()))
        assert answer.stats.pid == daemon.pid
    finally:
        daemon.kill()
        daemon.communicate()
        os.close(unread)


def test_a_log_that_is_removed_or_moved_is_begun_again(home: Home) -> None:
    log = home.path / "logs" / "moot.log"
    with running(home) as daemon:
        log.rename(log.with_name("kept.log"))
        assert daemon.cli("reload").returncode == 0
        assert "reloaded" in log.read_text(encoding="utf-8")
        assert log.stat().st_mode & 0o777 == 0o600
        shutil.rmtree(log.parent)
        assert daemon.cli("reload").returncode == 0
        assert "reloaded" in log.read_text(encoding="utf-8")
