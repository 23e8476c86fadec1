"""The chat: turns what the user types into requests and events of the daemon into lines on the `Screen`."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Any

from prompt_toolkit.formatted_text import StyleAndTextTuples

from moot.cli.chat import lines, live_rows
from moot.cli.chat.chat_asks import ChatAsks
from moot.cli.chat.decisions import Decisions
from moot.cli.chat.message_sender import MessageSender
from moot.cli.chat.mode_switch import ModeSwitch
from moot.cli.chat.open_approvals import HeldDecision, OpenApprovals
from moot.cli.chat.other_turns import Introduce, OtherTurns, turns
from moot.cli.chat.project_command import find_off
from moot.cli.chat.run_views import RunViews
from moot.cli.chat.screen import Screen
from moot.cli.chat.slash import SlashCommands
from moot.cli.chat.totals import Totals
from moot.cli.chat.view import RunView
from moot.cli.follow.tool_notices import explain_inactive
from moot.cli.markdown.styles import Line
from moot.cli.markdown.wrap import wrap_line as broken
from moot.cli.project_status import read_project, render_files
from moot.cli.render.digest_lines import render_digest
from moot.client.connection import Connection, Runnable
from moot.client.errors import Unreachable
from moot.domain.errors import MootError, NotFound
from moot.wire import moot_pb2 as pb
from moot.wire.codec import PROTOCOL_VERSION

# Messages of the history shown when the chat opens.
_PAST = 500
# Rows of incomplete text shown above the input.
_TAIL_ROWS = 12


class ChatController:
    """One conversation on one screen. Outlives its connections: `enter` and `leave` are called for each."""

    def __init__(self, agent: str, sender: str, *, guest: str = "", cwd: str = "", steers: bool = False) -> None:
        self.agent = agent
        self.sender = sender
        self._cwd = cwd
        self._connection: Connection | None = None
        self._views = RunViews()
        self._messages = MessageSender(self, guest=guest, steers=steers)
        # The active agents with their descriptions.
        self.agents: Mapping[str, str] = {}
        self._totals = Totals(agent)
        self._entered = False
        # Whether messages are sent at once. Before the history was read they wait: it would show them a second time.
        self.is_ready = False
        self._running: set[asyncio.Task[None]] = set()
        self._slash = SlashCommands(self)
        # What the daemon does for this chat outside of a run, and since when.
        self._work: list[tuple[str, float]] = []
        self._asks = ChatAsks(self)
        self._open_approvals = OpenApprovals(self._asks.list_approvals)
        self._decisions = Decisions(self, self._open_approvals)
        self._others = OtherTurns(self)
        self.mode = ModeSwitch(self)
        # After how long an absence the person is shown what happened; set by the command.
        self.away_seconds = 0.0
        self._connected = asyncio.Event()
        self.screen: Screen
        self.tasks: asyncio.TaskGroup

    # ---- connection ----

    async def on_connected(self, connection: Connection) -> None:
        """Start using a connection: show the state, send what waited, follow other clients."""
        self._connection = connection
        self._connected.set()
        hello = pb.Hello(version=PROTOCOL_VERSION, client="chat")
        welcome = (await self.request(pb.ClientMessage(hello=hello))).welcome
        self.sender = self.sender or welcome.default_sender
        agents = await self.refresh_agents()
        await self.refresh_usage()
        await self.mode.refresh()
        # Subscribe before reading the history, so that nothing is missed.
        events = await connection.subscribe()
        self._asks.forget_left_approvals()
        self._others.on_run_ended()
        if self._entered:
            self._others.catch_up(await self.history(), unsent=self._messages.list_unsent())
        else:
            await self._show_past()
            for notice in filter(None, (explain_inactive(info) for info in agents if info.name == self.agent)):
                self.show_notice(notice)
        self._entered = self.is_ready = True
        # Only now: if the connection is lost before, they wait for the next one.
        for outgoing in self._messages.take_unsent():
            self.start(self._messages.send(outgoing), "resend")
        held, self._decisions.held = self._decisions.held, []
        for each in held:
            self.start(self._decisions.send_again(each), "held decision")
        self.start(self._others.follow_events(events), "other turns")
        self.screen.redraw()

    def on_disconnected(self) -> None:
        """The connection was lost; followed runs are looked up after the next connect."""
        self._connection = None
        self.is_ready = False
        self.screen.redraw()

    async def request(self, message: pb.ClientMessage) -> pb.ServerMessage:
        if not self._entered:
            # A command that is typed while the chat still connects waits for that.
            await self._connected.wait()
        if self._connection is None:
            raise Unreachable("the daemon is not running", fix="A message or a decision starts it.")
        return await self._connection.request(message)

    async def refresh_agents(self) -> list[pb.AgentInfo]:
        found = (await self.request(pb.ClientMessage(list_agents=pb.ListAgentsMsg()))).agent_list.agents
        self.agents = {info.name: info.description for info in found if info.status == "active"}
        self._totals.load_agents(found)
        chosen = pb.ConversationModelMsg(agent=self.agent, sender=self.sender)
        self._totals.load_choice((await self.request(pb.ClientMessage(conversation_model=chosen))).conversation_model)
        return list(found)

    def guests(self) -> Mapping[str, str]:
        return {name: description for name, description in self.agents.items() if name != self.agent}

    async def history(self) -> pb.History:
        message = pb.GetHistoryMsg(agent=self.agent, sender=self.sender, newest=_PAST)
        try:
            history = (await self.request(pb.ClientMessage(get_history=message))).history
        except NotFound:
            return pb.History()
        self.on_context(history.context_tokens)
        return history

    def on_context(self, tokens: int) -> None:
        """Record the size of the last request."""
        self._totals.context_tokens = tokens

    async def _show_past(self) -> None:
        """Show the end of the history when the chat opens."""
        history = await self.history()
        past = list(history.messages)
        found = turns(past)
        if found and not found[-1][0].outcome:
            # The active run is shown by its stream, from its start.
            past = [entry for entry in past if entry.seq <= found[-1][0].seq]
        for entry in past:
            if entry.role == "user":
                self.screen.add_to_history(entry.content)
        self._others.mark_shown(history)
        self.screen.show(*self._slash.past(history, past))
        await self.show_digest()
        self.screen.show(*await self._describe_project())

    async def _describe_project(self) -> list[Line]:
        """The line that names the instruction files of the working directory, if there are any."""
        files = render_files(await asyncio.to_thread(read_project, self._cwd)) if self._cwd else ""
        return [lines.dim(await find_off(self) or files)] if files else []

    async def show_digest(self, *, again: bool = False) -> None:
        """Show what happened while the person was away, if they were, and note that they are here."""
        message = pb.VisitMsg(agent=self.agent, sender=self.sender, away_seconds=self.away_seconds, again=again)
        info = (await self.request(pb.ClientMessage(visit=message))).digest
        if info.is_due or (again and info.items):
            self.screen.show(*(lines.render_notice(line) for line in render_digest(info, now=time.time())))
        elif again:
            self.show_notice("nothing happened while you were away")

    async def refresh_usage(self) -> None:
        message = pb.GetUsageMsg(agent=self.agent, sender=self.sender)
        self._totals.load_usage((await self.request(pb.ClientMessage(get_usage=message))).usage.usage)

    async def refresh_asks(self) -> None:
        await self._asks.refresh()

    def print_approvals(self) -> None:
        self._decisions.print_approvals()

    # ---- runs ----

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.tasks.create_task(work, name=f"chat {name}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def close(self) -> None:
        """Stop following; the runs continue in the daemon."""
        for task in self._running:
            task.cancel()

    @contextmanager
    def show_work(self, text: str) -> Iterator[None]:
        """Show what the daemon does for this chat outside of a run, and for how long."""
        work = (text, time.monotonic())
        self._work.append(work)
        try:
            yield
        finally:
            self._work.remove(work)

    def show_notice(self, text: str) -> None:
        self.screen.show(lines.render_notice(text))

    def give_up_sending(self, error: MootError) -> None:
        """Report once that the daemon cannot be started, and return the text to the input line."""
        waiting = self._messages.take_unsent()
        self._decisions.give_up()
        self.screen.show(*lines.render_error(error.message, error.fix))
        self.screen.restore_input("\n".join(outgoing.typed for outgoing in waiting))

    def show_error(self, error: MootError) -> None:
        """Show an error; lost connections are reported elsewhere."""
        if not isinstance(error, Unreachable):
            self.screen.show(*lines.render_error(error.message, error.fix))

    async def follow(self, view: RunView, message: Runnable, introduce: Introduce | None = None) -> None:
        """Show a run to its end. `introduce` receives the message it answers and may refuse to follow."""
        if self._connection is None:
            raise Unreachable("the daemon is not running", fix="A message starts it.")
        try:
            with self._views.follow(view):
                async with aclosing(self._connection.stream(message)) as events:
                    async for event in events:
                        if event.HasField("start"):
                            await self._views.wait_for_turn(view)
                            if introduce and not await introduce(event.start.user_seq):
                                return
                        self._take(view, event)
            # What was shown to its end has been read.
            self._connection.post(pb.ClientMessage(visit=pb.VisitMsg(agent=self.agent, sender=self.sender)))
        except Unreachable:
            self._asks.keep_left_approvals(view.approvals)
            raise
        finally:
            self._others.on_run_ended()
            self.screen.redraw()

    def _take(self, view: RunView, event: pb.StreamEvent) -> None:
        closed = event.approval_closed if event.HasField("approval_closed") else event.ask_closed
        if closed.ask_id:
            self._asks.close(closed.ask_id, closed.attempt)
        finished = view.take(event)
        if finished:
            self.screen.show(*finished)
        if opened := event.ask_user.ask_id or event.approval_opened.ask_id:
            self._asks.call_person(opened)
        if event.HasField("approval_opened"):
            self._open_approvals.record_printed(event.approval_opened, rows=len(finished), at=self.screen.shown)
        if shown := event.start.user_seq or event.steered.user_seq:
            self._others.claim(shown)
        if view.end is not None:
            self._totals.add_run(view.speaker, view.end)
            if view.started:
                self.screen.notifier.on_answer(view.speaker, time.monotonic() - view.began)
        self.screen.redraw()

    # ---- called by the screen ----

    @property
    def running(self) -> bool:
        return bool(self._views)

    @property
    def views(self) -> RunViews:
        return self._views

    def is_following(self, user_seq: int = 0) -> bool:
        """Whether a run is shown: the one that answers this message, or any."""
        return self._views.is_showing(user_seq)

    def list_queued_contents(self) -> list[str]:
        """This chat's own queued messages."""
        return [view.content for view in self._views.list_waiting()]

    @property
    def waiting(self) -> bool:
        moves = self._views or self._work or self._others.activity
        return bool(moves) or self._connection is None or self._open_approvals.current() is not None

    def submit(self, text: str) -> None:
        typed = text.strip()
        question = self._asks.find_question()
        if typed.startswith("/") and not typed.startswith("//"):
            self.start(self._show_result(self._slash.run(typed)), "command")
        elif question is not None:
            self._answer(question, typed)
        elif not self._decides(typed):
            self._messages.say(text)

    def say(self, text: str, *, steer: bool) -> None:
        self._messages.say(text, steer=steer)

    def mark_cut_off(self, view: RunView) -> None:
        self._others.mark_cut_off(view)

    def folder(self) -> str:
        """The working directory of the runs, if it is on this machine."""
        return self._cwd

    async def change_folder(self, path: str) -> list[Line]:
        """Let runs work in another directory from the next message on; return what is to be known about it."""
        self._cwd = path
        return await self._describe_project()

    async def _show_result(self, work: Awaitable[list[Line]]) -> None:
        try:
            self.screen.show(*await work)
        except MootError as error:
            self.screen.show(*lines.render_error(error.message, error.fix))

    @property
    def has_unsent(self) -> bool:
        """Whether a message waits to be sent, so that the daemon must be started."""
        return bool(self._messages.unsent or self._decisions.held)

    def render_archive(self, info: pb.ArchiveInfo) -> list[Line]:
        return self._others.render_archive(info)

    def clear_screen(self) -> None:
        self.screen.clear()

    def stop_run(self) -> None:
        if self._connection is not None:
            kill = pb.KillMsg(agent=self.agent, sender=self.sender)
            self._connection.post(pb.ClientMessage(kill=kill))

    async def withdraw(self) -> list[Line]:
        return await self._messages.withdraw()

    def _answer(self, question: pb.AskUserEvent, typed: str) -> None:
        reply = self._asks.answer(question, typed)
        if reply is not None:
            self.start(reply, "reply")

    def begin(self) -> None:
        self._open_approvals.begin()

    async def refresh_settings(self) -> None:
        """Read again what the configuration decides: the agents, the model with its window, and the mode."""
        with suppress(MootError):
            await self.refresh_agents()
            await self.mode.refresh()
        self.screen.redraw()

    def _decides(self, typed: str) -> bool:
        """Whether the line was a decision on an approval; if not, it is a message."""
        reading = self._open_approvals.read(typed)
        if reading.note:
            self.show_notice(reading.note)
        if reading.decision is not None:
            self.start(self._decisions.send(HeldDecision(reading.decision, reading.shown)), "decision")
        self.screen.redraw()
        return reading.taken

    # ---- display ----

    def live(self) -> StyleAndTextTuples:
        """The live area: the streamed line, waits, the open question and the queue."""
        rows: list[Line] = []
        now, columns = time.monotonic(), self.screen.columns()
        for view in self._views:
            if view.started:
                progress = live_rows.render_progress(view, self.agent, now, columns)
                rows += [*view.tail[-_TAIL_ROWS:], *([progress] if progress else [])]
        for text, since in self._work:
            rows.append(live_rows.render_spinner(self.agent, text, now - since, self.agent, now, columns))
        rows += self._others.activity.rows(self.agent, columns)
        question = self._asks.find_question()
        if question is not None:
            rows += self._asks.render_question(question)
        rows += self._open_approvals.rows(behind=question is not None, at=self.screen.shown)
        rows += [live_rows.render_queued(view, now, columns) for view in self._views.list_waiting()]
        rows += [live_rows.render_others_queued(message, columns) for message in self._others.list_queued()]
        rows += [lines.dim(f"⋯ {outgoing.typed}") for outgoing in self._messages.unsent]
        rows += [lines.dim(f"⋯ {each.message.decision}: {each.shown.line}") for each in self._decisions.held]
        fragments: StyleAndTextTuples = []
        for row in (part for line in rows for part in broken(line, columns)):
            fragments += [("", "\n"), *row] if fragments else row
        return fragments

    def prompt(self) -> StyleAndTextTuples:
        return [("class:prompt", "answer › " if self._asks.find_question() is not None else "› ")]

    def switch_mode(self) -> None:
        """Switch to the next mode and show what it means."""
        self.start(self._show_result(self.mode.switch()), "switch the mode")

    def toolbar(self) -> StyleAndTextTuples:
        facts = self._totals.list_facts(
            mode=self.mode.name,
            auto_approve=self.mode.level,
            queued=sum(1 for view in self._views if view.position) + len(self._others.list_queued()),
            asks=self._open_approvals.count() + (self._asks.find_question() is not None),
            is_connected=self._connection is not None,
            is_running=bool(self._views),
        )
        return [("", facts.render(self.screen.columns()))]
