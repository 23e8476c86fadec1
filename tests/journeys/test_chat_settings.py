"""The toolbar of an open chat follows the configuration, and shows the cost in every window."""

import pytest

from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.terminal import Terminal, terminal

PRICED = 'model = "m"\nprice_prompt = 900.0\nprice_completion = 900.0\n'
CONFIG = PROVIDER_CONFIG.replace('model = "m"\n', PRICED) + "[project]\ninstructions = false\n"


def change(home: Home, *pairs: tuple[str, str]) -> None:
    text = (home.path / "config.toml").read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    home.write_config(text)


def leave(person: Terminal) -> None:
    person.type("\x04")
    assert person.wait_for_exit() == 0


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_cost_and_the_context_are_in_the_toolbar_at_every_width(
    home: Home, provider: Provider, columns: int
) -> None:
    with daemon_thread(home), terminal(home, "chat", "ada", columns=columns) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("hello")
        person.wait_on_screen("· $")
        person.wait_on_screen("context")
        bar = person.rows.text.rstrip().split("\n")[-1]
        assert all(word in bar for word in ("ada", "mode ask", "$", "context")), bar
        assert len(bar) < columns
        leave(person)


def test_an_open_chat_learns_what_a_reload_has_changed(home: Home, provider: Provider) -> None:
    with daemon_thread(home) as daemon, terminal(home, "chat", "ada", columns=120) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("hello")
        person.wait_on_screen("ada · m · mode ask · context")
        person.wait_on_screen("of 100k")
        change(home, ('model = "m"', 'model = "m2"'), ("window = 100000", "window = 50000"))
        assert daemon.cli("reload").returncode == 0
        # Nobody touches it.
        person.wait_on_screen("of 50k")
        person.wait_on_screen("ada · m2 · mode ask")
        change(home, ("window = 50000", "window = 25000"), ('mode = "ask"', 'mode = "plan"'))
        assert daemon.cli("reload").returncode == 0
        person.wait_on_screen("of 25k")
        person.wait_on_screen("mode plan")
        leave(person)
