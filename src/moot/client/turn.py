"""Follows one run over a `link` as stream items: reconnects, notices when only a person can continue, stops the run.

Used by both clients, which call the callbacks themselves.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any
from uuid import uuid4

from moot.client import caller, convert
from moot.client.connection import Connection, PendingRequest, Runnable
from moot.client.errors import RunFailed, Unreachable, WaitingForPerson
from moot.client.link import Link
from moot.client.options import Answer, Denial, TurnOptions, Verdict
from moot.client.values import Approval, AskClosed, Ended, Question, Reply, StreamItem
from moot.domain.errors import BadRequest, MootError
from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb

_STOP_SECONDS = 5.0
_LONG_SECONDS = 3600.0
_DECISIONS = ("once", "run", "conversation", "always", "deny")


class Turn:
    """One run that is followed: the message that starts or joins it, and what is known of it so far."""

    def __init__(self, message: Runnable, *, detach: bool, agent: str = "", sender: str = "") -> None:
        self.message = message
        self.reader = convert.StreamReader(agent, sender)
        self.detach = detach
        # The open asks that nobody here answers.
        self._left: dict[str, Question | Approval] = {}
        # The asks of the run ahead in the queue that have been shown, each with its attempt.
        self._shown_ahead: set[tuple[str, int]] = set()
        self._watch: PendingRequest | None = None

    def leave(self, ask: Question | Approval) -> None:
        """Leave an ask to somebody else. WaitingForPerson is raised once only such asks can continue the run."""
        self._left[ask.id] = ask

    def show_ahead(self, ask: Question | Approval) -> bool:
        """Whether an ask of the run ahead in the queue is shown for the first time: every new position names it."""
        is_first = (ask.id, ask.attempt) not in self._shown_ahead
        self._shown_ahead.add((ask.id, ask.attempt))
        return is_first

    def leave_ahead(self, ask: Question | Approval) -> WaitingForPerson:
        """The error for an ask of the run ahead that nobody here answers. The message stays in the queue."""
        self.detach = True
        return waiting_error(ask, is_ahead=True)

    async def items(self, link: Link) -> AsyncGenerator[StreamItem, None]:
        """Everything up to the end of the run, also after losses of the connection. Use it under `aclosing`."""
        try:
            while True:
                try:
                    async with aclosing(self._events(await link.open())) as events:
                        async for event in events:
                            for item in self._read(event):
                                yield item
                            if event.HasField("end"):
                                return
                except Unreachable as loss:
                    await link.reopen(loss)
                    yield self._restart()
        except (asyncio.CancelledError, GeneratorExit):
            if not self.detach:
                await self._stop(link)
            raise

    def _read(self, event: pb.StreamEvent) -> list[StreamItem]:
        items = self.reader.read(event)
        for item in items:
            if isinstance(item, AskClosed):
                self._left.pop(item.id, None)
        return items

    def _restart(self) -> StreamItem:
        if self.reader.run_id:
            # The message has been received; sent again, it would run again where the run was interrupted.
            self.message = pb.AttachRunMsg(run_id=self.reader.run_id)
        self._left.clear()
        return self.reader.restart()

    async def _events(self, connection: Connection) -> AsyncGenerator[pb.StreamEvent, None]:
        async with aclosing(connection.stream(self.message)) as events:
            try:
                while True:
                    event = await self._next_event(connection, events)
                    yield event
                    if event.HasField("end"):
                        return
            finally:
                self._end_watch()

    async def _next_event(self, connection: Connection, events: AsyncGenerator[pb.StreamEvent, None]) -> pb.StreamEvent:
        if not self._left:
            self._end_watch()
            return await anext(events)
        if self._watch is None:
            self._watch = connection.send(_until_asked(self.reader.run_id))
        async with asyncio.TaskGroup() as tasks:
            blocked = tasks.create_task(_wait_until_blocked(self._watch))
            upcoming = tasks.create_task(_take(events))
            await asyncio.wait({upcoming, blocked}, return_when=asyncio.FIRST_COMPLETED)
            blocked.cancel()
            upcoming.cancel()
        if upcoming.cancelled():
            raise waiting_error(next(iter(self._left.values())))
        if not blocked.cancelled():
            # Both came at once. The wait is answered only once, so that it has to be sent again.
            self._end_watch()
        event = upcoming.result()
        if isinstance(event, MootError):
            raise event
        return event

    def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.forget()

    async def _stop(self, link: Link) -> None:
        """Stop the run, or withdraw its message from the queue. A daemon that is gone is not waited for."""
        with suppress(MootError, TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                connection = await link.open()
                if not self.reader.run_id:
                    # Under its id the message is one turn, so this joins it; its first event names the run.
                    async with aclosing(connection.stream(self.message)) as events:
                        self.reader.read(await anext(events))
                stop = pb.StopRunMsg(run_id=self.reader.run_id)
                await connection.request(pb.ClientMessage(stop_run=stop))


async def _take(events: AsyncGenerator[pb.StreamEvent, None]) -> pb.StreamEvent | MootError:
    """The next event, or the error in its place, so that it does not come as a group of errors."""
    try:
        return await anext(events)
    except MootError as error:
        return error


def _until_asked(run_id: str) -> pb.ClientMessage:
    message = pb.WaitRunsMsg(run_ids=[run_id], until_asked=True, seconds=_LONG_SECONDS)
    return pb.ClientMessage(wait_runs=message)


async def _wait_until_blocked(watch: PendingRequest) -> None:
    """Wait until only a person can continue the run. If that cannot be known, leave rather than wait for nothing."""
    with suppress(MootError):
        answer = await watch.answer()
        if any(info.outcome for info in answer.run_list.runs):
            # The stream is about to end.
            await asyncio.Event().wait()


def start_turn(agent: str, text: str, options: TurnOptions, *, is_local: bool) -> Turn:
    """The turn of one message; a local daemon is told the caller's working directory and PATH."""
    message = pb.StreamMsg(agent=agent, content=text, client_message_id=options.get("message_id") or uuid4().hex)
    fields: dict[str, Any] = {name: options.get(name) for name in ("sender", "guest", "cwd")}
    for name, value in fields.items():
        if value:
            setattr(message, name, str(value))
    if is_local:
        message.cwd = message.cwd or caller.read_folder()
        message.search_path = caller.read_search_path()
    if (limits := options.get("limits")) is not None:
        message.limits.CopyFrom(convert.build_limits(limits))
    message.steer = options.get("steer", False)
    return Turn(message, detach=options.get("detach", False), agent=agent, sender=message.sender)


