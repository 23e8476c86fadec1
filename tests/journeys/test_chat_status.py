"""The toolbar and the notifications of a chat at a real terminal."""

import re
from typing import Any

import pytest

from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import LiveDaemon
from tests.scripting import call, made, say, script
from tests.terminal import Terminal, terminal

CONTROL_C, CONTROL_D, TAB, ENTER, UP = "\x03", "\x04", "\t", "\r", "\x1b[A"
FOCUSED, UNFOCUSED = "\x1b[I", "\x1b[O"
CALLED = b"\x1b]9;moot: ada needs you\x1b\\\x07"
NO_PROJECT = "[project]\ninstructions = false\n"
WIDE = '[models.wide]\nprovider = "scripted"\nscript = "script.toml"\nwindow = 50_000\n'
CONFIG = PLAIN.replace('script = "script.toml"\n', f'script = "script.toml"\nwindow = 1000\n{NO_PROJECT}{WIDE}')
QUESTION = {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}


def choice(*labels: str) -> dict[str, Any]:
    return {"question": "Which one?", "options": [{"label": label} for label in labels]}


# Each has words of its own, so that none is taken for another that is still on the screen.
SCRIPT = script(
    {"match": "^ask me again", "steps": [call("ask_user", questions=[choice("Oak", "Elm")]), say("Planted.")]},
    {"match": "^ask me once", "steps": [call("ask_user", questions=[choice("Cod", "Eel")]), say("Caught.")]},
    {"match": "^ask", "steps": [call("ask_user", questions=[QUESTION]), say("Chosen.")]},
    {"match": "^hang", "hang": True},
    {
        "match": "^read notes/Plan.md",
        "calls": [made("fs_read", path="notes/Plan.md")],
        "after_tool": "It says {result}",
    },
    {"reply": "word " * 150},
)


def leave(person: Terminal) -> None:
    person.type(CONTROL_D)
    assert person.wait_for_exit() == 0


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_toolbar_shows_model_context_queue_and_asks_in_one_row(
    daemon: LiveDaemon, sender: str, columns: int
) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=columns) as person:
        person.wait_on_screen("ada · scripted")
        person.enter("hello")
        person.wait_on_screen("context")
        person.enter("ask me")
        person.wait_on_screen("waiting for you")
        bar = person.rows.text.rstrip().split("\n")[-1]
        assert len(bar) < columns
        assert re.search(r"context [1-9]\d?%", bar)
        person.enter("1")
        person.wait_for("Chosen.")
        person.enter("hang")
        person.wait_on_screen("ada thinking")
        person.enter("later " * 30)
        person.wait_on_screen("(queued 1")
        person.wait_on_screen("1 queued")
        assert all(len(row) < columns for row in person.rows.text.split("\n"))
        person.enter("/withdraw")
        person.wait_for("withdrawn")
        person.type(CONTROL_C)
        person.wait_for("(cancelled")
        leave(person)
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=columns) as person:
        # The daemon knows it; no model has to be asked again.
        person.wait_on_screen("context")
        leave(person)


def test_the_context_meter_has_the_window_of_the_model_that_was_chosen(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "hello", columns=120) as person:
        person.wait_on_screen("of 1k")
        person.enter("/model wide")
        person.wait_on_screen("of 50k")
        leave(person)
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=120) as person:
        person.wait_on_screen("of 50k")
        person.enter("/model default")
        person.wait_on_screen("of 1k")
        leave(person)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_context_meter_follows_a_new_conversation_and_an_earlier_one(
    daemon: LiveDaemon, sender: str, columns: int
) -> None:
    size = re.compile(r"context (\d+)%")
    with (
        terminal(daemon.home, "chat", "ada", "--as", sender, columns=columns) as person,
        terminal(daemon.home, "chat", "ada", "--as", sender, columns=columns) as other,
    ):
        person.enter("hello")
        for each in (person, other):
            each.wait_on_screen("context")
        before = size.findall(person.rows.text)
        person.enter("/new")
        for each in (person, other):
            each.wait_off_screen("context")
        person.enter("/resume 1")
        for each in (person, other):
            each.wait_on_screen("context")
            assert size.findall(each.rows.text) == before
        leave(person)
        leave(other)


