"""The terminal that tests type at is a person's, however the tests themselves were started."""

import signal
from pathlib import Path

from tests.daemon_process import Home
from tests.terminal import terminal


def test_control_c_reaches_a_command_also_when_the_tests_run_in_the_background(tmp_path: Path) -> None:
    # As a shell does with the jobs it puts there.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with terminal(Home(tmp_path), "echo ready; exec sleep 60", command=("/bin/sh", "-c")) as person:
            person.wait_for("ready")
            person.type("\x03")
            assert person.wait_for_exit() == -signal.SIGINT
    finally:
        signal.signal(signal.SIGINT, before)
