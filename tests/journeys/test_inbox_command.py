"""Approvals at the terminal: in `moot ask` and from the inbox, with a real daemon behind them."""

import json
import re

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
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


def waiting(daemon: LiveDaemon, sender: str) -> list[dict[str, object]]:
    return [ask for ask in daemon.cli_json("inbox")["data"] if ask["sender"] == sender]


def ask_and_wait(daemon: LiveDaemon, sender: str) -> str:
    """Let a run wait for an approval; its id."""
    asked = daemon.cli("ask", "ada", "name it now", "--as", sender, "--json")
    assert asked.returncode == 3, asked.stderr
    document = json.loads(asked.stdout)
    (ask,) = waiting(daemon, sender)
    assert ask["ask_id"] == document["data"]["approvals"][0]["ask_id"]
    return str(ask["ask_id"])


def outcome(daemon: LiveDaemon, sender: str) -> str:
    """The reply once the run has ended."""
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_for("ada › Came of it:")
        person.type(CONTROL_D)
        person.wait_for_exit()
    found = re.search(r"ada › (Came of it:.*)", person.seen)
    assert found is not None
    return found[1]


def decide_in_ask(person: Terminal, typed: str) -> None:
    person.wait_for("set_title waits for your approval")
    person.wait_for("always writes the rule: allow set_title: exactly these arguments")
    person.wait_for("o/r/c/a/d ›")
    person.type(typed)


@pytest.mark.parametrize(
    ("key", "said", "code"), [("o", "The title is now", 0), ("once", "The title is now", 0), ("d", "owner denied", 4)]
)
def test_ask_at_a_terminal_puts_the_approval_in_place(
    daemon: LiveDaemon, sender: str, key: str, said: str, code: int
) -> None:
    with terminal(daemon.home, "ask", "ada", "name it now", "--as", sender) as person:
        decide_in_ask(person, key + "\n")
        person.wait_for(said)
        assert person.wait_for_exit() == code
    assert waiting(daemon, sender) == []


def test_what_is_no_decision_decides_nothing_and_leaving_keeps_the_run_waiting(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "ask", "ada", "name it now", "--as", sender) as person:
        decide_in_ask(person, "yes please\n")
        person.wait_for("o, r, c, a or d ›")
        person.type(CONTROL_D)
        person.wait_for("moot inbox approve ask-")
        assert person.wait_for_exit() == 3

    (ask,) = waiting(daemon, sender)
    # The id that is shown can be typed; the whole one and the beginning of each are understood too.
    short, whole = str(ask["short_id"]), str(ask["ask_id"])
    assert (ask["kind"], len(short)) == ("approval", 10)
    assert f"moot inbox approve {short}" in " ".join(person.seen.split())
    assert short in daemon.cli("inbox").stdout
    for name in (short, short[:-2], whole, whole[:-1]):
        assert daemon.cli_json("inbox", "show", name)["data"]["ask_id"] == whole
    assert daemon.cli("inbox", "deny", short).returncode == 0
    assert "owner denied" in outcome(daemon, sender)


def test_always_in_ask_writes_the_rule_it_showed_and_is_not_asked_again(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "ask", "ada", "name it now", "--as", sender) as person:
        decide_in_ask(person, "a\n")
        person.wait_for("The title is now")
        assert person.wait_for_exit() == 0
    assert daemon.cli("ask", "ada", "name it again", "--as", sender).returncode == 0

    (rule,) = [rule for rule in daemon.cli_json("rules")["data"] if rule["sender"] == sender]
    assert daemon.cli("rules", "rm", str(rule["number"])).returncode == 0
    assert daemon.cli("rules", "rm", str(rule["number"])).returncode == 6
    ask_id = ask_and_wait(daemon, sender)
    assert daemon.cli("inbox", "deny", ask_id).returncode == 0


