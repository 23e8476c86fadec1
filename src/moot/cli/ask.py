"""moot ask: one message, one answer, for people in a hurry and for scripts."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import click

from moot.cli import approvals, exits, output, questions, safe, shapes
from moot.cli.answer import Answer
from moot.cli.connect import daemon_client, remote_address, utf8
from moot.cli.exits import Exit
from moot.cli.options import conversation
from moot.cli.prompter import Asked, Prompter
from moot.cli.questions import ASK_TOOL
from moot.cli.spinner import Spinner
from moot.cli.stdin import piped_text, stdin_text
from moot.client.connection import Connection
from moot.client.errors import Unreachable
from moot.domain.errors import BadRequest, MootError
from moot.wire import moot_pb2 as pb

_COLUMNS = 75


class Waiting(MootError):
    """The run asks a person, and there is no terminal to ask on."""

    type = "waiting"


class RunFailed(MootError):
    """A run that ended in another way than `completed`; its type is the outcome."""


def _limit(flag: str, name: str, kind: Any, text: str) -> Callable[[Any], Any]:
    return click.option(flag, name, type=kind, default=None, help=text)


@click.command()
@conversation
@click.argument("text", required=False)
@click.option("--guest", default="", metavar="AGENT", help="The agent that speaks on this turn instead.")
@click.option("--cwd", default="", metavar="DIR", help="Working directory of this run. Default: yours.")
@click.option("--message-id", default="", metavar="ID", help="Makes a retry safe: the same ID is one turn.")
@_limit("--max-steps", "steps", click.IntRange(min=1), "Model calls this run may make.")
@_limit("--max-seconds", "seconds", click.FloatRange(min=0, min_open=True), "Seconds this run may take.")
@_limit("--max-tokens", "tokens", click.IntRange(min=1), "Tokens this run may use.")
@_limit("--max-spend", "spend", click.FloatRange(min=0), "US dollars this run may cost.")
@click.option("--no-stream", is_flag=True, help="Print the answer when it is whole.")
@output.json_option
def ask(agent: str, text: str | None, no_stream: bool, **options: Any) -> int:
    """Send TEXT to AGENT and print the answer. Without TEXT, or with -, the text comes from stdin.

    With TEXT and a file or a pipe on stdin, what comes from there follows TEXT after a blank line. A pipe on which
    nothing comes within 0.2 seconds is not waited for. In a loop that reads stdin itself, add `< /dev/null`.

    The answer goes to stdout and everything else to stderr. Ctrl-C stops the run.
    """
    if text is None and sys.stdin.isatty():
        raise click.UsageError("Missing argument 'TEXT'.")
    content = stdin_text() if text in (None, "-") else _with_piped(utf8(str(text)))
    streaming = sys.stdout.isatty() and not no_stream and not output.wants_json()
    message = request(agent, content, **options)
    return asyncio.run(Asking(message, streaming=streaming).run())


def _with_piped(text: str) -> str:
    piped = piped_text()
    return f"{text}\n\n{piped}" if piped.strip() else text


def request(agent: str, content: str, *, sender: str, guest: str, cwd: str, message_id: str, **limits: Any) -> Any:
    """The message to send, with the caller's own working directory unless another is given."""
    folder = os.path.abspath(os.path.expanduser(cwd)) if cwd else _own_folder()
    if cwd and not os.path.isdir(folder):
        raise BadRequest(f"{cwd} is not a folder", fix="Give --cwd a folder that exists.")
    message = pb.StreamMsg(agent=agent, content=content)
    for name, value in (("sender", sender), ("guest", guest), ("client_message_id", message_id), ("cwd", folder)):
        if value:
            setattr(message, name, value)
    chosen = {name: value for name, value in limits.items() if value is not None}
    if chosen:
        message.limits.CopyFrom(pb.RunLimits(**chosen))
    return message


def _own_folder() -> str:
    """Where the command was typed; a daemon elsewhere has nothing there, and a deleted folder is none."""
    if remote_address():
        return ""
    try:
        return os.getcwd()
    except OSError:
        return ""


class Asking:
    """One `moot ask`: shows the stream as it comes, puts questions to the person, kills on Ctrl-C."""

    def __init__(self, message: pb.StreamMsg, *, streaming: bool) -> None:
        self._message = message
        self._streaming = streaming
        self._answer = Answer()
        self._at_line_start = True
        self._interrupts = 0
        self._left: Asked | None = None

    async def run(self) -> int:
        with output.progress("") as bar:
            bar.hide()
            async with daemon_client() as connection:
                return await self._converse(connection, bar)

    async def _converse(self, connection: Connection, bar: Spinner) -> int:
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
        reply = pb.ReplyToAsk(agent=self._message.agent, sender=self._message.sender, content=content)
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
        if not self._answer.agent:
            # It has not begun; a kill would hit the run that it waits behind.
            output.note("Left. The message stays in the queue and is answered in its turn.")
            connection.close()
            return
        kill = pb.KillMsg(agent=self._message.agent, sender=self._message.sender)
        connection.post(pb.ClientMessage(kill=kill))

    # ---- at the end ----

    def _leave_waiting(self, asked: Asked) -> int:
        error, waits = self._approval(asked) if isinstance(asked, pb.ApprovalEvent) else self._questions(asked)
        if output.wants_json():
            output.emit(self._answer.data() | {"outcome": "waiting"} | waits, error=error)
        else:
            output.complain(error)
        return int(Exit.WAITING)

    def _questions(self, asked: pb.AskUserEvent) -> tuple[Waiting, dict[str, Any]]:
        shown = "\n".join(line for question in asked.questions for line in questions.lines(question))
        sender = f" --as {self._message.sender}" if self._message.sender else ""
        error = Waiting(
            f"the run waits for an answer:\n{shown}",
            fix=f'Answer with: moot reply {self._message.agent}{sender} "TEXT"; the run then goes on.',
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
        output.emit(answer.data(), render=lambda _: shown, error=error)
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
