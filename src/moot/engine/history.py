"""A conversation's active history in memory, and the transcripts built from it. They grow; they are not rebuilt."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate

from moot.domain.conversation import Archive, Conversation, ConversationKey, LoadedConversation, StoppedTurn
from moot.domain.message import Entry, Message, Role, ToolCall
from moot.domain.ports.store import Store
from moot.domain.prompt import Transcript
from moot.domain.run import Outcome, RunEnd
from moot.domain.tokens import estimate_message
from moot.domain.transcript_text import as_text, tell_foreign_calls
from moot.engine.framing import render_for_speaker, stopped_note, summary_message
from moot.engine.shortening import find_latest_turn, shorten

KEPT_CONVERSATIONS = 512
KEPT_BYTES = 128 * 1024 * 1024


class History:
    """The entries since the newest archive. Only the lane of its conversation changes it, but for what is trusted."""

    def __init__(self, loaded: LoadedConversation) -> None:
        conversation = loaded.conversation
        self.key: ConversationKey = conversation.key
        # Under which this daemon writes it: whatever goes by this history is rejected once another has claimed it.
        self.epoch = loaded.epoch
        self.cwd = conversation.cwd
        self.last_seq = conversation.last_seq
        self.archive_count = conversation.archive_count
        self._trusted_seq = conversation.trusted_seq
        self.archive: Archive | None = loaded.archive
        self.entries: list[Entry] = list(loaded.entries)
        self.size = sum(len(entry.message.content) for entry in self.entries)
        self.guests = _guests(self.entries)
        self.call_ids: set[str] = _call_ids(self.entries)
        self._tainted = _list_taints(self.entries)
        # Estimated tokens of the first n entries, for every n.
        self._sizes = _sizes(self.entries)
        # By agent (empty for the primary), where in the entries its last message is whose request was counted.
        self._counted = _index_counted(self.entries, 0)
        # What a speaker is told before all of it, and is not part of it.
        self._opening: tuple[Message, ...] = ()
        self._transcripts: dict[bool, Transcript] = {}
        # Turns that ended without an answer by the number of their message, and what is said of them before the next.
        self._stopped = {turn.user_seq: turn for turn in loaded.stopped}
        self._notes: dict[int, Message] = {}
        self._newest_message = 0
        self._note_stopped(self.entries)
        # The tools behind the calls a speaker without tools has been told of: results come in a later step.
        self._names: dict[bool, dict[str, str]] = {True: {}, False: {}}

    @property
    def taint(self) -> frozenset[str]:
        """The strangers whose words a speaker sees here, but for what the owner has taken as trusted."""
        return self.strangers(self.last_seq)

    def strangers(self, last_seq: int) -> frozenset[str]:
        """The same of what is seen up to last_seq, the newest archive's summary included."""
        trusted = self._trusted_seq
        found: set[str] = set()
        if self.archive is not None and self.archive.taint and self.archive.last_seq > trusted:
            found |= self.archive.taint
        for seq, strangers in self._tainted:
            if trusted < seq <= last_seq:
                found |= strangers
        return frozenset(found)

    def trust(self, last_seq: int) -> None:
        """The owner takes what was said up to last_seq as trusted; a run in flight goes by it from its next call on."""
        self._trusted_seq = max(self._trusted_seq, last_seq)

    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls at the end of the history that have no result yet."""
        answered: set[str] = set()
        for entry in reversed(self.entries):
            message = entry.message
            if message.role is not Role.TOOL:
                return tuple(call for call in message.tool_calls if call.id not in answered)
            answered.add(message.tool_call_id)
        return ()

    def end_turn(self, user_seq: int, speaker: str, end: RunEnd) -> None:
        """Remember how a turn ended; where nothing answered its message, the next request says so."""
        if end.outcome is Outcome.COMPLETED or end.content:
            self._stopped.pop(user_seq, None)
        else:
            self._stopped[user_seq] = StoppedTurn(user_seq=user_seq, speaker=speaker, outcome=end.outcome)

    def _note_stopped(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.message.role is Role.USER:
                stopped = self._stopped.get(self._newest_message)
                if stopped is not None:
                    self._notes[entry.seq] = stopped_note(stopped, primary=self.key.agent)
                self._newest_message = entry.seq

    def extend(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        self.entries.extend(entries)
        self._note_stopped(entries)
        self.last_seq = entries[-1].seq
        for entry in entries:
            self.size += len(entry.message.content)
        self.guests |= _guests(entries)
        self.call_ids |= _call_ids(entries)
        self._tainted += _list_taints(entries)
        self._sizes += _sizes(entries, self._sizes[-1])[1:]
        self._counted |= _index_counted(entries, len(self.entries) - len(entries))
        for with_tools, transcript in self._transcripts.items():
            self._render_into(transcript, entries, with_tools=with_tools)

    def open_with(self, opening: tuple[Message, ...]) -> None:
        """From now on transcripts begin with this; it is kept in memory alone."""
        if opening != self._opening:
            self._opening = opening
            self._transcripts.clear()
            self._names = {True: {}, False: {}}

    @property
    def opening_count(self) -> int:
        """How many messages of a transcript stand before the history."""
        return len(self._opening)

    def is_shown_by(self, transcript: Transcript) -> bool:
        """Whether the transcript shows the whole history, and not a view made for one request."""
        return any(transcript is each for each in self._transcripts.values())

    def transcript(self, *, with_tools: bool) -> Transcript:
        """What a speaker sees; one without tools sees calls and results told as text."""
        transcript = self._transcripts.get(with_tools)
        if transcript is None:
            transcript = Transcript(self._lead())
            self._render_into(transcript, self.entries, with_tools=with_tools)
            self._transcripts[with_tools] = transcript
        return transcript

    def shorten(self, *, with_tools: bool, room: int, redact: Callable[[str], str]) -> Transcript | None:
        """What a speaker sees whose window has room for so many tokens only, made for one request; None if all fits."""
        messages = self.transcript(with_tools=with_tools).messages
        if sum(map(estimate_message, messages)) <= room:
            return None
        view = Transcript(shorten(messages, room, lead=len(self._lead()), redact=redact))
        # What belongs to the request alone stands behind the same message as in the whole transcript.
        view.newest_message = find_latest_turn(view.messages) + 1
        return view

    def _lead(self) -> list[Message]:
        """What stands before the entries."""
        return [*self._opening, *([summary_message(self.archive)] if self.archive is not None else [])]

    def _render_into(self, transcript: Transcript, entries: Sequence[Entry], *, with_tools: bool) -> None:
        for entry in entries:
            transcript.extend(self.render([entry], with_tools=with_tools, names=self._names[with_tools]))
            if entry.message.role is Role.USER:
                transcript.newest_message = len(transcript.messages)

    def render_archived(self, entries: Sequence[Entry]) -> list[Message]:
        """The oldest entries as text, with what is to be known of the last turn among them."""
        last = next((entry.seq for entry in reversed(entries) if entry.message.role is Role.USER), 0)
        stopped = self._stopped.get(last)
        notes = [stopped_note(stopped, primary=self.key.agent)] if stopped is not None else []
        return [*self.render(entries, with_tools=False, names={}), *notes]

    def render(self, entries: Sequence[Entry], *, with_tools: bool, names: dict[str, str]) -> list[Message]:
        """Some of the entries as a speaker sees them, with what is said of turns that were stopped."""
        seen: list[Message] = []
        for entry in entries:
            if entry.seq in self._notes:
                seen.append(self._notes[entry.seq])
            seen += render([entry.message], with_tools=with_tools, names=names)
        return seen

    def drop_archived(self, archive: Archive) -> None:
        """Forget what the archive now holds; the next transcript starts from its summary."""
        self.entries = [entry for entry in self.entries if entry.seq > archive.last_seq]
        self.archive = archive
        self._newest_message = self.last_user_seq()
        # The message that the first of these was said of is in the archive now.
        self._notes = {entry.seq: self._notes[entry.seq] for entry in self.entries[1:] if entry.seq in self._notes}
        self.size = sum(len(entry.message.content) for entry in self.entries)
        self.guests = _guests(self.entries)
        self.call_ids = _call_ids(self.entries)
        self._tainted = _list_taints(self.entries)
        self._sizes = _sizes(self.entries)
        # What stays was counted together with what is archived now.
        self._counted = {}
        self.archive_count = archive.number
        self._transcripts.clear()
        self._names = {True: {}, False: {}}

    def estimate_tokens(self) -> int:
        """About how many tokens all that a speaker sees of it takes."""
        return sum(map(estimate_message, self._lead())) + self._sizes[-1]

    def counted_tokens(self, agent: str) -> int:
        """Tokens of the next request of `agent`, the primary where that is empty, as far as a provider counted them.

        The last request counts with its instructions and tools, and what was added since by an estimate; 0 where none
        was counted. The counts are stored with the messages, so they hold after a restart and after others spoke.
        """
        at = self._counted.get(agent)
        if at is None:
            return 0
        return self.entries[at].message.context_tokens + self._sizes[-1] - self._sizes[at]

    def last_said_seq(self) -> int:
        """The number of the newest message that is no tool's result."""
        for entry in reversed(self.entries):
            if entry.message.role is not Role.TOOL:
                return entry.seq
        return 0

    def last_user_seq(self) -> int:
        for entry in reversed(self.entries):
            if entry.message.role is Role.USER:
                return entry.seq
        return 0