def test_the_inbox_approves_once_and_a_second_answer_finds_nothing(daemon: LiveDaemon, sender: str) -> None:
    ask_id = ask_and_wait(daemon, sender)

    shown = daemon.cli("inbox", "show", ask_id)
    stale = daemon.cli("inbox", "approve", ask_id, "--attempt", "9")
    words = daemon.cli("inbox", "reply", ask_id, "yes")
    approved = daemon.cli("inbox", "approve", ask_id, "--attempt", "1")
    again = daemon.cli("inbox", "approve", ask_id, "--attempt", "1")

    assert "The lighthouse" in shown.stdout
    assert (stale.returncode, words.returncode) == (1, 2)
    assert (approved.returncode, again.returncode) == (0, 6)
    assert "The title is now: The lighthouse" in outcome(daemon, sender)


def test_the_beginning_that_all_ids_share_decides_nothing(home: Home) -> None:
    home.write_config(CONFIG)
    with daemon_thread(home) as daemon:
        ask_id = ask_and_wait(daemon, "tg:1")
        for start in ("a", "ask-", ask_id[: len("ask-run-")]):
            refused = daemon.cli("inbox", "deny", start)
            assert refused.returncode == 2
            assert f"every id begins with '{start}'" in refused.stderr
        assert len(waiting(daemon, "tg:1")) == 1
        assert daemon.cli("inbox", "deny", ask_id[: len("ask-run-") + 8]).returncode == 0


def test_a_line_typed_before_the_call_was_shown_does_not_allow_it(daemon: LiveDaemon, sender: str) -> None:
    ask_id = ask_and_wait(daemon, sender)
    with terminal(daemon.home, "inbox", "approve", ask_id) as person:
        person.type("y\n")
        person.wait_for("Allow it?")
        person.type("n\n")
        assert person.wait_for_exit() == 130
    assert [ask["ask_id"] for ask in waiting(daemon, sender)] == [ask_id]
    assert daemon.cli("inbox", "deny", ask_id).returncode == 0


def test_always_from_the_inbox_asks_before_it_writes(daemon: LiveDaemon, sender: str) -> None:
    ask_id = ask_and_wait(daemon, sender)
    refused = daemon.cli("inbox", "approve", ask_id, "--attempt", "1", "--always")

    with terminal(daemon.home, "inbox", "approve", ask_id, "--attempt", "1", "--always") as person:
        person.wait_for("This writes the rule: allow set_title: exactly these arguments")
        person.wait_for("Write it?")
        person.type("n\n")
        assert person.wait_for_exit() == 130
    unchanged = waiting(daemon, sender)
    with terminal(daemon.home, "inbox", "approve", ask_id, "--attempt", "1", "--always") as person:
        person.wait_for("Write it?")
        person.type("y\n")
        person.wait_for("Allowed from now on")
        assert person.wait_for_exit() == 0

    assert refused.returncode == 2
    assert len(unchanged) == 1
    assert "The title is now" in outcome(daemon, sender)


def test_the_hook_chain_counts_what_it_did(daemon: LiveDaemon, sender: str) -> None:
    ask_id = ask_and_wait(daemon, sender)
    daemon.cli("inbox", "deny", ask_id)
    outcome(daemon, sender)

    chain = daemon.cli_json("agent", "hooks")["data"]
    gate = next(hook for hook in chain if hook["name"] == "ApprovalGate")

    assert gate["enabled"] is True
    assert gate["counts"]["asked"] >= 1
    assert gate["counts"]["denied"] >= 1


def test_the_hook_chain_is_shown_in_the_order_in_which_it_acts(home: Home) -> None:
    home.write_config((home.path / "config.toml").read_text() + "\n[knowledge]\nenabled = true\n")
    with daemon_thread(home) as daemon:
        names = [hook["name"] for hook in daemon.cli_json("agent", "hooks")["data"]]
    before = ["SecurityFilter", "AccessControl", "ApprovalGate"]
    assert names == [*before, "LearningObserver", "KnowledgeSaver", "EventPublisher"]
