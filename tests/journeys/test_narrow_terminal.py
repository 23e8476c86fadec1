"""At eighty columns nothing that is to be judged is cut without a word, and no word is broken."""

import json

import pytest

from moot.domain.ids import shorten_ask_id
from tests.daemon_process import CONFIG as PLAIN
from tests.daemon_process import Home, LiveDaemon, call_cli, run_cli
from tests.daemon_thread import daemon_thread
from tests.scripting import call, say, script
from tests.terminal import terminal

CONFIG = PLAIN
OPTIONS = "--with --many --options --that --make --it --longer --than --a --row"
ENDLESS = "--again " * 32
FAILURE = (
    "The server of the model is not there: " + "it was looked for everywhere and in vain, " * 5 + "and that was all"
)
QUESTION = {
    "question": "Which colour should the roof of the house at the end of the street have this summer?",
    "options": [
        {"label": "Red", "description": "A warm colour that most of the houses in this street already have"},
        {"label": "Blue", "description": "A cold colour that none of the houses in this street have until now"},
    ],
}
SCRIPT = script(
    {"match": "^fail", "error": FAILURE},
    {"match": "^one", "steps": [call("exec", command=f"make {OPTIONS} --one"), say("Done.")]},
    {"match": "^two", "steps": [call("exec", command=f"make {OPTIONS} --two"), say("Done.")]},
    {"match": "^endless", "steps": [call("exec", command=f"make {ENDLESS}--last"), say("Done.")]},
    {"match": "^which", "steps": [call("ask_user", questions=[QUESTION]), say("Done.")]},
    {"match": "^costly", "reply": "Done.", "usage": {"prompt": 12400, "completion": 60}},
    {"reply": "You said: {user}"},
)


def at_eighty(daemon: LiveDaemon, *arguments: str, columns: int = 80) -> list[str]:
    with terminal(daemon.home, *arguments, columns=columns) as person:
        person.wait_for_exit()
    found = person.rows.text.split("\n")
    # The terminal breaks nothing but a word that is longer than a row and stands alone, so that it can be copied.
    assert all(len(row.split()) == 1 for row in found if len(row) == columns and row[-1] != "…"), person.rows.text
    return found


def asked(daemon: LiveDaemon, sender: str, *messages: str) -> list[str]:
    """Ask in conversations of their own, each of which then waits for an approval; their ids."""
    for number, message in enumerate(messages):
        assert run_cli(daemon.home, "ask", "ada", message, "--as", f"{sender}-{number}").returncode == 3
    listed = json.loads(call_cli(daemon.home, "inbox", "--json").stdout)["data"]
    return [str(ask["ask_id"]) for ask in listed if str(ask["sender"]).startswith(f"{sender}-")]


def settle(daemon: LiveDaemon, *ask_ids: str) -> None:
    for ask_id in ask_ids:
        call_cli(daemon.home, "inbox", "deny", ask_id)


def test_two_approvals_that_differ_look_different_and_say_where_they_run(daemon: LiveDaemon) -> None:
    ask_ids = asked(daemon, "lists", "one", "two", "endless")
    try:
        rows = [row.strip() for row in at_eighty(daemon, "inbox")]
        assert any(row.endswith("--one") for row in rows)
        assert any(row.endswith("--two") for row in rows)
        assert sum(row.startswith("in /") for row in rows) == 3
        # What is cut says how much is missing, and its end is there.
        assert " more … " in " ".join(rows)
        assert any(row.endswith("--last") for row in rows)
    finally:
        settle(daemon, *ask_ids)


@pytest.mark.parametrize("arguments", [["inbox", "show"], ["status"]])
def test_what_is_asked_is_broken_between_words(daemon: LiveDaemon, arguments: list[str]) -> None:
    (ask_id,) = asked(daemon, "words", "one")
    try:
        named = [ask_id] if arguments[0] == "inbox" else []
        told = " ".join(" ".join(at_eighty(daemon, *arguments, *named)).split())
        assert f"make {OPTIONS} --one" in told
        if named:
            assert "can write only in the working directory and /tmp." in told
        else:
            assert f"moot inbox approve {shorten_ask_id(ask_id)}" in told
            assert ask_id not in told
    finally:
        settle(daemon, ask_id)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_question_is_broken_between_words(daemon: LiveDaemon, columns: int) -> None:
    arguments = ("ask", "ada", "which", "--as", f"which-{columns}")
    with terminal(daemon.home, *arguments, columns=columns) as person:
        person.wait_for("answer ›")
        rows = person.rows.text.split("\n")
        person.enter("2")
        assert person.wait_for_exit() == 0
    assert max(map(len, rows)) < columns
    assert str(QUESTION["question"]) in " ".join(" ".join(rows).split())


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("command", [("cron",), ("goals", "translator")])
def test_what_an_empty_list_says_is_broken_between_words(
    daemon: LiveDaemon, command: tuple[str, ...], columns: int
) -> None:
    rows = at_eighty(daemon, *command, columns=columns)
    assert rows[0].startswith("No ")
    assert max(map(len, rows)) < columns


