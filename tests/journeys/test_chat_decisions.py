"""A decision in the chat when the daemon is gone: it starts the daemon, and decides what was shown or nothing."""

import json
import os
import signal

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, call_cli, run_cli
from tests.terminal import terminal

CONFIG = PLAIN + '\n[security.interceptor]\nsensitive_tools = ["set_title"]\n'
SCRIPT = """
[[rule]]
match = "name it"
calls = [{ name = "set_title", arguments = { title = "The lighthouse" } }]
after_tool = "Came of it: {result}"

[[rule]]
reply = "Heard: {user}"
"""
KEYS = "o once · r run · c conversation · a always · d deny, then Enter"


def kill_9(home: Home) -> None:
    os.kill(json.loads(call_cli(home, "status", "--json").stdout)["data"]["pid"], signal.SIGKILL)


@pytest.mark.parametrize(("typed", "came"), [("o", "The title is now"), ("d", "owner denied")])
def test_a_decision_starts_a_daemon_that_is_gone_and_holds_for_what_was_shown(
    home: Home, typed: str, came: str
) -> None:
    assert run_cli(home, "up").returncode == 0
    try:
        with terminal(home, "chat", "ada", "-m", "name it now") as person:
            person.wait_on_screen(KEYS)
            kill_9(home)
            person.wait_for("lost the connection to the daemon")
            person.wait_on_screen(KEYS)
            person.enter(typed)
            person.wait_for("started the daemon")
            person.wait_for("ada › Came of it: ")
            person.wait_for(came)
            person.type("\x04")
            assert person.wait_for_exit() == 0
        assert "is not running" not in person.seen
        assert "Heard:" not in person.seen
    finally:
        run_cli(home, "down", "--now")


def test_a_decision_on_what_was_settled_meanwhile_decides_nothing(home: Home) -> None:
    assert run_cli(home, "up").returncode == 0
    try:
        with terminal(home, "chat", "ada", "-m", "name it now") as person:
            person.wait_on_screen(KEYS)
            (ask,) = json.loads(call_cli(home, "inbox", "--json").stdout)["data"]
            kill_9(home)
            person.wait_for("lost the connection to the daemon")
            person.type("o")
            assert call_cli(home, "inbox", "deny", ask["ask_id"]).returncode == 0
            person.wait_for("connected again")
            person.wait_for("owner denied")
            person.wait_off_screen("allow set_title?")
            person.type("\r")
            # What was settled may come up once more before the list of asks is read anew: then the daemon says no.
            person.wait_for_any("nothing was decided", "is denied already")
            person.type("\x04")
            assert person.wait_for_exit() == 0
        assert "The title is now" not in person.seen
    finally:
        run_cli(home, "down", "--now")
