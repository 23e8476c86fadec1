"""Shows what other clients do in the conversation of a chat: their turns, the queue, archives. Used by `controller`.

The daemon announces each run that starts. A run that this chat does not follow yet is joined, or shown from the history
if it has ended. Turns are identified by the number of their user message, so none is shown twice.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec.structs import replace

from moot.cli.chat import lines
from moot.cli.chat.activity import Activity
from moot.cli.chat.chat_context import ChatContext
from moot.cli.chat.mode_switch import ModeSwitch
from moot.cli.chat.queued_message import QueuedMessage, list_queued
from moot.cli.chat.screen import Screen
from moot.cli.chat.view import RunView
from moot.cli.markdown.styles import Line
from moot.cli.program import hint
from moot.client.connection import Runnable
from moot.client.errors import Unreachable
from moot.domain.errors import MootError, NotFound
from moot.wire import moot_pb2 as pb

_ASKS = (pb.ASK, pb.ASK_CLOSED, pb.APPROVAL, pb.APPROVAL_CLOSED)
# What is shown of messages that arrive. A message that the agent sends is shown as a tool call.
_MAIL = {
    pb.MAIL_DELIVERED: "mail_delivered",
    pb.MAIL_EVICTED: "mail_evicted",
    pb.MAIL_DROPPED: "mail_dropped",
    pb.BRIDGE_REFUSED: "bridge_refused",
}
_MAIL_NOTES = {
    pb.MAIL_EVICTED: " (evicted unread; see `moot peers dead`)",
    pb.MAIL_DROPPED: " (refused; see `moot peers dead`)",
    pb.BRIDGE_REFUSED: " (refused; see `moot peers dead`)",
}
_MAIL_KEPT = 128
_QUEUE = (pb.QUEUED, pb.STARTED, pb.STEERED, pb.DONE)

Turn = list[pb.HistoryMessage]
Introduce = Callable[[int], Awaitable[bool]]


class FollowingContext(ChatContext, Protocol):
    """The part of the chat that this module uses."""

    @property
    def screen(self) -> Screen: ...
    @property
    def running(self) -> bool: ...
    @property
    def mode(self) -> ModeSwitch: ...
    def is_following(self, user_seq: int = 0) -> bool: ...
    def list_queued_contents(self) -> list[str]: ...
    def show_error(self, error: MootError) -> None: ...
    async def follow(self, view: RunView, message: Runnable, introduce: Introduce | None = None) -> None: ...
    async def refresh_usage(self) -> None: ...
    async def refresh_asks(self) -> None: ...
    def print_approvals(self) -> None: ...
    async def refresh_settings(self) -> None: ...
    def on_context(self, tokens: int) -> None: ...


def turns(messages: Sequence[pb.HistoryMessage]) -> list[Turn]:
    """Group the history by turns: a user message and what follows it, with the messages that steered its run."""
    found: list[Turn] = []
    for entry in messages:
        if entry.role == "user" and not (entry.steered and found):
            found.append([entry])
        elif found:
            found[-1].append(entry)
    return found


class OtherTurns:
    """Outlives connections, like the chat. `queued` are all messages that wait in the daemon."""

    def __init__(self, chat: FollowingContext) -> None:
        self._chat = chat
        # The turns that were shown, and those to be shown, by the numbers of their messages.
        self._shown: set[int] = set()
        self._wanted: set[int] = set()
        self._is_joining = False
        self._news = asyncio.Event()
        self._turns_changed = asyncio.Event()
        # The archives that were shown: their number, and what follows them.
        self._archives: set[tuple[int, bool, int]] = set()
        self._compacted = False
        self._mode_changed = False
        # What is configured may have changed since the last turn.
        self._settings_changed = False
        # The runs that were followed when the connection was lost.
        self._cut_off: list[RunView] = []
        # There may be asks from before this chat was opened.
        self._asks_changed = True
        self._queue_changed = False
        # Teammates may have started before this chat was opened or while it was disconnected.
        self._activity_changed = True
        self.activity = Activity(time.monotonic)
        # This chat's messages that were queued when the connection was lost.
        self._unconfirmed: list[str] = []
        # The latest messages between agents that were shown.
        self._mail_shown: deque[Line] = deque(maxlen=_MAIL_KEPT)
        self.queued: list[QueuedMessage] = []

    # ---- called by the chat ----

    def mark_shown(self, history: pb.History) -> None:
        """Record that the history was shown, up to the message that is being answered."""
        found = turns(history.messages)
        self._shown.update(turn[0].seq for turn in found)
        self.queued = list_queued(history)
        if found and not found[-1][0].outcome:
            self._want(found[-1][0].seq)

    def catch_up(self, history: pb.History, *, unsent: Collection[str]) -> None:
        """Show what happened without a connection, except for what is about to be sent again."""
        self._activity_changed = True
        found = turns(history.messages)
        self.queued = list_queued(history)
        lost, self._cut_off = {view.user_seq for view in self._cut_off}, []
        self._unconfirmed = []
        for turn in found:
            question = turn[0]
            if not question.outcome:
                if question.content not in unsent:
                    self._want(question.seq)
            elif question.seq in lost:
                self._show_rest(turn)
            elif question.seq not in self._shown and question.content not in unsent:
                self._show(turn)

    def claim(self, user_seq: int) -> None:
        """Record that this turn is shown by a stream."""
        self._shown.add(user_seq)
        self._wanted.discard(user_seq)

    def mark_cut_off(self, view: RunView) -> None:
        """Record that the connection was lost during a run or while a message was queued."""
        if view.started:
            self._cut_off.append(view)
        elif view.echo:
            self._unconfirmed.append(view.content)

    def render_archive(self, info: pb.ArchiveInfo) -> list[Line]:
        """Show a manual archive, made here or elsewhere, once."""
        shown = (info.number, info.closed, info.resumed)
        if shown in self._archives:
            return []
        self._archives.add(shown)
        # The size of the last request says nothing about the next one.
        self._chat.on_context(0)
        if info.resumed:
            return [lines.render_divider(f"archive {info.resumed} is continued")]
        if info.closed:
            return [lines.render_divider(f"new conversation; the earlier one: /resume {info.number} ({info.title})")]
        return [lines.render_divider(f"compacted into archive {info.number}: {info.title}")]

    def on_run_ended(self) -> None:
        """Show what was held back while a run was followed; its teammates' asks stay open."""
        self._asks_changed = True
        self._news.set()
        self._turns_changed.set()

    def list_queued(self) -> list[QueuedMessage]:
        """The queued messages of other clients, in order."""
        own = Counter(self._chat.list_queued_contents())
        others: list[QueuedMessage] = []
        # Messages queued at the disconnect may be in the last list or newer than it.
        late = Counter(self._unconfirmed) - Counter(message.content for message in self.queued)
        known = [replace(message, position=position) for position, message in enumerate(self.queued, 1)]
        for message in [*known, *map(QueuedMessage, late.elements())]:
            if own[message.content] > 0:
                own[message.content] -= 1
            else:
                others.append(message)
        return others

    # ---- events of the daemon ----

    async def follow_events(self, events: AsyncGenerator[pb.AgentEventMsg, None]) -> None:
        """Process events until the connection ends."""
        try:
            async with aclosing(events), asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_up(), name="other turns")
                tasks.create_task(self._join_wanted(), name="chat joins")
                async for event in events:
                    self._read(event)
        except* MootError:
            # The owner of the connection reports the loss and reconnects.
            pass

    def _read(self, event: pb.AgentEventMsg) -> None:
        if event.kind == pb.GAP:
            self._read_all_again()
        elif event.kind == pb.RELOADED:
            self._settings_changed = True
            self._news.set()
        elif (event.root_agent, event.root_sender) == (self._chat.agent, self._chat.sender):
            if event.kind == pb.MODE_CHANGED:
                self._mode_changed = True
                self._news.set()
            self._read_own(event)

    def _show_mail(self, event: pb.AgentEventMsg) -> None:
        mail = getattr(event.body, _MAIL[event.kind])
        # Nobody knows who sent mail that has no id.
        if mail.mail_id:
            line = lines.render_mail(mail.from_agent, mail.to_agent, mail.body, hint(_MAIL_NOTES.get(event.kind, "")))
            self._mail_shown.append(line)
            self._chat.screen.show(line)

    def _read_own(self, event: pb.AgentEventMsg) -> None:
        """Process an event of the conversation or of a teammate that works for it."""
        if event.kind in _ASKS:
            self._asks_changed = True
            self._news.set()
        if event.parent_id:
            self.activity.read(event)
            self._chat.screen.redraw()
        elif event.kind in _MAIL:
            self._show_mail(event)
        elif event.kind == pb.COMPACTED and not event.speaker:
            # A manual archive; automatic ones are shown with their run.
            self._compacted = True
            self._news.set()
        elif event.kind in _QUEUE and (event.agent, event.sender) == (self._chat.agent, self._chat.sender):
            self._queue_changed = True
            self._news.set()
            if event.kind == pb.STARTED:
                del self.queued[:1]
                if not self._chat.is_following(event.user_seq):
                    self._want(event.user_seq)

    def _read_all_again(self) -> None:
        """Fetch everything that missing events may have reported."""
        self._asks_changed = self._queue_changed = self._activity_changed = self._compacted = True
        self._mode_changed = self._settings_changed = True
        self._want(max(self._shown, default=0) + 1)

    def _want(self, user_seq: int) -> None:
        self._wanted.add(user_seq)
        self._turns_changed.set()

    async def _keep_up(self) -> None:
        """Fetch what events report as changed."""
        while True:
            self._news.clear()
            if self._asks_changed:
                self._asks_changed = False
                await self._chat.refresh_asks()
                self._print_approvals()
            if self._mode_changed:
                self._mode_changed = False
                await self._chat.mode.refresh()
                self._chat.screen.redraw()
            if self._settings_changed:
                self._settings_changed = False
                await self._chat.refresh_settings()
            if self._compacted:
                self._compacted = False
                await self._show_newest_archive()
            if self._queue_changed:
                self._queue_changed = False
                await self._refresh_queue()
            if self._activity_changed:
                self._activity_changed = False
                await self._refresh_activity()
            await self._news.wait()

    async def _join_wanted(self) -> None:
        """Follow runs started by others, one at a time."""
        while True:
            # Set for every run, and when a followed run has been removed from the screen.
            self._turns_changed.clear()
            # Show the followed run to its end first.
            if self._wanted and not self._chat.is_following():
                first = min(self._wanted)
                self._wanted.clear()
                self._is_joining = True
                try:
                    await self._join(first)
                    await self._show_turns(first)
                finally:
                    self._is_joining = False
            self._print_approvals()
            await self._turns_changed.wait()

    def _print_approvals(self) -> None:
        """Print approvals that no stream prints; a run that is followed, or will be, prints its own."""
        if not (self._wanted or self._is_joining or self._chat.is_following()):
            self._chat.print_approvals()

    async def _join(self, first: int) -> None:
        """Follow the active run from its start."""
        view = RunView(self._chat.agent, time.monotonic, text_format=self._chat.screen.text_format)
        attach = pb.AttachMsg(agent=self._chat.agent, sender=self._chat.sender)
        try:
            await self._chat.follow(view, attach, lambda user_seq: self._introduce(user_seq, first))
        except NotFound:
            # The run has ended; its turn is in the history.
            return
        except (Unreachable, asyncio.CancelledError):
            # Cancelled if the subscription noticed the lost connection first.
            self.mark_cut_off(view)
            raise
        except MootError as error:
            self._chat.show_error(error)

    async def _introduce(self, user_seq: int, first: int) -> bool:
        """Show the message that the active run answers; False if another stream of this chat shows it."""
        if self._chat.is_following(user_seq):
            return False
        if user_seq not in self._shown:
            await self._show_turns(min(first, user_seq), running=user_seq)
        return True

    async def _show_turns(self, first: int, *, running: int = 0) -> None:
        """Show the turns from `first` on that were not shown yet; of the active one only its message."""
        request = pb.GetHistoryMsg(agent=self._chat.agent, sender=self._chat.sender, first_seq=first)
        try:
            found = turns((await self._chat.request(pb.ClientMessage(get_history=request))).history.messages)
        except NotFound:
            return
        is_shown = False
        for turn in found:
            question = turn[0]
            if question.seq in self._shown:
                continue
            if question.seq == running:
                self._shown.add(question.seq)
                shown = lines.render_question(question, self._chat.agent)
                # Mail that starts a run was shown when it arrived.
                self._chat.screen.show([], *(line for line in shown if line not in self._mail_shown))
                # Show later turns after it.
                break
            if question.outcome:
                self._show(turn)
                is_shown = True
        if is_shown:
            await self._chat.refresh_usage()

    async def _show_newest_archive(self) -> None:
        request = pb.ListArchivesMsg(agent=self._chat.agent, sender=self._chat.sender)
        try:
            found = (await self._chat.request(pb.ClientMessage(list_archives=request))).archive_list.archives
        except NotFound:
            return
        if found:
            newest = max(found, key=lambda info: info.number)
            self._chat.screen.show(*self.render_archive(newest))
            await self._refresh_queue()

    def _show(self, turn: Turn) -> None:
        self._shown.add(turn[0].seq)
        self._chat.screen.show(*lines.render_history(turn, self._chat.agent, self._chat.screen.text_format))

    def _show_rest(self, turn: Turn) -> None:
        """Show the rest of a run whose start was already shown."""
        self._chat.screen.show(*lines.render_history(turn[1:], self._chat.agent, self._chat.screen.text_format))
        if turn[0].outcome != "completed":
            self._chat.screen.show(lines.render_ending(turn[0].outcome, turn[0].error))

    async def _refresh_queue(self) -> None:
        request = pb.GetHistoryMsg(agent=self._chat.agent, sender=self._chat.sender, newest=1)
        try:
            history = (await self._chat.request(pb.ClientMessage(get_history=request))).history
        except NotFound:
            history = pb.History()
        self.queued = list_queued(history)
        self._chat.on_context(history.context_tokens)
        self._chat.screen.redraw()

    async def _refresh_activity(self) -> None:
        self.activity.clear()
        found = (await self._chat.request(pb.ClientMessage(list_runs=pb.ListRunsMsg()))).run_list.runs
        here = (self._chat.agent, self._chat.sender)
        self.activity.load(
            info for info in found if info.kind == "teammate" and (info.root_agent, info.root_sender) == here
        )
        self._chat.screen.redraw()
