"""The window of a chat changes its size, or is cleared: no row stays twice, neither in it nor in the scrollback."""

from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider
from tests.terminal import terminal

CONFIG = PROVIDER_CONFIG + "[project]\ninstructions = false\n"
CONTROL_C, CONTROL_D, ESCAPE = "\x03", "\x04", "\x1b"
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