def _guests(entries: Sequence[Entry]) -> set[str]:
    """The agents that have spoken; one that reports to its parent has written, and not spoken."""
    return {entry.message.agent for entry in entries if entry.message.agent and entry.message.role is Role.ASSISTANT}


def _sizes(entries: Sequence[Entry], first: int = 0) -> list[int]:
    return list(accumulate((estimate_message(entry.message) for entry in entries), initial=first))


def _index_counted(entries: Sequence[Entry], first: int) -> dict[str, int]:
    return {
        entry.message.agent: at
        for at, entry in enumerate(entries, first)
        if entry.message.role is Role.ASSISTANT and entry.message.context_tokens
    }


def _call_ids(entries: Sequence[Entry]) -> set[str]:
    return {call.id for entry in entries for call in entry.message.tool_calls}


def render(messages: Sequence[Message], *, with_tools: bool, names: dict[str, str] | None = None) -> list[Message]:
    """The messages as a speaker with or without tools sees them; `names` as in `as_text`."""
    seen = [render_for_speaker(message) for message in messages]
    names = {} if names is None else names
    return tell_foreign_calls(seen, names) if with_tools else as_text(seen, names)


def _list_taints(entries: Sequence[Entry]) -> list[tuple[int, frozenset[str]]]:
    return [(entry.seq, entry.message.taint) for entry in entries if entry.message.taint]


class Histories:
    """Histories in memory, the least recently used dropped first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[ConversationKey, History] = OrderedDict()
        # Goes up with whatever makes what somebody is reading from the disk right now out of date.
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
        """The history where it is in memory. While a run has added anything to it, it is."""
        return self._kept.get(key)

    def trust(self, key: ConversationKey, last_seq: int) -> None:
        """What the disk has by now: words up to last_seq are trusted."""
        self._changes += 1
        history = self._kept.get(key)
        if history is not None:
            history.trust(last_seq)

    def set_cwd(self, key: ConversationKey, cwd: str) -> None:
        """What the disk has by now: the directory its runs work in from the next on."""
        self._changes += 1
        history = self._kept.get(key)
        if history is not None:
            history.cwd = cwd

    def start(self, conversation: Conversation) -> History:
        history = History(LoadedConversation(conversation=conversation, archive=None, entries=()))
        self._kept[conversation.key] = history
        return history

    def drop(self, key: ConversationKey) -> None:
        """Forget a history whose copy on disk may differ; the next use reads it again."""
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