def test_a_person_is_called_once_for_an_ask_unless_the_window_has_the_focus(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "ask me") as person:
        person.wait_on_screen("2. Blue")
        person.wait_on_screen("waiting for you")
        assert person.raw.count(CALLED) == 1
        person.enter("1")
        person.wait_for("Chosen.")
        # What the terminal reports is no key: neither Esc, which would stop the run, nor text.
        person.type(FOCUSED)
        person.enter("ask me again")
        person.wait_for("2. Elm")
        person.type(UNFOCUSED)
        person.enter("2")
        person.wait_for("Planted.")
        assert person.raw.count(CALLED) == 1
        person.enter("ask me once more")
        person.wait_for("2. Eel")
        person.enter("2")
        person.wait_for("Caught.")
        assert person.raw.count(CALLED) == 2
        assert person.raw.count(b"\x1b[?1004h") == 1
        assert "[I" not in person.rows.text
        leave(person)
    assert person.raw.rindex(b"\x1b[?1004l") > person.raw.rindex(CALLED)


def test_a_path_is_completed_and_reaches_the_agent_as_a_path_it_can_read(daemon: LiveDaemon, sender: str) -> None:
    folder = daemon.home.path / "project"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "Plan.md").write_text("the lighthouse first")
    (folder / ".gitignore").write_text("hidden*\n")
    (folder / "hidden-plan.md").touch()
    with terminal(daemon.home, "chat", "ada", "--as", sender, "--cwd", str(folder), columns=80) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.type("read @pl")
        person.wait_on_screen("@notes/Plan.md")
        assert "hidden" not in person.rows.text
        person.type(TAB)
        person.wait_on_screen("› read @notes/Plan.md")
        person.type(ENTER)
        person.wait_for("you › read @notes/Plan.md")
        # The agent was given the path without the mark, and its tool has read the file.
        person.wait_for("the lighthouse first")
        leave(person)


def test_the_chat_changes_the_directory_in_which_the_agent_works(daemon: LiveDaemon, sender: str) -> None:
    for name, text in (("north", "the lighthouse first"), ("south", "the harbour first")):
        (daemon.home.path / name / "notes").mkdir(parents=True)
        (daemon.home.path / name / "notes" / "Plan.md").write_text(text)
    north = daemon.home.path / "north"
    with terminal(daemon.home, "chat", "ada", "--as", sender, "--cwd", str(north), columns=120) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("/cwd ../south")
        person.wait_for("/south")
        person.enter("read notes/Plan.md")
        person.wait_for("the harbour first")
        person.enter("/cwd")
        person.wait_for("/south")
        person.enter("/cwd nowhere")
        person.wait_for("nowhere")
        leave(person)
    assert "/south" in daemon.cli("cwd", "ada", "--as", sender).stdout


def test_a_withdrawn_message_leaves_the_input_line_empty_and_the_up_arrow_brings_it_back(
    daemon: LiveDaemon, sender: str
) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=80) as person:
        person.wait_on_screen("Ctrl-D leaves")
        person.enter("hang")
        person.wait_on_screen("ada thinking")
        person.enter("plant the oak")
        person.wait_on_screen("(queued 1")
        person.enter("/withdraw")
        person.wait_for("withdrawn: plant the oak")
        person.wait_on_screen("the up arrow brings its text back")
        assert "› plant the oak" not in person.rows.text
        person.type(UP)
        person.wait_on_screen("› plant the oak")
        # The first stops the run, the second clears the line.
        person.type(CONTROL_C)
        person.wait_for("(cancelled")
        person.type(CONTROL_C)
        person.wait_off_screen("› plant the oak")
        leave(person)