def test_the_command_that_starts_something_is_shown_whole(home: Home) -> None:
    with daemon_thread(home), terminal(home, "ps", columns=60, MOOT_DEV="./dev moot") as person:
        person.wait_for_exit()
    assert './dev moot run --bg "TASK"' in person.rows.text.replace("`", "").split("\n")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_warning_before_a_deletion_is_broken_between_words(daemon: LiveDaemon, columns: int) -> None:
    with terminal(daemon.home, "graph", "clear", columns=columns) as person:
        person.wait_for("Delete it?")
        assert max(map(len, person.rows.text.split("\n"))) < columns
        person.enter("n")
        person.wait_for_exit()


def test_a_rule_is_never_cut_and_says_whose_it_is(daemon: LiveDaemon) -> None:
    (ask_id,) = asked(daemon, "rules", "one")
    assert call_cli(daemon.home, "inbox", "approve", ask_id, "--attempt", "1", "--always", "--yes").returncode == 0
    rows = at_eighty(daemon, "rules")
    told = " ".join(" ".join(rows).split())
    assert f"allow exec: make {OPTIONS} --one in /" in told
    assert "for ada as rules-0 · made 2" in told
    assert "…" not in told


def test_the_doctor_keeps_its_columns(daemon: LiveDaemon) -> None:
    rows = [row for row in at_eighty(daemon, "doctor") if row]
    marks = [row for row in rows if row[0] in "✓·!✗"]
    assert len(marks) > 5
    # Where a row is broken it goes on under its beginning; what the terminal itself has broken is not ours.
    below = [row for above, row in zip(rows, rows[1:-1], strict=False) if row[0] not in "✓·!✗" and len(above) < 80]
    assert below
    assert all(row.startswith(" " * 15) for row in below)


def test_the_result_of_a_run_and_the_problems_of_models_are_wrapped_between_words(daemon: LiveDaemon) -> None:
    text = "word " * 60
    run_id = json.loads(call_cli(daemon.home, "run", text, "--agent", "ada", "--json").stdout)["data"]["run_id"]
    shown = at_eighty(daemon, "show", run_id)
    assert sum(row.startswith(("word ", "You said: word ")) for row in shown) >= 8
    listed = at_eighty(daemon, "models")
    assert any(row.startswith("qwen ") and row.endswith(" not ready") for row in listed)
    assert any(row.startswith("qwen: The model 'qwen' is not downloaded yet") for row in listed)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_list_of_runs_and_the_status_fit_the_window(daemon: LiveDaemon, columns: int) -> None:
    ask_ids = asked(daemon, f"fits{columns}", "one")
    try:
        head = at_eighty(daemon, "ps", columns=columns)[0].split()
        assert head == ["WHO", "RUN", "STATE", "TIME", *(["STEPS", "TOKENS"] if columns > 60 else []), "COST"]
        for command in (("status",), ("usage",), ("conversations",), ("tokens", "list")):
            at_eighty(daemon, *command, columns=columns)
    finally:
        settle(daemon, *ask_ids)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_lists_of_turns_and_their_errors_fit_and_break_between_words(daemon: LiveDaemon, columns: int) -> None:
    sender = f"narrow-{columns}"
    failed = run_cli(daemon.home, "ask", "ada", "fail", "--as", sender)
    assert failed.returncode == 1, failed.stderr
    assert run_cli(daemon.home, "ask", "ada", "costly", "--as", sender).returncode == 0
    (ask_id,) = asked(daemon, sender, "one")
    try:
        history = at_eighty(daemon, "history", "ada", "--as", sender, columns=columns)
        assert max(map(len, history)) < columns
        assert FAILURE in " ".join(" ".join(history).split())
        for arguments in (["trace"], ["status"], ["conversations"], ["digest", "ada", "--as", sender]):
            rows = at_eighty(daemon, *arguments, columns=columns)
            assert max(map(len, rows)) <= columns
        listed = " ".join(at_eighty(daemon, "conversations", columns=columns))
        # In a table the names are in columns of their own.
        assert "ada as narrow" in listed or columns > 60
        assert f"ada as {sender}-0 waits for an approval:" in " ".join(at_eighty(daemon, "status", columns=columns))
    finally:
        settle(daemon, ask_id)
