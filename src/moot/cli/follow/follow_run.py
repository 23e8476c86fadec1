"""Follows one run to its end for a command: prints its text, prompts for its asks, stops it on Ctrl-C.

Works with `answer` (events to result), `prompter` (asks on stdin) and `open_asks`.
"""

import asyncio
import shlex
import signal
import sys
from contextlib import aclosing, suppress
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from moot.cli import exits, output
from moot.cli.connect import daemon_client, remote_address
from moot.cli.exits import Exit
from moot.cli.follow import open_asks, tool_notices
from moot.cli.follow.answer import RunResult
from moot.cli.follow.answer_printer import AnswerPrinter
from moot.cli.follow.asides import render_asides
from moot.cli.follow.goal_mail import send_to_goal
from moot.cli.follow.left_teammates import LeftTeammates, find_left
from moot.cli.follow.prompter import OpenedAsk, Prompter, read_opened_ask
from moot.cli.follow.visits import show_digest, visit
from moot.cli.render import approvals, asker_lines, plain_data, preparation, questions, sanitize, terminal
from moot.cli.render.spinner import Spinner
from moot.client.connection import Connection, Runnable
from moot.client.errors import RunFailed, TimedOut, Unreachable, WaitingForPerson
from moot.domain.errors import MootError
from moot.wire import moot_pb2 as pb

_LONG_SECONDS = 3600.0


class Target(Struct, frozen=True, kw_only=True):
    """The run to follow: where to send replies, and what Ctrl-C sends, if anything."""

    agent: str
    sender: str
    stop: pb.ClientMessage | None
    # Whether Ctrl-C may stop it while queued; otherwise the request would stop the run ahead of it.
    stops_in_line: bool = False
    # How many seconds it may be queued; None means without limit.
    patience: float | None = None
    # The agent, if it may use tools: a warning is shown first if its model does not support them.
    speaker: str = ""
    # Whether a person reads the conversation, who is shown what happened while they were away.
    is_visit: bool = False
    # Where lines typed at a terminal are sent as mail: the inbox of a background run; None if nothing can be typed.
    goal: pb.GoalInfo | None = None
    # Whether the text that an assistant does not send is shown too.
    shows_private: bool = False
    # Additional fields for --json.
    shape: dict[str, Any] = field(default_factory=dict)


