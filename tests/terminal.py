"""Runs a command on a pseudo terminal, types into it, and waits for its output."""

import codecs
import os
import pty
import re
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fcntl import ioctl
from termios import TIOCSWINSZ

from moot.cli.render import sanitize
from tests.daemon_process import PATIENCE, Home
from tests.fork_server import ForkedPopen, can_fork

_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78DEHM])")


class Rows:
    """What stands on the screen: an endless page, on which programs move relative to themselves or go to its top."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._saved = (0, 0)
        self._rest = ""
        # What was erased from the first row on, of which tmux keeps a copy in its scrollback.
        self.erased = ""

    @property
    def text(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self._rows)

    def resize(self, columns: int) -> None:
        """Wrap every row again, as tmux does; the cursor stays at its character."""
        wrapped: list[list[str]] = []
        for number, row in enumerate(self._rows):
            if number == self._row:
                at = len(wrapped) + self._column // columns
            wrapped += [row[start : start + columns] for start in range(0, len(row), columns)] or [[]]
        self._rows, self._row, self._column, self._columns = wrapped, at, self._column % columns, columns

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
            elif sequence := _SEQUENCE.match(text, at):
                self._obey(sequence[0])
                at = sequence.end()
            else:
                self._rest = text[at:]
                return

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._go(self._row + 1)
        elif character >= " ":
            if self._column >= self._columns:
                self._go(self._row + 1)
                self._column = 0
            wide = sanitize.columns(character) == 2
            row = self._rows[self._row]
            row += [" "] * (self._column + 1 + wide - len(row))
            row[self._column : self._column + 1 + wide] = [character, ""][: 1 + wide]
            self._column += 1 + wide

    def _obey(self, sequence: str) -> None:
        if sequence in ("\x1b7", "\x1b8"):
            self._save_or_restore(sequence)
            return
        number = sequence[2:-1]
        count = int(number) if number.isdecimal() else 1
        match sequence[-1] if sequence[1] == "[" else "":
            case "A":
                self._go(self._row - count)
            case "B":
                self._go(self._row + count)
            case "C":
                self._column += count
            case "D":
                self._column = max(0, self._column - count)
            case "H" if number in ("", "0;0", "1;1"):
                self._go(0)
                self._column = 0
            case "K":
                del self._rows[self._row][self._column :]
            case "J" if number == "2":
                self._rows = [[] for _ in self._rows]
            case "J":
                if (self._row, self._column) == (0, 0):
                    self.erased += self.text
                del self._rows[self._row][self._column :]
                del self._rows[self._row + 1 :]

    def _save_or_restore(self, sequence: str) -> None:
        if sequence == "\x1b7":
            self._saved = (self._row, self._column)
        else:
            self._row, self._column = self._saved

    def _go(self, row: int) -> None:
        self._row = max(0, row)
        while len(self._rows) <= self._row:
            self._rows.append([])


class Terminal:
    """`raw` is the bytes as they came, `seen` all of them without escape sequences, `rows` what stands there now."""

    def __init__(self, pid: int, wait: Callable[[], int], descriptor: int, columns: int) -> None:
        self.pid = pid
        self._wait = wait
        self._descriptor = descriptor
        self._at = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.raw = b""
        self.rows = Rows(columns)
        self.exit_code: int | None = None

    @property
    def seen(self) -> str:
        return _SEQUENCE.sub("", self.raw.decode(errors="replace")).replace("\r", "")

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def enter(self, line: str) -> None:
        self.type(line + "\r")

    def resize(self, columns: int, rows: int = 30) -> None:
        """Make the window narrower or wider; tmux wraps what stands there before the program hears of it."""
        while select.select([self._descriptor], [], [], 0)[0]:
            self._read(0)
        self.rows.resize(columns)
        ioctl(self._descriptor, TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until the text was printed after whatever was waited for before."""
        deadline = time.monotonic() + seconds
        while (found := self.seen.find(text, self._at)) < 0:
            left = deadline - time.monotonic()
            assert left > 0, f"never saw {text!r} in:\n{self.seen[self._at :]}"
            assert self._read(left), f"it ended before {text!r}:\n{self.seen[self._at :]}"
        self._at = found + len(text)

    def wait_for_any(self, *texts: str, seconds: float = PATIENCE) -> None:
        """The same for whichever of these comes first."""
        deadline = time.monotonic() + seconds
        while not (found := [at for text in texts if (at := self.seen.find(text, self._at)) >= 0]):
            left = deadline - time.monotonic()
            assert left > 0, f"never saw any of {texts!r} in:\n{self.seen[self._at :]}"
            assert self._read(left), f"it ended before any of {texts!r}:\n{self.seen[self._at :]}"
        self._at = min(found)

    def wait_on_screen(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until the text stands on the screen, wherever; what is redrawn is redrawn only in part."""
        deadline = time.monotonic() + seconds
        while text not in self.rows.text:
            left = deadline - time.monotonic()
            assert left > 0, f"never saw {text!r} on:\n{self.rows.text}"
            assert self._read(left), f"it ended before {text!r}:\n{self.rows.text}"

    def wait_off_screen(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until the text does not stand on the screen any more."""
        deadline = time.monotonic() + seconds
        while text in self.rows.text:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} stays on:\n{self.rows.text}"
            assert self._read(left), f"it ended with {text!r} on:\n{self.rows.text}"

    def wait_for_exit(self, seconds: float = PATIENCE) -> int:
        deadline = time.monotonic() + seconds
        while self._read(max(0.0, deadline - time.monotonic())):
            assert time.monotonic() < deadline, f"it did not end:\n{self.seen}"
        self.exit_code = self._wait()
        return self.exit_code

    def _read(self, seconds: float) -> bool:
        """Take what is there; False at the end of the output."""
        ready, _, _ = select.select([self._descriptor], [], [], min(seconds, 0.1))
        if not ready:
            return True
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            return False
        self.raw += data
        self.rows.feed(self._decode(data))
        return bool(data)

    def close(self) -> None:
        if self.exit_code is None:
            # It may have ended by itself, and the fork server waits for all.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._wait()
        os.close(self._descriptor)


