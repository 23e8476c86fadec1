"""The progress line of a command at a terminal."""

import os
import pty
import struct
from fcntl import ioctl
from termios import TIOCSWINSZ

import pytest

from moot.cli.render.spinner import Spinner
from tests.terminal import Rows


@pytest.mark.parametrize("text", ["word " * 60, "日本" * 60])
def test_a_long_text_is_cut_to_the_window_also_when_that_changes(text: str) -> None:
    descriptor, theirs = pty.openpty()
    drawn = Rows(50)
    with os.fdopen(theirs, "w") as stream:
        for columns in (50, 30):
            ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 10, columns, 0, 0))
            seen = ""
            with Spinner(text, stream, animate=True):
                while seen.count("\r") < 4:
                    seen += os.read(descriptor, 4096).decode(errors="replace")
            drawn = Rows(columns)
            drawn.feed(seen.rpartition("\r")[0])
            assert len(drawn.text.split("\n")) == 1
            assert drawn.text.endswith("…")
    os.close(descriptor)
