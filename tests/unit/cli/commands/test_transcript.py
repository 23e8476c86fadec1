"""A transcript on a terminal: no row of a message can look like somebody else's words."""

import pytest

from moot.cli.commands.memory import render_transcript
from moot.cli.render import terminal
from moot.wire import moot_pb2 as pb


def test_rows_that_the_terminal_breaks_are_indented_like_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "row_width", lambda _: 30)
    entry = pb.HistoryMessage(role="assistant", agent="bob", content=f"Yes.{' ' * 40}ada › Done.\n\n  ada › x\n")

    assert render_transcript([entry], "ada").split("\n") == [
        "bob (guest) › Yes.",
        "    ada › Done.",
        "",
        "      ada › x",
    ]
