"""How the rows of a chat are erased, so that no copies of them stay in the terminal's scrollback. Used by screen.py."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Self, cast

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_DOWN, _ERASE_BELOW, _ERASE_REST = "\x1b[B\r", "\x1b[J", "\x1b[K"


class TerminalOutput(Vt100_Output):
    """The terminal of a chat. Its size is the one for which everything was drawn, until it is read again."""

    _drawn_for: Size | None = None

    @classmethod
    def open(cls) -> Self:
        """The terminal on stdout."""
        opened = cls.from_pty(sys.stdout, term=os.environ.get("TERM"), default_color_depth=ColorDepth.from_env())
        return cast(Self, opened)

    @property
    def responds_to_cpr(self) -> bool:
        """Never ask for the position of the cursor: with the answer, empty rows down to the last would be drawn."""
        return False

    def get_size(self) -> Size:
        if self._drawn_for is None:
            self._drawn_for = super().get_size()
        return self._drawn_for

    def read_size(self) -> bool:
        """Read the size again. Return whether it has changed."""
        before, self._drawn_for = self._drawn_for, super().get_size()
        return before != self._drawn_for

    def erase_down(self) -> None:
        """Erase the rows below, then this one: tmux puts what is erased from the top left corner in its scrollback."""
        self.write_raw(f"{_SAVE}{_DOWN}{_ERASE_BELOW}{_RESTORE}{_ERASE_REST}")


class ChatApplication(Application[None]):
    """Erases what is drawn also where the terminal has wrapped it again because its window is narrower."""

    def __init__(self, terminal: TerminalOutput, **options: Any) -> None:
        super().__init__(output=terminal, **options)
        self._terminal = terminal
        # A signal tells of another size, but something may be drawn before it is handled.
        self.before_render += lambda _: self.follow_size()

    def follow_size(self) -> None:
        """Draw again if the window has another size; the next rows would be drawn at the wrong place."""
        if not self._terminal.read_size():
            return
        drawn = self.renderer.last_rendered_screen
        if drawn is not None and wraps_again():
            cursor = drawn.get_cursor_position(self.layout.current_window)
            self._terminal.cursor_up(count_added_rows(drawn, cursor, self._terminal.get_size().columns))
        super()._on_resize()

    def _on_resize(self) -> None:
        self.follow_size()


def wraps_again(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal is known to wrap rows again. Elsewhere, rows above what is drawn could be erased."""
    return bool(environment.get("TMUX"))


def count_added_rows(drawn: Screen, cursor: Point, columns: int) -> int:
    """By how many rows the cursor moves down relative to the first row when all are wrapped at so many columns."""
    widths = [_measure(drawn, row) for row in range(cursor.y)]
    return sum(max(0, width - 1) // columns for width in widths) + cursor.x // columns


def _measure(drawn: Screen, row: int) -> int:
    return max((at + cell.width for at, cell in drawn.data_buffer[row].items() if cell.char.strip()), default=0)
