"""A progress line on stderr with elapsed time, drawn by a thread."""

import threading
import time
from types import TracebackType
from typing import TextIO

from moot.cli.render import sanitize, terminal

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BACK = "\r\x1b[K"
_INTERVAL = 0.1
# Without a terminal, print only occasionally.
_PLAIN_INTERVAL = 5.0


class Spinner:
    """On a terminal an animated line that is removed at the end; elsewhere a few plain lines.

    Drawn by a thread, because the accompanied work may block, such as a download.
    """

    def __init__(self, text: str, stream: TextIO, *, animate: bool) -> None:
        self._text = text
        self._stream = stream
        self._animate = animate
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._hidden = False
        self._is_silent = False
        self._since = time.monotonic()
        self._last_line = float("-inf")
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Spinner":
        if self._animate:
            self._thread = threading.Thread(target=self._draw_until_stopped, name="spinner", daemon=True)
            self._thread.start()
        else:
            self._line(self._text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.hide()

    def silence(self) -> None:
        """Draw nothing any more, because a person types here. What is said is still printed."""
        self.hide()
        self._is_silent = True

    def update(self, text: str) -> None:
        """Change the text and restart the seconds."""
        if self._is_silent or (text == self._text and not self._hidden):
            return
        self._text = text
        self._since = time.monotonic()
        self._hidden = False
        if not self._animate and time.monotonic() - self._last_line >= _PLAIN_INTERVAL:
            self._line(text)

    def hide(self) -> None:
        """Clear the line so that other output can be written; `update` shows it again."""
        with self._lock:
            if self._animate and not self._hidden:
                self._stream.write(_BACK)
                self._stream.flush()
            self._hidden = True

    def clear(self) -> None:
        """Clear the line whatever is on it, such as the ^C that a terminal shows."""
        with self._lock:
            if self._animate:
                self._stream.write(_BACK)
                self._stream.flush()
            self._hidden = True

    def say(self, text: str) -> None:
        """Print a permanent line above the animated one."""
        with self._lock:
            if self._animate and not self._hidden:
                self._stream.write(_BACK)
            self._stream.write(text + "\n")
            self._stream.flush()

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        if text:
            self._stream.write(text + "\n")
            self._stream.flush()

    def _draw_until_stopped(self) -> None:
        frame = 0
        while not self._stop.wait(_INTERVAL):
            with self._lock:
                if self._hidden:
                    continue
                frame = (frame + 1) % len(_FRAMES)
                self._stream.write(f"{_BACK}{_FRAMES[frame]} {self._clip_text()}")
                self._stream.flush()

    def _clip_text(self) -> str:
        """The text and the seconds in one row of the window as it is now: only the last row could be cleared."""
        seconds = int(time.monotonic() - self._since)
        after = f" {seconds}s" if seconds else ""
        room = terminal.measure_window(self._stream).columns - 1 - len(f"{_FRAMES[0]} {after}")
        return sanitize.line(self._text, max(1, room)) + after
