"""Prompts for the asks of a run on stdin without blocking its events. Used by `follow_run`."""

import asyncio
import sys
from collections.abc import Callable

from moot.cli import output, prompts
from moot.cli.render import approvals, asker_lines, flow, questions, terminal
from moot.wire import moot_pb2 as pb

OpenedAsk = pb.AskUserEvent | pb.ApprovalEvent


def read_opened_ask(event: pb.StreamEvent) -> OpenedAsk | None:
    """Return the ask that this event opened, if any."""
    if event.HasField("ask_user"):
        return event.ask_user
    return event.approval_opened if event.HasField("approval_opened") else None


class Prompter:
    """Prompts for questions and approvals, one at a time, on stdin. Does not block: another client may answer first.

    `send` receives the complete reply to a question, `decide` the decision on an approval; `leave` is called at the
    end of input.
    """

    def __init__(
        self,
        *,
        send: Callable[[pb.AskUserEvent, str], None],
        decide: Callable[[pb.DecideAskMsg], None],
        leave: Callable[[OpenedAsk], None],
        conversation: str,
    ) -> None:
        self._conversation = conversation
        self._send = send
        self._decide = decide
        self._leave = leave
        self._write: Callable[[str], None] | None = None
        self._is_reading = False
        self._open: list[OpenedAsk] = []
        self._given: list[str] = []

    def start(self, write: Callable[[str], None]) -> None:
        """Read lines from now on: `write` receives those that are typed while nothing is asked."""
        self._write = write
        self._read(True)

    def open(self, ask: OpenedAsk) -> None:
        self._open.append(ask)
        if len(self._open) == 1:
            self._read(True)
            self._show_ask()

    def close_ask(self, ask_id: str) -> None:
        """Close an ask that was settled here or elsewhere, and prompt for the next one."""
        if any(ask.ask_id == ask_id for ask in self._open):
            was_first = self._open[0].ask_id == ask_id
            self._open = [ask for ask in self._open if ask.ask_id != ask_id]
            if was_first:
                self._next()

    def close(self) -> None:
        self._read(False)
        self._open, self._given = [], []

    def _read(self, wanted: bool) -> None:
        if wanted and not self._is_reading:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._take_line)
        elif not wanted and self._is_reading:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._is_reading = wanted

    def _next(self) -> None:
        self._given = []
        if self._open:
            self._show_ask()
        else:
            self._read(self._write is not None)

    def _show_ask(self) -> None:
        """Show the first open ask. What was typed before the person has read it is no answer to it."""
        prompts.discard_typed()
        self._show()

    def _show(self) -> None:
        ask, width = self._open[0], terminal.row_width(sys.stderr)
        if isinstance(ask, pb.AskUserEvent):
            shown = [*asker_lines.render_asker(ask), *questions.render_prompt(ask.questions[len(self._given)])]
            output.print_note("\n".join(flow.wrap_text(line, width, indent="    ") for line in shown))
            self._prompt("answer › ")
        else:
            shown = approvals.render_approval(ask, width=width, conversation=self._conversation)
            output.print_note("\n".join([*shown, *approvals.render_choices(ask, width, self._conversation)]))
            self._prompt(_render_keys(ask, "/"))

    def _prompt(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def _take_line(self) -> None:
        line = sys.stdin.readline()
        if not self._open:
            self._take_message(line)
            return
        ask = self._open[0]
        if not line:
            self.close()
            self._leave(ask)
        elif isinstance(ask, pb.AskUserEvent):
            self._take_answer(ask, line)
        else:
            self._take_decision(ask, line)

    def _take_message(self, line: str) -> None:
        if not line:
            # The end of the input: nothing more is typed.
            self._write = None
            self._read(False)
        elif self._write is not None and line.strip():
            self._write(line.rstrip("\n"))

    def _take_answer(self, ask: pb.AskUserEvent, line: str) -> None:
        self._given.append(questions.parse_answer(ask.questions[len(self._given)], line))
        if len(self._given) < len(ask.questions):
            self._show()
            return
        given = self._given
        self._open.pop(0)
        self._next()
        self._send(ask, questions.build_reply(ask.questions, given))

    def _take_decision(self, ask: pb.ApprovalEvent, line: str) -> None:
        typed = approvals.parse_decision(line, ask)
        decision = typed.decision
        is_refused = decision != "deny" and not approvals.is_complete(ask)
        has_rule = bool(ask.rule or typed.pattern)
        if not decision or is_refused or (decision in approvals.RULE_DECISIONS and not has_rule):
            # Any other input decides nothing.
            self._prompt(_render_keys(ask))
            return
        self._open.pop(0)
        self._next()
        self._decide(typed.build_message(ask))


def _render_keys(ask: pb.ApprovalEvent, separator: str = " or ") -> str:
    keys = ["o", *(["r", "c", "a"] if ask.rule else []), *(["p"] if ask.patterns else []), "d"]
    if not approvals.is_complete(ask):
        keys = ["d"]
    *first, last = keys
    between = "/" if separator == "/" else ", "
    return f"{between.join(first)}{separator if first else ''}{last} › "