def check_reply(item: Ended) -> Reply:
    """The reply of a run that completed. Raises RunFailed for any other."""
    reply = item.reply
    if reply.outcome == "completed":
        return reply
    error = RunFailed(reply.error or f"the run ended: {reply.outcome}", fix=f"`moot trace {reply.run_id}` shows it.")
    error.type = reply.outcome
    error.reply = reply
    raise error


def waiting_error(ask: Question | Approval, *, is_ahead: bool = False) -> WaitingForPerson:
    """The error for an ask that nobody here answers, of the run itself or of the one ahead in the queue."""
    if isinstance(ask, Question):
        text, fix = f"an answer: {ask.text}", "Pass on_question, or call reply; the run goes on waiting."
    else:
        text = f"an approval: {ask.line}"
        command = f"moot inbox approve {shorten_ask_id(ask.id)}"
        fix = f"Pass on_approval, call decide, or run `{command}`; the run goes on waiting."
    who = "the message is queued, and the run ahead waits" if is_ahead else "the run waits"
    error = WaitingForPerson(f"{who} for {text}", fix=fix)
    error.ask = ask
    return error


def decide_message(approval: Approval, verdict: Verdict, *, pattern: str = "") -> pb.ClientMessage:
    reason = verdict.reason if isinstance(verdict, Denial) else ""
    given = False if isinstance(verdict, Denial) else verdict
    decision = {True: "once", False: "deny"}.get(given, given) if isinstance(given, bool) else given
    if decision not in _DECISIONS:
        raise BadRequest(
            f"{decision!r} is not a decision", fix=f"Use True, False, Denial() or {', '.join(_DECISIONS)}."
        )
    decided = pb.DecideAskMsg(
        ask_id=approval.id, attempt=approval.attempt, decision=decision, pattern=pattern, reason=reason
    )
    return pb.ClientMessage(decide_ask=decided)


def reply_message(question: Question, answer: Answer) -> pb.ClientMessage:
    texts: Sequence[str] = [answer] if isinstance(answer, str) else list(answer or ())
    content = build_reply([item.text for item in question.questions], texts)
    reply = pb.ReplyToAsk(
        agent=question.agent, sender=question.sender, content=content, ask_id=question.id, attempt=question.attempt
    )
    return pb.ClientMessage(reply_to_ask=reply)


def build_reply(questions: Sequence[str], answers: Sequence[str]) -> str:
    """The reply to an ask: the one answer, or for several questions a JSON object from question to answer."""
    if len(answers) == 1:
        return answers[0]
    if len(answers) != len(questions):
        raise BadRequest(
            f"{len(answers)} answers were given to {len(questions)} questions", fix="Give one text, or one for each."
        )
    return json.dumps(dict(zip(questions, answers, strict=True)), ensure_ascii=False)
