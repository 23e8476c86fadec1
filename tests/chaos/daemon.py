"""Homes and daemon processes for the kill tests: daemons that are meant to die, sometimes before they are ready."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw

from moot.store import migrate
from tests import fork_server
from tests.daemon_process import PATIENCE, DaemonProcess, Home

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ("ada", "ben", "cyd")
SLOW = " ".join(f"word{number}" for number in range(25))
SUMMARY = "They tried things out. Much was said, and all of it was heard."

# Messages end in a number. A speaker without tools may be shown several that were never answered as one, so that
# only its end says what is wanted.
SCRIPT = rf"""
[[rule]]
system = "moot:compaction"
reply = "{SUMMARY}"

[[rule]]
match = 'note twice #\d+\.?\Z'
calls = [
  {{ name = "note", arguments = {{ number = 0 }} }},
  {{ name = "note", arguments = {{ number = 1, pause = 0.02 }} }},
]
after_tool = "Both are noted."

[[rule]]
match = 'name it #\d+\.?\Z'
calls = [{{ name = "set_title", arguments = {{ title = "A name" }} }}]
after_tool = "It has a name."

[[rule]]
match = 'ask me #\d+\.?\Z'
calls = [{{ name = "ask_user", arguments = {{ questions = [{{ question = "Which?" }}] }} }}]
after_tool = "You answered: {{result}}"

[[rule]]
match = 'speak slowly #\d+\.?\Z'
reply = "{SLOW}"
token_seconds = 0.01

[[rule]]
match = 'hang #\d+\.?\Z'
hang = true

[[rule]]
match = 'break #\d+\.?\Z'
error = "it broke, as it was told"

[[rule]]
match = '(?P<number>#\d+)\.?\Z'
reply = "Heard: {{number}}"

[[rule]]
reply = "Heard: {{user}}"
"""


def new_home(path: Path) -> Home:
    return Home(path).furnish(script=SCRIPT, agents=AGENTS)


class Mortal(DaemonProcess):
    """A daemon that may die at any moment. What it says on standard error is kept in a file."""

    @classmethod
    def launch(
        cls, home: Home, *, fail_at: str = "", prefix: tuple[str, ...] = (), **environment: str
    ) -> "Mortal | None":
        """Start it and wait until it is ready; None when it died before, killed at its failpoint."""
        complaints = home.path / "stderr.txt"
        with complaints.open("ab") as stderr:
            process = fork_server.start(
                [*prefix, sys.executable, "-m", "tests.chaos.serve"],
                cwd=ROOT,
                env=_environment(home, **({"MOOT_FAIL_AT": fail_at} if fail_at else {}), **environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else ""
        except BaseException:
            # Whoever is stopped here takes the process with it.
            process.kill()
            raise
        if "ready" in line:
            return cls(home, process, line)
        process.stdout.close()
        if not ready:
            process.kill()
        code = process.wait(PATIENCE)
        if code == -9 and ready:
            return None
        raise AssertionError(f"the daemon ended with {code} before it was ready:\n{complaints.read_text()[-4000:]}")

    def arm(self, fail_at: str) -> None:
        """Have the running daemon killed at this point from now on."""
        order = self.home.path / "fail_at"
        order.write_text(fail_at, encoding="ascii")
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + PATIENCE
        while order.exists():
            assert time.monotonic() < deadline, "the daemon did not take up its failpoint"
            time.sleep(0.001)

    @property
    def pid(self) -> int:
        """The daemon's own, also where something stands in front of it."""
        found = re.search(r"pid (\d+)", self.ready_line)
        assert found is not None
        return int(found[1])

    def tasks(self) -> int:
        """How many tasks its event loop has."""
        answer = self.home.path / "tasks"
        answer.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR2)
        deadline = time.monotonic() + PATIENCE
        while not answer.exists():
            assert time.monotonic() < deadline, "the daemon did not count its tasks"
            time.sleep(0.001)
        return int(answer.read_text(encoding="ascii"))

    def files(self) -> int:
        """How many descriptors it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    @property
    def died_by_itself(self) -> bool:
        """True when it is already dead by SIGKILL. A moment is given to a kill that is on its way."""
        deadline = time.monotonic() + 0.2
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.process.returncode == -9


def _environment(home: Home, **extra: str) -> dict[str, str]:
    environment = home.environment(**extra)
    # Where byte code is never written, every one of hundreds of starts would compile everything again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def write_old_store(home: Home) -> list[tuple[str, str]]:
    """A store as the first version left it, with a conversation in it; what the conversation says."""
    home.store.parent.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(home.store))
    try:
        db.execute("PRAGMA journal_mode = WAL")
        migrate.migrate(db, upto=1)
        db.execute(
            "INSERT INTO conversations (agent, sender, created_at, updated_at, last_seq, archived_seq, archives)"
            " VALUES ('ada', 'old', 1, 1, 4, 2, 1)"
        )
        number = db.last_insert_rowid()
        said = [("user", "an old question"), ("assistant", "an old answer"), ("user", "another"), ("assistant", "so")]
        for seq, (role, content) in enumerate(said, start=1):
            db.execute(
                "INSERT INTO messages (id, role, content, agent, tool_call_id, is_error, run_id, created_at)"
                " VALUES (?, ?, ?, '', '', 0, '', 1)",
                ((number << 32) + seq, role, content),
            )
        db.execute(
            "INSERT INTO archives VALUES (?, 1, 1, 2, 'Old.', 'Old. All of it.', 1, '', 0, 0, 0, 0, 0, 0)",
            (number,),
        )
    finally:
        db.close()
    return said