class RunFollower:
    """Follows one run, on a terminal or in a script."""

    def __init__(self, message: Runnable, target: Target, *, streaming: bool) -> None:
        self._message = message
        self._target = target
        self._conversation = approvals.name_conversation(target.agent, target.sender)
        self._streaming = streaming
        self._answer = RunResult()
        self._printer = AnswerPrinter(streaming=streaming, shows_private=target.shows_private)
        self._interrupts = 0
        self._stop_is_due = False
        self._left: OpenedAsk | None = None
        # Asks that cannot be answered here, and the task that checks whether the run can progress without them.
        self._open: dict[str, OpenedAsk] = {}
        self._look: asyncio.Task[None] | None = None
        # While queued: the position, the deadline, and what the runs ahead wait for.
        self._position = 0
        self._patience = asyncio.Timeout(None)
        self._front: list[pb.AskInfo] = []
        self._waits_for_person = False

    async def run(self) -> int:
        """Connect and follow; returns the exit code."""
        async with daemon_client() as connection:
            return await self.on(connection)

    async def on(self, connection: Connection) -> int:
        """Follow on an existing connection."""
        if self._target.speaker and await tool_notices.warn_missing_tools(connection, self._target.speaker):
            self._target = replace(self._target, shape=self._target.shape | {"no_tools": True})
        if self._target.is_visit:
            await show_digest(connection, self._target.agent, self._target.sender)
        with output.progress("") as bar:
            bar.hide()
            code = await self._follow(connection, bar)
        if self._target.is_visit:
            await visit(connection, self._target.agent, self._target.sender)
        return code

    async def _follow(self, connection: Connection, bar: Spinner) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: self._interrupt(connection, bar))
        prompter = Prompter(
            send=lambda ask, content: self._reply(connection, ask, content),
            decide=lambda message: self._decide(connection, message),
            leave=lambda ask: self._leave(connection, ask),
            conversation=self._conversation,
        )
        if self._can_write():
            bar.silence()
            output.print_prose("Type a message to the run and press Enter. Ctrl-C leaves; the run continues.")
        try:
            bar.update("Thinking")
            async with asyncio.TaskGroup() as beside:
                if self._can_write():
                    prompter.start(lambda text: self._write(connection, text, bar, beside))
                ending = await self._listen(connection, prompter, bar, beside)
        finally:
            prompter.close()
            loop.remove_signal_handler(signal.SIGINT)
        if isinstance(ending, MootError):
            raise ending
        bar.hide()
        return ending if ending is not None else self._finish(await find_left(connection, self._answer))

    async def _listen(
        self, connection: Connection, prompter: Prompter, bar: Spinner, beside: asyncio.TaskGroup
    ) -> int | MootError | None:
        """Process events until the run ends; returns an exit code if it is left earlier."""
        try:
            async with self._patience, aclosing(connection.stream(self._message)) as events:
                async for event in events:
                    ask = self._take(event, prompter, bar)
                    if self._stop_is_due and (event.HasField("start") or event.HasField("queued")):
                        self._stop_or_detach(connection)
                    if ask is not None and not self._ask_person(ask, prompter, bar):
                        self._leave_open(ask, connection, bar, beside)
                    if event.HasField("queued"):
                        self._show_position(event.queued.position, bar)
                        beside.create_task(self._check_run_ahead(connection, bar))
        except TimeoutError:
            return self._leave_queue(bar)
        except MootError as error:
            return self._handle_disconnect(error, bar)
        finally:
            if self._look is not None:
                self._look.cancel()
        return None

    def _handle_disconnect(self, error: MootError, bar: Spinner) -> int | MootError:
        """Handle the end of the stream: expected after leaving, otherwise an error."""
        if not isinstance(error, Unreachable):
            return error
        if self._left is not None:
            return self._leave_waiting(self._left)
        if self._waits_for_person:
            return self._leave_queue(bar)
        if self._interrupts:
            raise KeyboardInterrupt from None
        return error

    # ---- while it is queued ----

    def _show_position(self, position: int, bar: Spinner) -> None:
        if not self._position and self._target.patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time() + self._target.patience)
        if position != self._position:
            bar.hide()
            self._printer.print_aside(bar, f"Queued at position {position}")
            bar.update("Waiting")
        self._position = position

    async def _check_run_ahead(self, connection: Connection, bar: Spinner) -> None:
        """Show what the run ahead in the queue waits for; leave if there is no terminal to answer on."""
        with suppress(MootError):
            front = await open_asks.list_open_asks(connection, self._target.agent, self._target.sender)
            known = {info.ask_id for info in self._front}
            # It may have started meanwhile; its own asks are then handled as events.
            fresh = [] if self._answer.agent else [info for info in front if info.ask_id not in known]
            self._front = front
            if fresh and _is_unattended():
                self._waits_for_person = True
                connection.close()
                return
            for info in fresh:
                bar.hide()
                for line in ("The run ahead waits:", *open_asks.render_ask(info), open_asks.render_advice(info)):
                    self._printer.print_aside(bar, line)

    def _leave_queue(self, bar: Spinner) -> int:
        bar.hide()
        whose = f" --as {shlex.quote(self._target.sender)}" if self._target.sender else ""
        history = sanitize.line(f"moot history {self._target.agent}{whose}")
        fix = f"The message stays in the queue; `{history}` shows when it is answered."
        text = "the run ahead is still active"
        if self._front:
            fix = f"{open_asks.render_advice(self._front[0])} {fix}"
            shown = [line for info in self._front for line in open_asks.render_ask(info)]
            text = "\n".join(["the run ahead waits for a person:", *shown])
        error: MootError = (
            WaitingForPerson(text, fix=fix) if self._waits_for_person else TimedOut(f"still queued: {text}", fix=fix)
        )
        if output.wants_json():
            waits: dict[str, Any] = {"outcome": "queued", "position": self._position}
            waits["in_front"] = list(map(plain_data.dump_ask, self._front))
            output.emit(self._target.shape | self._answer.data() | waits, error=error)
        else:
            output.print_error(error)
        return int(Exit.WAITING if self._waits_for_person else Exit.TIMED_OUT)

    # ---- while it runs ----

    def _take(self, event: pb.StreamEvent, prompter: Prompter, bar: Spinner) -> OpenedAsk | None:
        """Display an event; returns the ask it opened, if any."""
        self._answer.take(event)
        if not event.HasField("private_text"):
            self._printer.end_private(bar)
        if self._answer.agent and self._patience.when() is not None:
            self._patience.reschedule(None)
        self._show(event, bar)
        if event.HasField("ask_closed") or event.HasField("approval_closed"):
            closed = event.ask_closed.ask_id or event.approval_closed.ask_id
            prompter.close_ask(closed)
            self._open.pop(closed, None)
        return read_opened_ask(event)

    def _show(self, event: pb.StreamEvent, bar: Spinner) -> None:
        kind = event.WhichOneof("event")
        if self._printer.show(event, bar):
            return
        if kind == "discarded":
            bar.hide()
            self._printer.end_line()
            self._printer.print_aside(bar, "(the text above was discarded)")
        elif kind == "thinking_start":
            bar.update("Thinking")
        elif kind == "preparing":
            bar.update(preparation.render_preparing(event.preparing).capitalize())
        elif kind in ("tools_complete", "start", "ask_closed", "approval_closed"):
            bar.update("Working")
        else:
            for line in render_asides(event):
                bar.hide()
                self._printer.end_line()
                self._printer.print_aside(bar, line)
                # The line stays; it is not repeated beside the spinner.
                bar.update("Waiting to try again" if kind == "retrying" else "Working")

    def _ask_person(self, ask: OpenedAsk, prompter: Prompter, bar: Spinner) -> bool:
        """Prompt on this terminal; False if there is none. Approvals are only decided by the owner, locally."""
        bar.hide()
        self._printer.end_line()
        if _is_unattended():
            return False
        if isinstance(ask, pb.ApprovalEvent) and remote_address():
            return False
        prompter.open(ask)
        return True

    def _leave_open(self, ask: OpenedAsk, connection: Connection, bar: Spinner, beside: asyncio.TaskGroup) -> None:
        """Report that nobody can answer here; the run is left once nothing else can make progress."""
        self._open[ask.ask_id] = ask
        if self._look is None or self._look.done():
            self._look = beside.create_task(self._leave_when_blocked(ask, connection, bar))
        else:
            self._show_open_ask(ask, bar)

    def _show_open_ask(self, ask: OpenedAsk, bar: Spinner) -> None:
        what = "An approval" if isinstance(ask, pb.ApprovalEvent) else "A question"
        text = f"{what} is open while other runs continue: {open_asks.show_command(ask.ask_id)}"
        self._printer.print_aside(bar, text)

    async def _leave_when_blocked(self, ask: OpenedAsk, connection: Connection, bar: Spinner) -> None:
        try:
            askers = await self._wait_until_blocked(ask, connection, bar)
        except MootError:
            # It is unknown whether other runs are active, so leave rather than wait for nothing.
            askers = [ask.ask_id]
        # Asks settled meanwhile are closed; the next ask starts another check.
        stuck = next((self._open[ask_id] for ask_id in askers if ask_id in self._open), None)
        if stuck is not None:
            self._leave(connection, stuck)

    async def _wait_until_blocked(self, ask: OpenedAsk, connection: Connection, bar: Spinner) -> list[str]:
        """Wait until only a person can continue the run; returns its open asks, or none if it has ended."""
        run_id = str(self._target.shape.get("run_id", ""))
        run_id = run_id or await open_asks.find_active_run(connection, self._target.agent, self._target.sender)
        message = pb.WaitRunsMsg(run_ids=[run_id], until_asked=True)
        while run_id:
            (info,) = (await connection.request(pb.ClientMessage(wait_runs=message))).run_list.runs
            if info.outcome or info.needs_person:
                return [each.ask_id for each in await open_asks.list_asking_runs(connection, [run_id])]
            if not message.seconds:
                self._show_open_ask(ask, bar)
            message.seconds = _LONG_SECONDS
        return []

    def _reply(self, connection: Connection, ask: pb.AskUserEvent, content: str) -> None:
        reply = questions.address_reply(ask, self._target.agent, self._target.sender, content)
        connection.post(pb.ClientMessage(reply_to_ask=reply))

    def _can_write(self) -> bool:
        return self._target.goal is not None and not _is_unattended()

    def _write(self, connection: Connection, text: str, bar: Spinner, beside: asyncio.TaskGroup) -> None:
        """Send a typed line to the inbox of the run, which reads it at its next step."""
        beside.create_task(self._send_mail(connection, text, bar), name="send mail")

    async def _send_mail(self, connection: Connection, text: str, bar: Spinner) -> None:
        assert self._target.goal is not None
        for line in await send_to_goal(connection, self._target.goal, text):
            self._printer.print_aside(bar, line)

    def _decide(self, connection: Connection, message: pb.DecideAskMsg) -> None:
        connection.post(pb.ClientMessage(decide_ask=message))

    def _leave(self, connection: Connection, ask: OpenedAsk) -> None:
        """Stdin ended before an answer. Disconnecting does not stop the run."""
        self._left = ask
        connection.close()

    def _interrupt(self, connection: Connection, bar: Spinner) -> None:
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        # Remove the progress line first, or it would stay on the screen.
        bar.clear()
        if self._target.stop is None:
            output.print_note("Detached. The run continues.")
            connection.close()
        elif self._answer.agent or self._target.stops_in_line or self._position:
            self._stop_or_detach(connection)
        else:
            # Whether it runs or is queued is not known yet; the next event says so.
            self._stop_is_due = True

    def _stop_or_detach(self, connection: Connection) -> None:
        """Stop the run, or leave the message in the queue, where a stop would end the run ahead of it."""
        self._stop_is_due = False
        if self._answer.agent or self._target.stops_in_line:
            assert self._target.stop is not None
            connection.post(self._target.stop)
        else:
            output.print_note("Detached. The message stays in the queue.")
            connection.close()

    # ---- at the end ----

    def _leave_waiting(self, ask: OpenedAsk) -> int:
        error, waits = self._approval_error(ask) if isinstance(ask, pb.ApprovalEvent) else self._questions_error(ask)
        if output.wants_json():
            output.emit(self._target.shape | self._answer.data() | {"outcome": "waiting"} | waits, error=error)
        else:
            output.print_error(error)
        return int(Exit.WAITING)

    def _questions_error(self, ask: pb.AskUserEvent) -> tuple[WaitingForPerson, dict[str, Any]]:
        prompts = (line for question in ask.questions for line in questions.render_prompt(question))
        shown = "\n".join([*asker_lines.render_asker(ask), *prompts])
        error = WaitingForPerson(
            f"the run waits for an answer:\n{shown}",
            fix=f'Answer with: moot reply {self._conversation} "TEXT"; the run then continues.',
        )
        return error, {
            "questions": [plain_data.dump_question(question) for question in ask.questions]
        } | plain_data.dump_asker(ask)

    def _approval_error(self, ask: pb.ApprovalEvent) -> tuple[WaitingForPerson, dict[str, Any]]:
        shown = "\n".join(approvals.render_approval(ask, conversation=self._conversation))
        error = WaitingForPerson(
            f"the run waits for an approval:\n{shown}",
            fix=f"{open_asks.advise_decision(ask.ask_id)}; the run then continues.",
        )
        return error, {"approvals": [plain_data.dump_approval(ask)]}

    def _finish(self, left: LeftTeammates) -> int:
        answer = self._answer
        if not self._streaming and sys.stdout.isatty() and not output.wants_json():
            self._printer.write(answer.text)
        self._printer.end_line()
        error: MootError | None = None
        code = Exit.INTERRUPTED if self._interrupts else exits.exit_for_outcome(answer.outcome, answer.limit)
        if answer.outcome != "completed":
            error = RunFailed(answer.error or f"the run ended: {answer.outcome}", fix=answer.suggest_fix())
            error.type = answer.outcome
        elif left.asks and _is_unattended():
            error, code = left.error(), Exit.WAITING
        data = self._target.shape | answer.data() | left.data()
        output.emit(data, render=lambda _: "" if sys.stdout.isatty() else answer.text, error=error)
        if self._interrupts and not output.wants_json():
            output.print_note("Stopped. Your message is kept.")
        elif error is not None and not output.wants_json():
            output.print_error(error)
        elif answer.error and not output.wants_json():
            output.print_note(terminal.paint(sanitize.clean(answer.error), sys.stderr, dim=True))
        return int(code)


def _is_unattended() -> bool:
    return output.wants_json() or not (sys.stdin.isatty() and sys.stderr.isatty())
