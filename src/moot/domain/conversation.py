"""Conversation: its key and state, and the archives of its earlier parts."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from moot.domain.message import Entry
from moot.domain.usage import Usage


class ConversationKey(NamedTuple):
    """The identity of a conversation: the agent and the sender."""

    agent: str
    sender: str

    def __str__(self) -> str:
        return f"{self.agent} as {self.sender}"


# Sort key of lists: when a conversation was last used, and a tie-breaker.
Place = tuple[float, int]


class Conversation(Struct, frozen=True, kw_only=True):
    key: ConversationKey
    title: str = ""
    cwd: str = ""
    # The mode a person has set for it (domain/mode.py); empty if the configured one applies.
    mode: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    last_seq: int = 0
    message_count: int = 0
    archive_count: int = 0
    # The number of the last archived message.
    archived_seq: int = 0
    # The model that the agent uses here; empty for the agent's own.
    model: str = ""
    # Messages up to this number are marked as trusted by the owner.
    trusted_seq: int = 0
    # Whether its runs are told the instruction files of the project.
    uses_project_files: bool = True
    # In lists of conversations: the sources of untrusted text the agent sees there, and the position in the list.
    taint: frozenset[str] = frozenset()
    place: Place = (0.0, 0)


class Archive(Struct, frozen=True, kw_only=True):
    """An earlier part of a history. The messages first_seq..last_seq keep their attribution.

    What follows it begins with its summary, unless it is closed: then with nothing, or with the archive `resumed`.
    """

    number: int
    first_seq: int
    last_seq: int
    title: str
    summary: str
    archived_at: float
    # The usage for writing the summary.
    model: str = ""
    usage: Usage = Usage()
    cost: float = 0.0
    # The root run of the tree whose budget the summary counts against; empty if a person asked for it.
    root_id: str = ""
    taint: frozenset[str] = frozenset()
    is_closed: bool = False
    resumed: int = 0


class Opening(NamedTuple):
    """What a speaker sees before the messages since the newest archive: a summary, and ranges of archived messages."""

    summary: Archive | None = None
    ranges: tuple[tuple[int, int], ...] = ()


def find_opening(newest: Archive | None, get: Callable[[int], Archive]) -> Opening:
    """Return what the messages after the newest archive begin with; `get` finds an earlier archive by its number."""
    ranges: list[tuple[int, int]] = []
    while newest is not None and newest.resumed:
        # An archive that was resumed is seen as it was: with its own beginning, which is older.
        resumed = get(newest.resumed)
        ranges.append((resumed.first_seq, resumed.last_seq))
        newest = get(resumed.number - 1) if resumed.number > 1 else None
    return Opening(None if newest is None or newest.is_closed else newest, tuple(reversed(ranges)))


class StoppedTurn(Struct, frozen=True, kw_only=True):
    """A turn that ended without an answer: the number of its message, the speaker, and its outcome.

    With `is_answered`, one that has an answer and yet did nothing of what was requested.
    """

    user_seq: int
    speaker: str
    outcome: str
    is_answered: bool = False


class LoadedConversation(Struct, frozen=True, kw_only=True):
    """What a run needs of a conversation: its state, the archive whose summary opens it, and the entries after."""

    conversation: Conversation
    archive: Archive | None
    entries: tuple[Entry, ...]
    # Turns among the entries that ended without an answer.
    stopped: tuple[StoppedTurn, ...] = ()
    # The epoch under which this daemon writes the conversation; 0 if not yet known. The first write claims it if no
    # living daemon owns the conversation.
    epoch: int = 0


class Passage(Struct, frozen=True, kw_only=True):
    """The part of a message that a recall matched: characters start..end of its content."""

    entry: Entry
    start: int
    end: int


class Recollection(Struct, frozen=True, kw_only=True):
    """One archive that a recall found, with the passages of its messages that matched, best archive first."""

    archive: Archive
    score: float
    passages: tuple[Passage, ...]
    # The best matching part of the summary, as characters start..end.
    summary_span: tuple[int, int]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(passage.entry for passage in self.passages)
