"""Calls the person at the terminal when input is needed: a bell, and an OSC 9 notification. Used by screen.py."""

import os
from collections.abc import Callable, Mapping

from moot.cli.render import sanitize

# What `[chat] notify` can be.
NOTIFY_CHOICES = ("all", "bell", "off")
_LONG_SECONDS = 10.0
# Ask the terminal to report when its window gets or loses the focus.
FOCUS_ON, FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"


class Notifier:
    """Knows whether the person is looking, if the terminal reports it, and writes to the terminal."""

    def __init__(self, choice: str, write: Callable[[str], None], environment: Mapping[str, str] = os.environ) -> None:
        self._choice = choice
        self._write = write
        # The console of Linux would print the text of an unknown sequence.
        self._has_sequence = choice == "all" and environment.get("TERM") != "linux"
        # None until the terminal has reported it.
        self.is_focused: bool | None = None

    def on_ask(self, agent: str) -> None:
        """A run of this conversation waits for a person."""
        if self.is_focused is not True:
            self._notify(f"{sanitize.name(agent, 40)} needs you")

    def on_answer(self, agent: str, seconds: float) -> None:
        """A run has ended after this time."""
        if self.is_focused is False and seconds >= _LONG_SECONDS:
            self._notify(f"{sanitize.name(agent, 40)} has answered")

    def _notify(self, text: str) -> None:
        if self._choice == "off":
            return
        sequence = f"\x1b]9;moot: {text}\x1b\\" if self._has_sequence else ""
        self._write(f"{sequence}\a")
