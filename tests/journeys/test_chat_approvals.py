"""Approvals in the chat at a real terminal: deciding is deliberate, and an ordinary message decides nothing."""

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, run_cli
from tests.terminal import Terminal, terminal

CONFIG = (
    PLAIN
    + """
[security.interceptor]
sensitive_tools = ["set_title"]
"""
)

SCRIPT = """
[[rule]]
match = "name it (?P<title>\\\\w+)"
calls = [{ name = "set_title", arguments = { title = "The lighthouse" } }]
after_tool = "Came of it: {result}"

[[rule]]
reply = "Heard: {user}"
"""

CONTROL_D = "\x04"
KEYS = "o once · r run · c conversation · a always · d deny, then Enter"


def waiting(daemon: LiveDaemon, sender: str) -> list[str]:
    return [str(ask["ask_id"]) for ask in daemon.cli_json("inbox")["data"] if ask["sender"] == sender]


def leave(person: Terminal) -> None:
    person.type(CONTROL_D)
    assert person.wait_for_exit() == 0


def test_a_letter_and_enter_decide_and_the_chat_says_what_was_decided(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "name it now") as person:
        person.wait_for("⚠ set_title waits for you")
        person.wait_on_screen(KEYS)
        person.wait_on_screen("waiting for you")
        person.enter("o")
        person.wait_for("✓ allowed once")
        person.wait_for("ada › Came of it: The title is now")
        person.enter("name it again")
        person.wait_for("⚠ set_title waits for you")
        person.wait_on_screen(KEYS)
        person.enter("deny")
        person.wait_for("✗ denied")
        person.wait_for("owner denied")
        person.enter("o")
        person.wait_for("ada › Heard: o")
        leave(person)


@pytest.mark.parametrize(("columns", "letter"), [(60, "a"), (80, "c"), (120, "a")])
def test_rules_are_listed_and_removed_in_the_chat(daemon: LiveDaemon, sender: str, columns: int, letter: str) -> None:
    scope = {"a": "permanently", "c": "in this conversation"}[letter]
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "name it now", columns=columns) as person:
        person.wait_on_screen(KEYS[:20])
        person.enter("/rules")
        person.wait_for("no rules")
        person.enter(letter)
        if letter == "a":
            person.wait_on_screen("Enter again writes the rule")
            person.enter(letter)
        person.wait_for("ada › Came of it")
        (rule,) = [each for each in daemon.cli_json("rules")["data"] if each["sender"] == sender]
        before = len(person.seen)
        person.enter("/rules")
        person.wait_for("/rules rm NUMBER")
        assert " ".join(person.seen[before:].split()).count(scope) == 1
        person.enter("/rules rm 99999")
        person.wait_for("no rule 99999 of this conversation")
        person.enter(f"/rules rm {rule['number']}")
        person.wait_for(f"removed rule {rule['number']}")
        leave(person)
    assert [each for each in daemon.cli_json("rules")["data"] if each["sender"] == sender] == []


@pytest.mark.parametrize("words", ["oh no, stop", "run a command", "always ask me", "do nothing"])
def test_an_ordinary_message_is_queued_and_decides_nothing(daemon: LiveDaemon, sender: str, words: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "name it now") as person:
        person.wait_on_screen(KEYS)
        person.enter(words)
        person.wait_on_screen(f"{words}  (queued 1")
        person.wait_on_screen(KEYS)
        assert len(waiting(daemon, sender)) == 1
        person.enter("d")
        person.wait_for("✗ denied")
        person.wait_for(f"ada › Heard: {words}")
        leave(person)

    assert "allowed" not in person.seen


def test_always_is_said_twice_and_shows_the_rule_before_it_is_written(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "name it now") as person:
        person.wait_on_screen(KEYS)
        person.enter("a")
        person.wait_on_screen("a and Enter again writes the rule: allow")
        assert len(waiting(daemon, sender)) == 1
        person.enter("a")
        person.wait_for("✓ allowed from now on")
        person.wait_for("The title is now")
        person.enter("name it again")
        person.wait_for("ada › Came of it: The title is now")
        leave(person)


def test_a_line_that_was_begun_before_the_approval_is_a_message(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.type("o")
        person.wait_on_screen("› o")
        assert daemon.cli("ask", "ada", "name it now", "--as", sender).returncode == 3
        person.wait_on_screen(KEYS)
        person.type("\r")
        person.wait_for("you started typing before")
        person.wait_on_screen("o  (queued 1")
        assert len(waiting(daemon, sender)) == 1
        person.enter("d")
        person.wait_for("✗ denied")
        person.wait_for("ada › Heard: o")
        leave(person)


def test_a_decision_for_a_call_that_was_decided_elsewhere_is_not_sent_to_the_agent(
    daemon: LiveDaemon, sender: str
) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "name it now") as person:
        person.wait_on_screen(KEYS)
        person.type("o")
        person.wait_on_screen("› o")
        (ask_id,) = waiting(daemon, sender)
        assert daemon.cli("inbox", "deny", ask_id).returncode == 0
        person.wait_for("✗ denied")
        person.wait_for("owner denied")
        person.type("\r")
        person.wait_for("nothing was decided")
        person.enter("ordinary words")
        person.wait_for("ada › Heard: ordinary words")
        leave(person)

    assert "Heard: o\n" not in person.rows.text


def test_a_message_that_is_queued_behind_an_approval_is_shown_once_after_a_restart(home: Home) -> None:
    run_cli(home, "up")
    try:
        with terminal(home, "chat", "ada", "-m", "name it now") as person:
            person.wait_on_screen(KEYS)
            person.enter("queued one")
            person.wait_on_screen("queued one  (queued 1")
            assert run_cli(home, "down").returncode == 0
            person.wait_on_screen("connecting")
            assert run_cli(home, "up").returncode == 0
            person.wait_for("connected again")
            person.wait_on_screen(KEYS)
            person.enter("o")
            person.wait_for("ada › Heard: queued one")
            leave(person)
        assert person.rows.text.count("you › queued one") == 1, person.rows.text
    finally:
        run_cli(home, "down", "--now")
