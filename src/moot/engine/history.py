"""A conversation's active history in memory, and the transcripts built from it, which are extended, not rebuilt."""

import asyncio
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from moot.domain.conversation import Archive, Conversation, ConversationKey, LoadedConversation, StoppedTurn
from moot.domain.message import Entry, Message, Role, ToolCall, begins_turn
from moot.domain.ports.store import Store
from moot.domain.prompt import ToolSpec, Transcript
from moot.domain.run import UNDONE, Outcome, RunEnd
from moot.domain.scope import TOOL_SEARCH
from moot.domain.text import LARGE_TEXT, defuse
from moot.domain.tokens import estimate_message
from moot.domain.transcript_text import render_message
from moot.engine.framing import is_guest_message, make_summary_message, render_for_speaker, render_stopped_note
from moot.engine.shortening import find_latest_turn, shorten

KEPT_CONVERSATIONS = 512
KEPT_BYTES = 128 * 1024 * 1024
_USER, _ASSISTANT, _TOOL = Role.USER, Role.ASSISTANT, Role.TOOL


class History:
    """The entries that speakers see: those since the newest archive, after those of an archive that was resumed.

    Only the lane of its conversation modifies it, except for `trust`.
    """

    def __init__(self, loaded: LoadedConversation) -> None:
        conversation = loaded.conversation
        self.key: ConversationKey = conversation.key
        # The epoch under which this daemon writes the conversation; writes are rejected once another daemon has claimed
        # it.
        self.epoch = loaded.epoch
        self.cwd = conversation.cwd
        self.uses_project_files = conversation.uses_project_files
        # The model of the primary here; empty for its own.
        self.model = conversation.model
        # Whether unread mail has been looked for since it was loaded; a new conversation has none.
        self.mail_checked = conversation.last_seq == 0
        self.last_seq = conversation.last_seq
        self.archive_count = conversation.archive_count
        self.archived_seq = conversation.archived_seq
        self._trusted_seq = conversation.trusted_seq
        self.archive: Archive | None = loaded.archive
        self.entries: list[Entry] = []
        self._clear_entries()
        # By agent (empty for the primary): the index of its last entry whose request was counted by the provider.
        self._counted: dict[str, int] = {}
        # By agent: the system blocks and tools of the last request that was counted, if this daemon has sent it.
        self.counted_with: dict[str, tuple[tuple[str, ...], tuple[ToolSpec, ...]]] = {}
        # Messages before the history that are not part of it.
        self._opening: tuple[Message, ...] = ()
        self._transcripts: dict[bool, Transcript] = {}
        # Entries with large texts that have not been prepared for rendering.
        self._large = _list_large(loaded.entries)
        # Turns that ended without an answer, by the number of their message; and the notes shown before the next
        # message.
        self._stopped = {turn.user_seq: turn for turn in loaded.stopped}
        self._notes: dict[int, Message] = {}
        self._newest_message = 0
        # The tool names of calls that were rendered as text, by call id; needed for results in a later step.
        self._names: dict[bool, dict[str, str]] = {True: {}, False: {}}
        for entry in loaded.entries:
            self._note_stopped(entry)
            self._add(entry)

    def _clear_entries(self) -> None:
        self.entries = []
        # The number of characters, the guests that have spoken, and the ids of all tool calls.
        self.size = 0
        self.guests: set[str] = set()
        self.call_ids: set[str] = set()
        # The primary's calls of tool_search, and their entries with the results.
        self._search_ids: set[str] = set()
        self.searches: list[Entry] = []
        self._tainted: list[tuple[int, frozenset[str]]] = []
        # Estimated tokens of the first n entries, for every n.
        self._sizes = [0]
        # The number of the newest message that is not a tool result; 0 if there is none.
        self.last_said_seq = 0

    def _add(self, entry: Entry) -> None:
        message = entry.message
        if message.role is _ASSISTANT:
            if message.context_tokens:
                self._counted[message.agent] = len(self.entries)
            if message.agent:
                # A teammate's report is a user message, so its author is not a guest.
                self.guests.add(message.agent)
            if message.tool_calls:
                self._add_calls(entry, message)
        elif message.tool_call_id in self._search_ids:
            self.searches.append(entry)
        if message.role is not _TOOL:
            self.last_said_seq = entry.seq
        if message.taint:
            self._tainted.append((entry.seq, message.taint))
        self.entries.append(entry)
        self.size += len(message.content)
        self._sizes.append(self._sizes[-1] + estimate_message(message))

    def _add_calls(self, entry: Entry, message: Message) -> None:
        for call in message.tool_calls:
            self.call_ids.add(call.id)
            if call.name == TOOL_SEARCH and not message.agent:
                self._search_ids.add(call.id)
                self.searches.append(entry)

    @property
    def taint(self) -> frozenset[str]:
        """The sources of untrusted text in the whole history, except what the owner has marked as trusted."""
        return self.taint_until(self.last_seq)

    def taint_until(self, last_seq: int) -> frozenset[str]:
        """Return the untrusted sources in entries up to `last_seq`, including the newest archive's summary."""
        trusted = self._trusted_seq
        found: set[str] = set()
        if self.archive is not None and self.archive.taint and self.archive.last_seq > trusted:
            found |= self.archive.taint
        for seq, names in self._tainted:
            if trusted < seq <= last_seq:
                found |= names
        return frozenset(found)

    def is_trusted(self, seq: int) -> bool:
        """Whether the owner has marked an entry as trusted; False for 0."""
        return 0 < seq <= self._trusted_seq

    def trust(self, last_seq: int) -> None:
        """Mark everything up to `last_seq` as trusted. An active run uses this from its next call on."""
        self._trusted_seq = max(self._trusted_seq, last_seq)

    def open_calls(self) -> tuple[ToolCall, ...]:
        """Return the calls at the end of the history that have no result yet."""
        answered: set[str] = set()
        for entry in reversed(self.entries):
            message = entry.message
            if message.role is not _TOOL:
                return tuple(call for call in message.tool_calls if call.id not in answered)
            answered.add(message.tool_call_id)
        return ()

    def list_messages(self, run_id: str) -> list[Message]:
        """Return the messages of one run, without archived ones."""
        return [entry.message for entry in self.entries if entry.run_id == run_id]

    def end_turn(self, user_seq: int, speaker: str, end: RunEnd) -> None:
        """Remember how a turn ended; if its message has no answer, or nothing was done, the next request says so."""
        is_answered = bool(end.content)
        if end.outcome is Outcome.COMPLETED or (is_answered and end.outcome not in UNDONE):
            self._stopped.pop(user_seq, None)
        else:
            self._stopped[user_seq] = StoppedTurn(
                user_seq=user_seq, speaker=speaker, outcome=end.outcome, is_answered=is_answered
            )

    def _note_stopped(self, entry: Entry) -> None:
        if not begins_turn(entry, self.entries[-1] if self.entries else None):
            return
        stopped = self._stopped.get(self._newest_message)
        if stopped is not None:
            self._notes[entry.seq] = render_stopped_note(stopped, primary=self.key.agent)
        self._newest_message = entry.seq

    def extend(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._note_stopped(entry)
            self._add(entry)
            self.last_seq = entry.seq
        if large := _list_large(entries):
            # Rendered with the next request, after `prepare_large_texts`.
            self._large += large
            self._transcripts.clear()
            self._names = {True: {}, False: {}}
        for with_tools, transcript in self._transcripts.items():
            self._render_into(transcript, entries, with_tools=with_tools)

    async def prepare_large_texts(self) -> None:
        """Defuse large texts in a thread, so that rendering them does not hold the event loop."""
        while self._large:
            message = self._large.pop().message
            await asyncio.to_thread(defuse, message.content, enclosed=is_guest_message(message))

    def open_with(self, opening: tuple[Message, ...]) -> None:
        """Begin transcripts with these messages, which are kept in memory only."""
        if opening != self._opening:
            self._opening = opening
            self._transcripts.clear()
            self._names = {True: {}, False: {}}

    @property
    def opening_count(self) -> int:
        """The number of messages before the history in a transcript."""
        return len(self._opening)

    def is_shown_by(self, transcript: Transcript) -> bool:
        """Whether the transcript contains the whole history, as opposed to a view made for one request."""
        return any(transcript is each for each in self._transcripts.values())

    def transcript(self, *, with_tools: bool) -> Transcript:
        """Return what a speaker sees. Without tools, calls and results are rendered as text."""
        transcript = self._transcripts.get(with_tools)
        if transcript is None:
            transcript = Transcript(self._list_lead())
            self._render_into(transcript, self.entries, with_tools=with_tools)
            self._transcripts[with_tools] = transcript
        return transcript

    def shorten(self, *, with_tools: bool, room: int, redact: Callable[[str], str]) -> Transcript | None:
        """Return a transcript cut to `room` tokens for one request; None if the whole transcript fits."""
        messages = self.transcript(with_tools=with_tools).messages
        if sum(map(estimate_message, messages)) <= room:
            return None
        view = Transcript(shorten(messages, room, lead=len(self._list_lead()), redact=redact))
        # The context of the request must be placed after the same message as in the whole transcript.
        view.newest_message = find_latest_turn(view.messages) + 1
        return view

    def _list_lead(self) -> list[Message]:
        """Return the messages before the entries: the opening and the newest archive's summary."""
        return [*self._opening, *([make_summary_message(self.archive)] if self.archive is not None else [])]

    def _render_into(self, transcript: Transcript, entries: Sequence[Entry], *, with_tools: bool) -> None:
        names = self._names[with_tools]
        for entry in entries:
            transcript.extend(self.render((entry,), with_tools=with_tools, names=names))
            if entry.message.role is _USER:
                transcript.newest_message = len(transcript.messages)

    def render_archived(self, entries: Sequence[Entry]) -> list[Message]:
        """Return the oldest entries as text, with a note if the last turn among them was stopped."""
        stopped = self._stopped.get(_find_last_turn(entries))
        notes = [render_stopped_note(stopped, primary=self.key.agent)] if stopped is not None else []
        return [*self.render(entries, with_tools=False, names={}), *notes]

    def render(self, entries: Sequence[Entry], *, with_tools: bool, names: dict[str, str]) -> list[Message]:
        """Return entries as a speaker with or without tools sees them, with notes about stopped turns.

        A speaker with tools sees only the calls of other agents as text. `names` as in `as_text`.
        """
        rendered: list[Message] = []
        for entry in entries:
            if entry.seq in self._notes:
                rendered.append(self._notes[entry.seq])
            message = render_for_speaker(entry.message)
            if with_tools and not (message.agent and message.tool_calls) and message.tool_call_id not in names:
                rendered.append(message)
            elif (plain := render_message(message, names)) is not None:
                rendered.append(plain)
        return rendered

    def drop_archived(self, archive: Archive) -> None:
        """Remove archived entries; the next transcript starts with the archive's summary."""
        kept = [entry for entry in self.entries if entry.seq > archive.last_seq]
        self._clear_entries()
        for entry in kept:
            self._add(entry)
        self.archive = archive
        self._newest_message = self.last_user_seq()
        # A note before the first remaining entry refers to an archived message.
        self._notes = {entry.seq: self._notes[entry.seq] for entry in self.entries[1:] if entry.seq in self._notes}
        # The provider's counts include messages that are archived now.
        self._counted = {}
        self.archive_count = archive.number
        self.archived_seq = archive.last_seq
        self._transcripts.clear()
        self._names = {True: {}, False: {}}

    def estimate_tokens(self) -> int:
        """Estimate the tokens of everything a speaker sees."""
        return sum(map(estimate_message, self._list_lead())) + self._sizes[-1]

    def count_tokens(self, agent: str) -> int:
        """Return the tokens of the next request of `agent` (empty: the primary), based on the provider's count.

        The count of the last request includes instructions and tools; entries since then are estimated. Returns 0 if
        none was counted. Counts are stored with messages, so they survive restarts and messages of other agents.
        """
        at = self._counted.get(agent)
        if at is None:
            return 0
        return self.entries[at].message.context_tokens + self._sizes[-1] - self._sizes[at]

    @property
    def is_open(self) -> bool:
        """Whether there are entries since the newest archive."""
        return self.last_seq > self.archived_seq

    def entries_between(self, first: int, last: int) -> list[Entry]:
        """Return the entries with these numbers; none if the first is not shown, or the last does not exist yet."""
        at = bisect_left(self.entries, first, key=lambda entry: entry.seq)
        if last > self.last_seq or at == len(self.entries) or self.entries[at].seq != first:
            return []
        return [entry for entry in self.entries[at:] if entry.seq <= last]

    def last_user_seq(self) -> int:
        """Return the number of the message that began the newest turn; 0 if there is none."""
        return _find_last_turn(self.entries)


def _find_last_turn(entries: Sequence[Entry]) -> int:
    """Return the number of the first message of the newest turn; 0 if there is none."""
    for index in range(len(entries) - 1, -1, -1):
        if begins_turn(entries[index], entries[index - 1] if index else None):
            return entries[index].seq
    return 0


class Histories:
    """Histories in memory; the least recently used are dropped first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[ConversationKey, History] = OrderedDict()
        # Incremented by every change that makes a concurrent read from disk stale.
        self._changes = 0

    async def load(self, key: ConversationKey) -> History | None:
        while key not in self._kept:
            changes = self._changes
            loaded = await self._store.load(key)
            if key in self._kept or changes != self._changes:
                continue
            if loaded is None:
                return None
            self._kept[key] = History(loaded)
        self._kept.move_to_end(key)
        return self._kept[key]

    def peek(self, key: ConversationKey) -> History | None:
        """Return the history if it is in memory. It always is while a run is writing to it."""
        return self._kept.get(key)

    def trust(self, key: ConversationKey, last_seq: int) -> None:
        """Apply a stored change: text up to `last_seq` is trusted."""
        self._changes += 1
        history = self._kept.get(key)
        if history is not None:
            history.trust(last_seq)

    def set_cwd(self, key: ConversationKey, cwd: str) -> None:
        """Apply a stored change: the working directory from the next run on."""
        self._changes += 1
        history = self._kept.get(key)
        if history is not None:
            history.cwd = cwd

    def set_project_files(self, key: ConversationKey, *, used: bool) -> None:
        """Apply a stored change: whether runs are told the instruction files, from the next run on."""
        self._changes += 1
        history = self._kept.get(key)
        if history is not None:
            history.uses_project_files = used

    def set_model(self, key: ConversationKey, model: str) -> None:
        """Apply a stored change: the model of the primary from the next run on."""
        self._changes += 1
        history = self._kept.get(key)
        if history is not None:
            history.model = model

    def start(self, conversation: Conversation) -> History:
        history = History(LoadedConversation(conversation=conversation, archive=None, entries=()))
        self._kept[conversation.key] = history
        return history

    def drop(self, key: ConversationKey) -> None:
        """Drop a history that may differ from the disk; the next use loads it again."""
        self._changes += 1
        self._kept.pop(key, None)

    def trim(self, busy: Callable[[ConversationKey], bool]) -> None:
        size = sum(history.size for history in self._kept.values()) if len(self._kept) > 16 else 0
        for key in list(self._kept):
            if len(self._kept) <= KEPT_CONVERSATIONS and size <= KEPT_BYTES:
                return
            if not busy(key):
                self._changes += 1
                size -= self._kept.pop(key).size


def _list_large(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if len(entry.message.content) >= LARGE_TEXT]