MOOT = (sys.executable, "-m", "moot")

# The id of the process, what waits for its exit code, and the descriptor of its terminal.
_Started = tuple[int, Callable[[], int], int]


@contextmanager
def terminal(
    home: Home,
    *arguments: str,
    columns: int = 100,
    rows: int = 30,
    no_color: str = "",
    command: Sequence[str] = MOOT,
    **extra: str,
) -> Iterator[Terminal]:
    """`moot …`, or another command, at a terminal of its own."""
    # The cursor cannot be asked for its position here, and prompt_toolkit would wait for the answer.
    environment = home.environment(TERM="xterm-256color", PROMPT_TOOLKIT_NO_CPR="1", NO_COLOR=no_color, **extra)
    size = struct.pack("HHHH", rows, columns, 0, 0)
    start = _fork_from_server if can_fork(command, environment) else _fork
    # Without a size, programs take the usual one.
    person = Terminal(*start([*command, *arguments], environment, size), columns or 80)
    try:
        yield person
    finally:
        person.close()


def _fork_from_server(command: list[str], environment: dict[str, str], size: bytes) -> _Started:
    descriptor, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, size)
    process = ForkedPopen(
        command,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        controlling_terminal=True,
    )
    os.close(theirs)
    return process.pid, process.wait, descriptor


def _fork(command: list[str], environment: dict[str, str], size: bytes) -> _Started:
    pid, descriptor = pty.fork()
    if pid == 0:
        ioctl(0, TIOCSWINSZ, size)
        # A job in the background is started with Ctrl-C ignored, and so is all that it starts.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execve(command[0], command, environment)
    return pid, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), descriptor
