"""The chat at a real terminal with a real daemon behind it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import fork_server
from tests.daemon_process import PATIENCE, Home, LiveDaemon, call_cli, run_cli
from tests.terminal import Terminal, terminal

ESCAPE, CONTROL_C, CONTROL_D, TAB = "\x1b", "\x03", "\x04", "\t"

SCRIPT = """
[[rule]]
match = "hang"
hang = true

[[rule]]
match = "half"
token_seconds = 0.02
reply = "First line.\\nThe second line goes on and on and on and on and on and on and on and on and on and on."

[[rule]]
match = "which colours"
calls = [{ name = "ask_user", arguments = { questions = [
  { question = "Which colours?", options = [{ label = "Red" }, { label = "Blue" }], multi_select = true },
  { question = "Why?" } ] } }]
after_tool = "Noted: {result}"

[[rule]]
match = "name it"
calls = [{ name = "set_title", arguments = { title = "The lighthouse" } }]
after_tool = "Named."

[[rule]]
match = "look it up"
calls = [{ name = "fs_read", arguments = { path = "nowhere.txt" } }]
after_tool = "It is not there."

[[rule]]
match = "think"
thinking = "Let me see."
reply = "Thought."

[[rule]]
match = "attack"
reply = "\\u001B[2J\\u001B]0;owned\\u0007\\u202Eend"

[[rule]]
match = "imitate"
reply = "Yes.\\nyou › delete it\\n  ⚒ exec rm -r\\n· a notice\\n\\nada › Done."

[[rule]]
agent = "bob"
reply = "Bob heard: {user}"

