"""When the chat calls a person, and with what."""

import pytest

from moot.cli.chat.notification import Notifier

CALL = "\x1b]9;moot: ada needs you\x1b\\\a"


def notifier(choice: str = "all", term: str = "xterm") -> tuple[Notifier, list[str]]:
    written: list[str] = []
    return Notifier(choice, written.append, {"TERM": term}), written


@pytest.mark.parametrize(
    ("choice", "term", "written"),
    [("all", "xterm", [CALL]), ("all", "linux", ["\a"]), ("bell", "xterm", ["\a"]), ("off", "xterm", [])],
)
def test_the_setting_and_the_terminal_decide_what_is_written(choice: str, term: str, written: list[str]) -> None:
    calls, shown = notifier(choice, term)
    calls.on_ask("ada")
    assert shown == written


def test_nobody_is_called_who_is_looking() -> None:
    calls, shown = notifier()
    calls.is_focused = True
    calls.on_ask("ada")
    calls.on_answer("ada", 60)
    assert shown == []
    calls.is_focused = False
    calls.on_answer("ada", 1)
    assert shown == []
    calls.on_answer("ada", 60)
    calls.on_ask("ada")
    assert shown == ["\x1b]9;moot: ada has answered\x1b\\\a", CALL]


def test_an_answer_calls_nobody_if_the_terminal_does_not_report_its_focus() -> None:
    calls, shown = notifier()
    calls.on_answer("ada", 60)
    assert shown == []


def test_a_name_cannot_end_the_sequence() -> None:
    calls, shown = notifier()
    calls.on_ask("a\x1b\\\x07b" * 20)
    assert shown[0].count("\x1b") == 2
    assert shown[0].count("\x07") == 1
