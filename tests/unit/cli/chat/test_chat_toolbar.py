"""The toolbar of the chat in wide and narrow terminals."""

import pytest

from moot.cli.chat.toolbar import render_toolbar
from moot.cli.render import sanitize

FACTS = ("writer", "smollm2", "1.2k tokens", "$0.0012", "", "waiting for you")
KEYS = ("@ brings a guest", "/help", "Ctrl-D leaves")
SPARE = ("$0.0012", "1.2k tokens", "smollm2")


def test_with_room_everything_stands_there() -> None:
    assert render_toolbar(FACTS, KEYS, 120, spare=SPARE) == (
        " writer · smollm2 · 1.2k tokens · $0.0012 · waiting for you   @ brings a guest · /help · Ctrl-D leaves"
    )


def test_without_room_hints_go_first_and_then_what_is_spare() -> None:
    assert (
        render_toolbar(FACTS[:3], KEYS, 60, spare=SPARE[1:])
        == " writer · smollm2 · 1.2k tokens   /help · Ctrl-D leaves"
    )
    assert render_toolbar(FACTS, KEYS, 60, spare=SPARE) == " writer · smollm2 · waiting for you   Ctrl-D leaves"
    assert render_toolbar(FACTS, KEYS, 44, spare=SPARE) == " writer · waiting for you   Ctrl-D leaves"


@pytest.mark.parametrize("width", range(18, 130))
def test_how_to_leave_is_in_sight_at_any_width(width: int) -> None:
    shown = render_toolbar(FACTS, KEYS, width, spare=SPARE)

    assert shown.endswith("Ctrl-D leaves")
    assert sanitize.columns(shown) <= width
