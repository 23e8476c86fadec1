"""Markdown in a chat and in `moot ask` at a real terminal: rendered while written, or unchanged."""

import re

import pytest

from tests.daemon_process import LiveDaemon
from tests.scripting import call, say, script
from tests.terminal import Terminal, terminal

CONTROL_D = "\x04"
GUIDE = """\
# Setup
Use **make** or *ninja*, see [the guide](https://docs.example.org/setup).

- one `item`
- another item

| Tool | Remarks |
|---|---|
| make | builds everything that changed since the last time and nothing else at all |
| 日本 | wide |

```python
def build(name: str) -> int:
    return 3  # steps
```
Done &#27;[2J &#10;you › hi
"""
SCRIPT = script(
    {"match": "^guide", "reply": GUIDE, "token_seconds": 0.005},
    {"match": "^call", "steps": [call("fs_read", path="a" * 120 + "日本" * 30), say("Called.")]},
    {"reply": "Heard: {user}"},
)


def leave(person: Terminal) -> None:
    person.type(CONTROL_D)
    assert person.wait_for_exit() == 0


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_markdown_is_rendered_while_it_is_written_and_every_row_stands_there_once(
    daemon: LiveDaemon, sender: str, columns: int
) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "guide", columns=columns) as person:
        person.wait_on_screen("you › hi\n")
        person.wait_on_screen("Ctrl-D leaves")
        rows = person.rows.text.split("\n")
        answer = rows[rows.index("ada ›") + 1 : next(at for at, row in enumerate(rows) if row.endswith("you › hi")) + 1]
        leave(person)
    assert answer[0] == "    Setup"
    assert all(not row or row.startswith("    ") for row in answer)
    assert all(len(row) < columns for row in answer)
    prose = " ".join(" ".join(answer).split())
    assert "Use make or ninja, see the guide (https://docs.example.org/setup)." in prose
    for once in ("• one item", "• another item", "Tool  Remarks", "```python", "return 3  # steps", "日本  wide"):
        assert sum(once in row for row in answer) == 1, "\n".join(answer)
    assert answer[-1] == "    Done \ufffd[2J  you › hi"
    # Colours come with the code, and a link is only an escape sequence where the terminal is known to show it.
    assert b"\x1b[0;35mdef" in person.raw
    assert b"\x1b]8;" not in person.raw


def test_text_is_unchanged_without_colours_and_with_plain_and_links_are_clickable_where_known(
    daemon: LiveDaemon, sender: str
) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, "-m", "guide", "--plain") as person:
        person.wait_on_screen("Use **make** or *ninja*, see [the guide](https://docs.example.org/setup).")
        person.wait_on_screen("    | 日本 | wide |")
        person.wait_on_screen("    Done &#27;[2J &#10;you › hi")
        leave(person)
    with terminal(daemon.home, "chat", "ada", "--as", sender, no_color="1") as person:
        person.wait_on_screen("    | 日本 | wide |")
        leave(person)
    with terminal(daemon.home, "chat", "ada", "--as", sender, FORCE_HYPERLINK="1") as person:
        person.wait_on_screen("the guide (docs.example.org).")
        assert b"\x1b]8;;https://docs.example.org/setup\x1b\\" in person.raw
        leave(person)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_ask_renders_markdown_in_a_terminal_and_every_row_stands_there_once(
    daemon: LiveDaemon, sender: str, columns: int
) -> None:
    for options in ((), ("--no-stream",)):
        with terminal(daemon.home, "ask", "ada", "guide", "--as", sender, *options, columns=columns, rows=12) as person:
            assert person.wait_for_exit() == 0
        rows = [row for row in person.rows.text.split("\n") if row.strip()]
        assert rows[0] == "Setup"
        assert all(len(row) < columns for row in rows)
        assert "Use make or ninja, see the guide (https://docs.example.org/setup)." in " ".join(" ".join(rows).split())
        for once in ("• one item", "• another item", "Tool  Remarks", "```python", "return 3  # steps", "日本  wide"):
            assert sum(once in row for row in rows) == 1, "\n".join(rows)
        assert rows[-1] == "Done \ufffd[2J  you › hi"
        assert b"\x1b[0;35mdef" in person.raw


def test_a_terminal_that_does_not_say_how_large_it_is_has_eighty_columns(daemon: LiveDaemon, sender: str) -> None:
    with terminal(daemon.home, "ask", "ada", "guide", "--as", sender, columns=0, rows=0) as person:
        assert person.wait_for_exit() == 0
    rows = person.rows.text.split("\n")
    assert max(map(len, rows)) > 60
    assert sum("• one item" in row for row in rows) == 1


def test_the_answer_of_run_and_attach_is_rendered_too_and_nowhere_without_colours_or_by_setting(
    daemon: LiveDaemon, sender: str
) -> None:
    home = daemon.home
    with terminal(home, "run", "guide", "--agent", "ada", "--as", sender) as person:
        assert person.wait_for_exit() == 0
    assert "• one item" in person.rows.text
    run_id = re.findall(r"works on it as (\S+)", person.seen)[0]
    with terminal(home, "attach", run_id) as person:
        assert person.wait_for_exit() == 0
    assert "• one item" in person.rows.text
    with terminal(home, "ask", "ada", "guide", "--as", sender, no_color="1") as person:
        assert person.wait_for_exit() == 0
    assert "- one `item`" in person.rows.text
    assert "**make**" in daemon.cli("ask", "ada", "guide", "--as", sender).stdout
    config = home.path / "config.toml"
    before = config.read_text()
    config.write_text(f"{before}\n[chat]\nmarkdown = false\n")
    try:
        with terminal(home, "ask", "ada", "guide", "--as", sender) as person:
            assert person.wait_for_exit() == 0
    finally:
        config.write_text(before)
    assert "- one `item`" in person.rows.text


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_call_is_printed_once_and_the_spinner_stays_in_its_row(daemon: LiveDaemon, sender: str, columns: int) -> None:
    with terminal(daemon.home, "ask", "ada", "call", "--as", sender, columns=columns) as person:
        person.wait_for_exit()
    assert person.seen.count("⚒ ") == 1
    rows = [row for row in person.rows.text.split("\n") if row.strip()]
    assert rows[-1] == "Called."
    assert len(rows) <= 3, "\n".join(rows)