[[rule]]
reply = "Heard: {user}"
"""


def leave(person: Terminal) -> None:
    person.type(CONTROL_D)
    assert person.wait_for_exit() == 0


def test_a_conversation_streams_with_names_and_is_shown_again_when_reopened(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("Hello")
        person.wait_for("you › Hello")
        person.wait_for("ada › Heard: Hello")
        person.enter("@bob and you?")
        person.wait_for("you › @bob and you?")
        person.wait_for("bob (guest · text only) › Bob heard: and you?")
        leave(person)
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_for("you › Hello")
        person.wait_for("ada › Heard: Hello")
        person.wait_for("bob (guest · text only) › Bob heard: and you?")
        leave(person)


@pytest.mark.parametrize("key", [ESCAPE, CONTROL_C])
def test_escape_and_control_c_stop_the_run_and_not_the_chat(daemon: LiveDaemon, sender: str, key: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "hang") as person:
        person.wait_on_screen("ada thinking")
        person.type(key)
        person.wait_for("(cancelled")
        person.enter("still here?")
        person.wait_for("ada › Heard: still here?")
        leave(person)


def test_messages_typed_while_busy_queue_and_are_answered_in_order(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "hang") as person:
        person.wait_on_screen("ada thinking")
        person.enter("second")
        person.wait_on_screen("second  (queued 1")
        person.enter("third")
        person.wait_on_screen("third  (queued 2")
        person.type(ESCAPE)
        person.wait_for("(cancelled")
        person.wait_for("you › second")
        person.wait_for("ada › Heard: second")
        person.wait_for("you › third")
        person.wait_for("ada › Heard: third")
        leave(person)


def test_questions_are_answered_in_place_one_after_the_other(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "which colours") as person:
        person.wait_on_screen("2. Blue")
        person.wait_on_screen("waiting for you")
        person.enter("1,2")
        person.wait_for("you › Red, Blue")
        person.wait_on_screen("Why?")
        person.enter("they are warm and cold")
        person.wait_for('ada › Noted: {"Which colours?": "Red, Blue", "Why?": "they are warm and cold"}')
        leave(person)


def test_a_narrow_terminal_still_says_how_to_leave(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "Hello", columns=60) as person:
        person.wait_for("ada › Heard: Hello")
        person.wait_on_screen("ada · scripted · mode ask")
        person.wait_on_screen("Ctrl-D leaves")
        leave(person)


def test_thoughts_and_tools_are_a_line_each(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.enter("think")
        person.wait_for("∴ thought for 0s · Let me see.")
        person.wait_for("ada › Thought.")
        person.enter("name it")
        person.wait_for("⚒ title the conversation The lighthouse")
        person.wait_for("ada › Named.")
        person.enter("/title")
        person.wait_for("The lighthouse")
        leave(person)


def test_a_call_is_told_in_the_words_of_its_tool_in_the_chat_in_ask_and_in_the_history(
    daemon: LiveDaemon, sender: str
) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "look it up") as person:
        person.wait_for("⚒ read nowhere.txt ✗ ")
        person.wait_for("ada › It is not there.")
        leave(person)
    asked = daemon.cli("ask", "ada", "look it up", "--as", sender)
    history = daemon.cli("history", "ada", "--as", sender)

    assert "⚒ read nowhere.txt" in asked.stderr
    assert history.stdout.count("⚒ read nowhere.txt") == 2
    assert "fs_read" not in person.rows.text + asked.stderr + history.stdout


def test_what_a_model_says_cannot_reach_the_terminal_raw(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "attack") as person:
        person.wait_for("ada › ␛[2J␛]0;owned␇⟨U+202E⟩end")
        leave(person)

    assert b"\x1b[2J" not in person.raw
    assert b"\x1b]0;owned" not in person.raw
    assert "\u202e".encode() not in person.raw


def test_a_message_cannot_imitate_another_speaker_without_colours(daemon: LiveDaemon, sender: str) -> None:
    shown = ("ada › Yes.", "    you › delete it", "      ⚒ exec rm -r", "    · a notice", "    ada › Done.")
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "imitate", no_color="1") as person:
        # While it is said, and again as history.
        for line in shown:
            person.wait_for(line)
        leave(person)
    with terminal(daemon.home, "chat", "ada", "--as", sender, no_color="1") as person:
        for line in shown:
            person.wait_for(line)
        leave(person)
    assert all(line.startswith("    ") for line in person.seen.splitlines() if "delete it" in line or "Done." in line)


def test_commands_look_and_compact(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "The lighthouse is red") as person:
        person.wait_for("ada › Heard: The lighthouse is red")
        person.enter("/compact")
        person.wait_for("── compacted into archive 1")
        person.enter("/archives")
        person.wait_for("  1 ")
        person.enter("/recall lighthouse")
        person.wait_for("── archive 1")
        person.wait_for("you › The lighthouse is red")
        person.enter("/usage")
        person.wait_for("scripted  1 run,")
        person.enter("/agents")
        person.wait_for("bob of the tests")
        person.enter("/nonsense")
        person.wait_for("✗ unknown command /nonsense")
        person.enter("/title Our boats")
        person.wait_for("✗ /title stands alone: show the conversation's title")
        person.enter("/help")
        person.wait_for("/recall")
        person.enter("/quit")
        assert person.wait_for_exit() == 0


def test_a_compaction_from_elsewhere_is_told_in_an_open_chat_and_one_made_here_only_once(
    daemon: LiveDaemon, sender: str
) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "The lighthouse is red") as person:
        person.wait_for("ada › Heard: The lighthouse is red")
        person.wait_on_screen("Ctrl-D leaves")
        assert daemon.cli("compact", "ada", "--as", sender).returncode == 0
        person.wait_for("── compacted into archive 1")
        person.enter("more")
        person.wait_for("ada › Heard: more")
        person.enter("/compact")
        person.wait_for("── compacted into archive 2")
        person.enter("last")
        person.wait_for("ada › Heard: last")
        leave(person)

    for number in (1, 2):
        assert person.rows.text.count(f"compacted into archive {number}") == 1, person.rows.text


def test_tab_completes_commands_and_guests(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.type("/")
        person.wait_on_screen("/resume")
        person.type("usa")
        person.wait_on_screen("/usage")
        person.type(TAB + "\r")
        person.wait_for("no usage yet")
        person.type("@bo")
        person.wait_on_screen("@bob")
        person.type(TAB + "hi\r")
        person.wait_for("bob (guest · text only) › Bob heard: hi")
        leave(person)


def test_an_unknown_guest_is_one_error_and_the_words_come_back(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("@ghost boo")
        person.wait_for("✗")
        person.wait_on_screen("› @ghost boo")
        person.type(CONTROL_C)
        person.enter("hello")
        person.wait_for("ada › Heard: hello")
        leave(person)


def test_the_chat_joins_a_run_in_flight_from_its_start(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "which colours") as first:
        first.wait_on_screen("waiting for you")
        leave(first)
    with terminal(daemon.home, "chat", "ada", "--as", sender) as second:
        second.wait_for("you › which colours")
        second.wait_on_screen("1. Red")
        second.enter("1")
        second.wait_on_screen("Why?")
        second.enter("because")
        second.wait_for("ada › Noted")
        leave(second)


def test_a_chat_that_is_opened_again_shows_what_queued_and_its_answers(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "hang") as first:
        first.wait_on_screen("ada thinking")
        first.enter("second")
        first.wait_on_screen("second  (queued 1")
        first.enter("@bob third")
        first.wait_on_screen("third  (queued 2")
        leave(first)
    with terminal(daemon.home, "chat", "ada", "--as", sender) as again:
        again.wait_for("you › hang")
        again.wait_on_screen("2 queued")
        again.wait_on_screen("⋯ second  (queued 1)")
        again.wait_on_screen("ada thinking")
        again.type(ESCAPE)
        again.wait_for("(cancelled")
        again.wait_for("you › second")
        again.wait_for("ada › Heard: second")
        again.wait_for("you › third")
        again.wait_for("Bob heard: third")
        again.wait_on_screen("Ctrl-D leaves")
        leave(again)

    for words in ("you › second", "Heard: second", "you › third", "Bob heard: third"):
        assert again.rows.text.count(words) == 1, again.rows.text


def test_an_open_chat_shows_what_other_clients_say_and_are_answered(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "mine") as person:
        person.wait_for("ada › Heard: mine")
        for number in range(3):
            assert daemon.cli("ask", "ada", f"theirs {number}", "--as", sender).returncode == 0
            person.wait_for(f"you › theirs {number}")
            person.wait_for(f"ada › Heard: theirs {number}")
        person.enter("mine again")
        person.wait_for("ada › Heard: mine again")
        assert daemon.cli("ask", "ada", "half", "--as", sender).returncode == 0
        person.wait_for("you › half")
        person.wait_for("First line.")
        daemon.cli("ask", "bob", "in another conversation", "--as", sender)
        daemon.cli("ask", "ada", "of another sender", "--as", f"{sender}-2")
        person.enter("last")
        person.wait_for("ada › Heard: last")
        leave(person)

    seen = person.rows.text
    for words in ("you › mine\n", "Heard: mine\n", "theirs 0\n", "Heard: theirs 2", "First line.", "Heard: last"):
        assert seen.count(words) == (2 if words == "theirs 0\n" else 1), (words, seen)
    assert "another" not in seen


def test_a_question_that_is_raised_elsewhere_can_be_answered_in_an_open_chat(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen("Ctrl-D leaves")
        assert daemon.cli("ask", "ada", "which colours", "--as", sender).returncode == 3
        person.wait_for("you › which colours")
        person.wait_on_screen("2. Blue")
        person.enter("2")
        person.wait_on_screen("Why?")
        assert daemon.cli("reply", "ada", "--as", sender, "answered over there").returncode == 0
        person.wait_for("Which colours?")
        person.wait_for("you › answered over there")
        person.wait_for("ada › Noted")
        leave(person)


def test_a_message_behind_somebody_elses_run_waits_for_it_in_sight(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person, background(daemon, sender, "hang"):
        person.wait_for("you › hang")
        person.wait_on_screen("ada thinking")
        person.enter("mine")
        person.wait_on_screen("mine  (queued 1")
        with background(daemon, sender, "theirs"):
            person.wait_on_screen("⋯ theirs  (queued 2)")
            person.wait_on_screen("2 queued")
            person.type(ESCAPE)
            person.wait_for("(cancelled")
            person.wait_for("you › mine")
            person.wait_for("ada › Heard: mine")
            person.wait_for("you › theirs")
            person.wait_for("ada › Heard: theirs")
        leave(person)

    assert person.rows.text.count("Heard: mine") == 1


@contextmanager
def background(daemon: LiveDaemon, sender: str, text: str) -> Iterator[None]:
    """Another client that asks in the same conversation meanwhile."""
    process = fork_server.start(
        [sys.executable, "-m", "moot", "ask", "ada", text, "--as", sender],
        env=daemon.home.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.wait(PATIENCE)


def test_the_chat_outlives_a_restart_of_the_daemon(home: Home) -> None:
    run_cli(home, "up")
    try:
        with terminal(home, "chat", "ada", "-m", "hang") as person:
            person.wait_on_screen("ada thinking")
            assert run_cli(home, "down", "--now").returncode == 0
            person.wait_for("lost the connection to the daemon")
            assert run_cli(home, "up").returncode == 0
            person.wait_for("connected again")
            person.wait_for("(interrupted")
            person.enter("back again?")
            person.wait_for("ada › Heard: back again?")
            leave(person)
    finally:
        run_cli(home, "down", "--now")


def test_after_a_crash_a_queued_message_is_shown_once_and_gone_when_it_was_answered(home: Home) -> None:
    run_cli(home, "up")
    try:
        with terminal(home, "chat", "ada", "-m", "hang") as person:
            person.wait_on_screen("ada thinking")
            person.enter("second")
            person.wait_on_screen("second  (queued 1")
            os.kill(json.loads(call_cli(home, "status", "--json").stdout)["data"]["pid"], signal.SIGKILL)
            person.wait_for("lost the connection to the daemon")
            person.wait_on_screen("1 queued · connecting")
            assert run_cli(home, "up").returncode == 0
            person.wait_for("connected again")
            person.wait_for("(interrupted")
            person.wait_for("you › second")
            person.wait_for("ada › Heard: second")
            person.wait_off_screen("queued")
            person.wait_off_screen("connecting")
            leave(person)
        assert person.rows.text.count("Heard: second") == 1
    finally:
        run_cli(home, "down", "--now")


def test_after_a_crash_the_chat_says_how_the_run_of_another_client_ended(home: Home) -> None:
    run_cli(home, "up")
    try:
        with terminal(home, "chat", "ada") as person:
            person.wait_on_screen("Ctrl-D leaves")
            other = fork_server.start(
                [sys.executable, "-m", "moot", "ask", "ada", "hang"],
                env=home.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            person.wait_on_screen("ada thinking")
            os.kill(json.loads(call_cli(home, "status", "--json").stdout)["data"]["pid"], signal.SIGKILL)
            other.wait(PATIENCE)
            person.wait_for("lost the connection to the daemon")
            assert run_cli(home, "up").returncode == 0
            person.wait_for("connected again")
            person.wait_for("(interrupted")
            leave(person)
    finally:
        run_cli(home, "down", "--now")


def test_a_chat_that_is_connected_again_says_so_without_being_asked(home: Home) -> None:
    run_cli(home, "up")
    try:
        with terminal(home, "chat", "ada") as person:
            person.wait_on_screen("Ctrl-D leaves")
            assert run_cli(home, "down", "--now").returncode == 0
            person.wait_on_screen("connecting")
            assert run_cli(home, "up").returncode == 0
            person.wait_for("connected again")
            person.wait_off_screen("connecting")
            leave(person)
    finally:
        run_cli(home, "down", "--now")


def test_a_message_starts_a_daemon_that_is_gone(home: Home) -> None:
    try:
        with terminal(home, "chat", "ada") as person:
            person.wait_for("Started the daemon")
            person.wait_on_screen("Ctrl-D leaves")
            assert run_cli(home, "down").returncode == 0
            person.wait_for("lost the connection to the daemon")
            person.enter("are you there?")
            person.wait_for("started the daemon")
            person.wait_for("you › are you there?")
            person.wait_for("ada › Heard: are you there?")
            leave(person)
    finally:
        run_cli(home, "down", "--now")


def test_control_c_twice_leaves_when_nothing_runs(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.type(CONTROL_C)
        person.wait_on_screen("Ctrl-C again to leave")
        person.type(CONTROL_C)
        assert person.wait_for_exit() == 0


def test_without_a_terminal_the_chat_points_to_ask(daemon: LiveDaemon) -> None:
    done = daemon.cli("chat", "ada")

    assert done.returncode == 2
    assert "moot ask ada" in done.stderr


def test_an_unknown_agent_is_refused_before_anything_is_drawn(daemon: LiveDaemon) -> None:
    with terminal(daemon.home, "chat", "ghost") as person:
        person.wait_for("ghost")
        assert person.wait_for_exit() == 6


# ---- moot ask at a terminal ----


def test_ask_at_a_terminal_streams_and_asks_in_place(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "ask", "ada", "which colours", "--as", sender) as person:
        person.wait_for("2. Blue")
        person.wait_for("answer ›")
        person.type("2\n")
        person.wait_for("Why?")
        person.wait_for("answer ›")
        person.type("no reason\n")
        person.wait_for('Noted: {"Which colours?": "Blue", "Why?": "no reason"}')
        assert person.wait_for_exit() == 0


def test_leaving_a_question_with_control_d_keeps_the_run_waiting(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "ask", "ada", "which colours", "--as", sender) as person:
        person.wait_for("answer ›")
        person.type(CONTROL_D)
        person.wait_for("moot reply ada")
        assert person.wait_for_exit() == 3

    assert daemon.cli("kill", "ada", "--as", sender).returncode == 0


def test_ask_at_a_terminal_shows_control_characters_instead_of_obeying_them(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "ask", "ada", "attack", "--as", sender) as person:
        person.wait_for("␛[2J␛]0;owned␇⟨U+202E⟩end")
        assert person.wait_for_exit() == 0
    history = fork_server.run(
        [sys.executable, "-m", "moot", "history", "ada", "--as", sender],
        env=daemon.home.environment(),
        timeout=30,
        check=True,
    )

    assert b"\x1b[2J" not in person.raw
    assert "\x1b" not in history.stdout


def test_colours_are_for_terminals_that_want_them(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "ada", "Hello", "--as", sender)
    with terminal(daemon.home, "history", "ada", "--as", sender) as colourful:
        colourful.wait_for_exit()
    with terminal(daemon.home, "history", "ada", "--as", sender, no_color="1") as plain:
        plain.wait_for_exit()

    assert b"\x1b[32m" in colourful.raw
    assert b"\x1b" not in plain.raw
    assert "ada › Heard: Hello" in plain.seen
