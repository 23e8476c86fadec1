"""Approvals in the chat of a teammate whose turn has ended: shown with all they would change, and decided visibly."""

from pathlib import Path

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home
from tests.daemon_thread import daemon_thread
from tests.scripting import call, lead, mate, say, script, spawn
from tests.terminal import Terminal, terminal

CONFIG = PLAIN + '[agent]\nmultiAgent = true\n[security.interceptor]\nsensitive_tools = ["fs_write"]\n'
SCRIPT = script(
    lead("^leave it", spawn("write it"), say("Left.")),
    lead("has ended", say("I heard.")),
    mate(
        "^write",
        call("fs_write", path="notes.txt", content="a first line\n"),
        call("fs_write", path="notes.txt", content="a second line\n"),
        say("Written."),
    ),
)
CONTROL_D = "\x04"


def leave(person: Terminal) -> None:
    person.type(CONTROL_D)
    assert person.wait_for_exit() == 0


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_call_of_a_teammate_that_was_left_behind_is_shown_with_its_difference(
    home: Home, tmp_path: Path, columns: int
) -> None:
    with daemon_thread(home):
        with terminal(home, "chat", "moot", "--cwd", str(tmp_path), "-m", "leave it", columns=columns) as person:
            person.wait_for("moot › Left.")
            person.wait_on_screen("+a first line")
            person.wait_on_screen("allow fs_write?")
            person.enter("d: not so")
            person.wait_for("✗ denied: write notes.txt")
            person.wait_on_screen("+a second line")
            person.wait_on_screen("allow fs_write?")
            leave(person)
        with terminal(home, "chat", "moot", "--cwd", str(tmp_path), columns=columns) as person:
            person.wait_on_screen("+a second line")
            person.wait_on_screen("allow fs_write?")
            person.enter("o")
            person.wait_for("✓ allowed once: write notes.txt")
            person.wait_for("moot › I heard.")
            assert person.rows.text.count("+a second line") == 1
            leave(person)
    assert (tmp_path / "notes.txt").read_text() == "a second line\n"
