"""The window of a chat changes its size, is cleared or given back to the shell: no row stays twice."""

import shlex
import shutil

from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider
from tests.terminal import MOOT, terminal

CONFIG = PROVIDER_CONFIG + "[project]\ninstructions = false\n"
CONTROL_C, CONTROL_D, CONTROL_Z, ESCAPE = "\x03", "\x04", "\x1a", "\x1b"
WORDS = " ".join(f"word{number}" for number in range(100))


def test_a_paragraph_that_is_being_written_is_drawn_once_when_the_window_gets_narrower_and_wider(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    provider.program({"text": WORDS, "stall_after": 60})
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "tell", columns=100, TMUX="/tmp/tmux") as person:
        person.wait_on_screen("word50")
        for typed, columns in (("a", 60), ("ab", 40), ("abc", 90)):
            person.resize(columns)
            person.type(typed[-1])
            person.wait_on_screen(f"› {typed}\n")
            assert person.rows.text.count("word0 ") == 1, person.rows.text
            assert person.rows.text.count("Esc stops") == 1, person.rows.text
        person.type(ESCAPE)
        person.wait_on_screen("Ctrl-D leaves")
        assert person.rows.text.count("Ctrl-D leaves") == 1
        person.type(f"{CONTROL_C}{CONTROL_D}")
        assert person.wait_for_exit() == 0


def test_what_is_drawn_at_the_top_of_the_window_does_not_go_to_the_scrollback(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("/clear")
        person.wait_on_screen("screen cleared")
        person.enter("hello")
        person.wait_on_screen("ada › echo: hello")
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0
        assert not person.rows.erased


def test_control_z_gives_the_terminal_back_to_the_shell_until_fg(
    daemon: LiveDaemon, provider: Provider, sender: str
) -> None:
    shell = shutil.which("bash")
    assert shell is not None
    provider.program({"text": "Two.", "hold": True})
    with terminal(daemon.home, command=[shell, "--norc", "--noprofile", "-i"]) as person:
        person.enter(f"PS1='shell> '; {shlex.join(MOOT)} chat ada --as {shlex.quote(sender)} -m 'one?'")
        person.wait_on_screen("ada thinking")
        person.type(CONTROL_Z)
        person.wait_for("Stopped")
        provider.release()
        person.wait_for("shell> ")
        person.enter("echo in the $((1+1))nd place")
        person.wait_for("in the 2nd place")
        person.enter("fg")
        person.wait_for("ada › Two.")
        person.wait_for("Ctrl-D leaves")
        person.type(CONTROL_D)
        person.wait_for("shell> ")
        person.enter("exit")
        assert person.wait_for_exit() == 0
