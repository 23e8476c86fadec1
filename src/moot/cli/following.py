"""Follows one run to its end for a command: shows what it says, asks the person what it asks, stops it on Ctrl-C."""

import asyncio
import signal
import sys
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from moot.cli import approvals, exits, output, questions, safe, shapes
from moot.cli.answer import Answer
from moot.cli.connect import daemon_client, remote_address
from moot.cli.exits import Exit
from moot.cli.prompter import Asked, Prompter
from moot.cli.questions import ASK_TOOL
from moot.cli.spinner import Spinner
from moot.client.connection import Connection, Runnable
from moot.client.errors import Unreachable
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb

_COLUMNS = 75


class Waiting(MootError):
    """The run asks a person, and there is no terminal to ask on."""

    type = "waiting"


class RunFailed(MootError):
    """A run that ended in another way than `completed`; its type is the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The run that is followed: where its questions are answered, and what Ctrl-C sends, if anything."""

    agent: str
    sender: str
    stop: pb.ClientMessage | None
    # Whether it may be stopped before it has begun; else that would hit the run it waits behind.
    stops_in_line: bool = False
    # What --json says of it beside its answer.
    shape: dict[str, Any] = field(default_factory=dict)


class Following:
    """One run on one terminal, or in one script."""

    def __init__(self, message: Runnable, target: Target, *, streaming: bool) -> None:
        self._message = message
        self._target = target
        self._streaming = streaming
        self._answer = Answer()
        self._at_line_start = True
        self._interrupts = 0
        self._left: Asked | None = None

    async def run(self) -> int:
        """Connect and follow; the exit code."""
        async with daemon_client() as connection:
            return await self.on(connection)

    async def on(self, connection: Connection) -> int:
        """Follow on a connection that is there already."""
        with output.progress("") as bar:
            bar.hide()
            return await self._follow(connection, bar)

    async def _follow(self, connection: Connection, bar: Spinner) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: self._interrupt(connection))
        prompter = Prompter(
            send=lambda content: self._reply(connection, content),
            decide=lambda asked, decision: self._decide(connection, asked, decision),
            leave=lambda asked: self._leave(connection, asked),
        )
        try:
            bar.update("Thinking")
            async with aclosing(connection.stream(self._message)) as events:
                async for event in events:
                    self._answer.take(event)
                    self._show(event, bar)
                    asked = _asked(event)
                    if asked is not None and not self._put(asked, prompter, bar):
                        return self._leave_waiting(asked)
                    if event.HasField("ask_closed"):
                        prompter.closed(event.ask_closed.ask_id)
                    elif event.HasField("approval_closed"):
                        prompter.closed(event.approval_closed.ask_id)
        except Unreachable:
            if self._left is not None:
                return self._leave_waiting(self._left)
            if self._interrupts:
                raise KeyboardInterrupt from None
            raise
        finally:
            prompter.close()
            loop.remove_signal_handler(signal.SIGINT)
        bar.hide()
        return self._finish()

    # ---- while it runs ----

    def _show(self, event: pb.StreamEvent, bar: Spinner) -> None:
        kind = event.WhichOneof("event")
        if kind == "chunk":
            self._show_text(event.chunk.content, bar)
        elif kind == "discarded":
            bar.hide()
            self._end_line()
            self._aside(bar, "(that text was taken back)")
        elif kind == "thinking_start":
            bar.update("Thinking")
        elif kind in ("tools_complete", "start", "ask_closed", "approval_closed"):
            bar.update("Working")
        else:
            for line in _asides(event):
                bar.hide()
                self._end_line()
                self._aside(bar, line)
                bar.update(line.strip())

    def _show_text(self, content: str, bar: Spinner) -> None:
        if self._streaming and content:
            bar.hide()
            output.write(safe.clean(content))
            self._at_line_start = content.endswith("\n")
        elif not self._streaming:
            bar.update("Writing")

    def _aside(self, bar: Spinner, line: str) -> None:
        bar.say(output.paint(line, sys.stderr, dim=True))

    def _end_line(self) -> None:
        if not self._at_line_start:
            output.write("\n")
            self._at_line_start = True

    def _put(self, asked: Asked, prompter: Prompter, bar: Spinner) -> bool:
        """Ask in place; False when there is nobody to ask. Only the owner decides, on their own machine."""
        bar.hide()
        self._end_line()
        if output.wants_json() or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        if isinstance(asked, pb.ApprovalEvent) and remote_address():
            return False
        prompter.open(asked)
        return True

    def _reply(self, connection: Connection, content: str) -> None:
        reply = pb.ReplyToAsk(agent=self._target.agent, sender=self._target.sender, content=content)
        connection.post(pb.ClientMessage(reply_to_ask=reply))

    def _decide(self, connection: Connection, asked: pb.ApprovalEvent, decision: str) -> None:
        message = pb.DecideAskMsg(ask_id=asked.ask_id, attempt=asked.attempt, decision=decision)
        connection.post(pb.ClientMessage(decide_ask=message))

    def _leave(self, connection: Connection, asked: Asked) -> None:
        """The input ended where an answer was wanted. Hanging up does not stop the run."""
        self._left = asked
        connection.close()

    def _interrupt(self, connection: Connection) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        if self._target.stop is None:
            output.note("Left. The run goes on.")
            connection.close()
        elif self._answer.agent or self._target.stops_in_line:
            connection.post(self._target.stop)
        else:
            output.note("Left. The message stays in the queue and is answered in its turn.")
            connection.close()

    # ---- at the end ----

    def _leave_waiting(self, asked: Asked) -> int:
        error, waits = self._approval(asked) if isinstance(asked, pb.ApprovalEvent) else self._questions(asked)
        if output.wants_json():
            output.emit(self._target.shape | self._answer.data() | {"outcome": "waiting"} | waits, error=error)
        else:
            output.complain(error)
        return int(Exit.WAITING)

    def _questions(self, asked: pb.AskUserEvent) -> tuple[Waiting, dict[str, Any]]:
        shown = "\n".join(line for question in asked.questions for line in questions.lines(question))
        sender = f" --as {self._target.sender}" if self._target.sender else ""
        error = Waiting(
            f"the run waits for an answer:\n{shown}",
            fix=f'Answer with: moot reply {self._target.agent}{sender} "TEXT"; the run then goes on.',
        )
        return error, {"questions": [shapes.question(question) for question in asked.questions]}

    def _approval(self, asked: pb.ApprovalEvent) -> tuple[Waiting, dict[str, Any]]:
        shown = "\n".join(approvals.lines(asked))
        error = Waiting(
            f"the run waits for an approval:\n{shown}",
            fix=f"Decide with: moot inbox approve {asked.ask_id}, or deny; the run then goes on.",
        )
        return error, {"approvals": [shapes.approval(asked)]}

    def _finish(self) -> int:
        self._end_line()
        answer = self._answer
        error = None
        if answer.outcome != "completed":
            error = RunFailed(answer.error or f"the run ended: {answer.outcome}", fix=answer.fix())
            error.type = answer.outcome
        shown = "" if self._streaming else safe.clean(answer.content) if sys.stdout.isatty() else answer.content
        output.emit(self._target.shape | answer.data(), render=lambda _: shown, error=error)
        if self._interrupts and not output.wants_json():
            output.note("Stopped. What you said is kept.")
        elif error is not None and not output.wants_json():
            output.complain(error)
        return int(Exit.INTERRUPTED if self._interrupts else exits.for_outcome(answer.outcome, answer.limit))


def _asked(event: pb.StreamEvent) -> Asked | None:
    """What the run now waits for, if this event says so."""
    if event.HasField("ask_user"):
        return event.ask_user
    return event.approval_opened if event.HasField("approval_opened") else None


def _asides(event: pb.StreamEvent) -> list[str]:
    """What is worth a line of its own on stderr, beside the text."""
    if event.HasField("queued"):
        return [f"Waiting for its turn: position {event.queued.position}"]
    if event.HasField("tool_start"):
        calls = [call for call in event.tool_start.calls if call.name != ASK_TOOL]
        return [f"⚒ {safe.line(f'{call.name} {call.arguments}', _COLUMNS)}" for call in calls]
    if event.HasField("tool_result") and event.tool_result.is_error:
        return [f"  ✗ {safe.line(event.tool_result.output, _COLUMNS)}"]
    if event.HasField("retrying"):
        seconds = event.retrying.delay_ms / 1000
        return [f"The model failed ({safe.line(event.retrying.reason, 80)}); again in {seconds:.1f}s"]
    if event.HasField("compacted"):
        return [f"Compacted into archive {event.compacted.number}: {safe.line(event.compacted.title)}"]
    return []
