"""The toolbar of the chat in wide and narrow terminals."""

import pytest

from moot.cli.chat.toolbar import ToolbarFacts, render_toolbar
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


FULL = ToolbarFacts(
    agent="writer",
    model="qwen2.5-coder",
    tokens=12_000,
    cost=0.0123,
    context_tokens=24_000,
    context_window=200_000,
    queued=1,
    asks=2,
    is_running=True,
)


def test_the_context_is_shown_as_long_as_there_is_room() -> None:
    assert FULL.render(128) == (
        " writer · qwen2.5-coder · context 12% of 200k tokens · 12.0k tokens in all · $0.0123 · 1 queued"
        " · 2 wait for you   Esc stops"
    )
    assert FULL.render(83) == " writer · qwen2.5-… · context 12% · $0.0123 · 1 queued · 2 wait for you   Esc stops"
    assert FULL.render(80) == " writer · context 12% · $0.0123 · 1 queued · 2 wait for you   Esc stops"
    assert FULL.render(62) == " writer · $0.0123 · 1 queued · 2 wait for you   Esc stops"


def test_cost_and_context_outlast_the_model_in_a_narrow_window() -> None:
    facts = ToolbarFacts(
        agent="writer",
        model="gpt-4.1-mini",
        mode="work",
        cost=0.0123,
        tokens=900,
        context_tokens=10,
        context_window=100,
    )
    assert facts.render(59) == " writer · mode work · context 10% · $0.0123   Ctrl-D leaves"
    assert facts.render(79) == " writer · gpt-4.1-mini · mode work · context 10% · $0.0123   Ctrl-D leaves"


def test_the_size_of_the_last_request_is_shown_where_nobody_knows_the_window() -> None:
    facts = ToolbarFacts(agent="moot", model="big-model", mode="work", context_tokens=5_800)
    assert facts.render(80).startswith(" moot · big-model · mode work · context 5.8k tokens ")
    assert facts.render(60) == " moot · big-model · mode work · context 5.8k   Ctrl-D leaves"


@pytest.mark.parametrize("width", range(20, 130))
def test_the_toolbar_fits_and_says_that_someone_waits(width: int) -> None:
    shown = FULL.render(width)
    assert sanitize.columns(shown) <= width
    assert shown.endswith("Esc stops")
    assert width < 50 or "2 wait for you" in shown
