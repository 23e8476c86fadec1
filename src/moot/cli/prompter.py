"""Puts a run's questions to the person at the terminal while the events of the run go on coming."""

import asyncio
import sys
from collections.abc import Callable

from moot.cli import output, questions
from moot.wire import moot_pb2 as pb


class Prompter:
    """One ask at a time, a line of stdin per question. Never blocks: another client may answer first.

    `send` gets the whole reply; `leave` is called when the input ends instead.
    """

    def __init__(self, send: Callable[[str], None], leave: Callable[[pb.AskUserEvent], None]) -> None:
        self._send = send
        self._leave = leave
        self._asked: pb.AskUserEvent | None = None
        self._given: list[str] = []

    def open(self, asked: pb.AskUserEvent) -> None:
        self.close()
        self._asked, self._given = asked, []
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._take_line)
        self._show_next(asked)

    def close(self) -> None:
        if self._asked is not None:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._asked = None

    def _show_next(self, asked: pb.AskUserEvent) -> None:
        output.note("\n".join(questions.lines(asked.questions[len(self._given)])))
        sys.stderr.write("answer › ")
        sys.stderr.flush()

    def _take_line(self) -> None:
        asked = self._asked
        if asked is None:
            return
        line = sys.stdin.readline()
        if not line:
            self.close()
            self._leave(asked)
            return
        self._given.append(questions.answer(asked.questions[len(self._given)], line))
        if len(self._given) < len(asked.questions):
            self._show_next(asked)
            return
        self.close()
        self._send(questions.reply(asked.questions, self._given))
