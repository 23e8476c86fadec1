"""Files Moot keeps beside its conversations: nobody else reads them, and nothing half-made stays behind."""

import fcntl
import os
import stat
import subprocess
from pathlib import Path

from tests.daemon_process import DaemonProcess, Home, call_cli, run_cli
from tests.daemon_thread import daemon_thread

SCRIPT = '[[rule]]\nreply = "Hello."\n'


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def unfinished(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_only_the_owner_can_read_the_log_also_one_that_others_could_read_before(home: Home) -> None:
    before = os.umask(0)
    try:
        home.log.parent.mkdir(parents=True)
        for name in ("moot.log", "moot.log.1"):
            (home.log.parent / name).write_text("{}\n")
            (home.log.parent / name).chmod(0o644)
        with daemon_thread(home) as daemon:
            assert daemon.cli("ask", "ada", "hello").returncode == 0
            assert [mode(home.log), mode(home.log.with_name("moot.log.1"))] == [0o600, 0o600]
        home.log.unlink()
        with daemon_thread(home):
            assert mode(home.log) == 0o600
    finally:
        os.umask(before)


def test_a_backup_that_was_killed_leaves_nothing_after_the_next_one(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    beside = folder / ".somebody.elses.part"
    beside.write_text("mine")
    killed = DaemonProcess.start(home, MOOT_FAIL_AT="backup.copied")
    try:
        assert killed.cli("backup", str(folder / "one.db")).returncode != 0
    finally:
        killed.reap()
    assert len(unfinished(folder)) == 2
    assert not (folder / "one.db").exists()

    with daemon_thread(home) as daemon:
        assert daemon.cli("ask", "ada", "hello").returncode == 0
        done = daemon.cli("backup", str(folder / "one.db"))
        assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(folder)) == [beside.name, "one.db"]
    assert mode(folder / "one.db") == 0o600


def test_nothing_is_restored_while_somebody_holds_the_home(home: Home, tmp_path: Path) -> None:
    with daemon_thread(home) as daemon:
        daemon.cli("ask", "ada", "hello")
        daemon.cli("backup", str(tmp_path / "one.db"))
        daemon.cli("delete", "ada", "--yes")
    before = home.on_disk()
    lock = os.open(home.store.parent / "moot.lock", os.O_RDWR)
    try:
        # A daemon that is only starting up has the lock, and has not said yet who it is.
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = call_cli(home, "restore", str(tmp_path / "one.db"), "--yes")
        assert refused.returncode != 0
        assert "moot down" in refused.stderr
        assert home.on_disk() == before
    finally:
        os.close(lock)
    assert call_cli(home, "restore", str(tmp_path / "one.db"), "--yes").returncode == 0
    with daemon_thread(home) as daemon:
        assert "hello" in daemon.cli("history", "ada").stdout


def test_no_daemon_starts_while_a_backup_is_being_restored(home: Home) -> None:
    home.store.parent.mkdir(parents=True)
    lock = os.open(home.store.parent / "moot.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = run_cli(home, "serve")
    except subprocess.TimeoutExpired as error:
        raise AssertionError("a daemon started") from error
    finally:
        os.close(lock)
    assert refused.returncode != 0
    assert not home.store.exists()
