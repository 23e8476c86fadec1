"""A conversation remembers: its key, its state, and the archives of what was compacted."""

from typing import NamedTuple

from msgspec import Struct

from moot.domain.message import Entry
from moot.domain.usage import Usage


class ConversationKey(NamedTuple):
    """The only name of a conversation: who is talked to, and who talks."""

    agent: str
    sender: str

    def __str__(self) -> str:
        return f"{self.agent} ⇄ {self.sender}"


# When a conversation was last used, and what tells it from others of the same moment: the order of lists.
Place = tuple[float, int]


class Conversation(Struct, frozen=True, kw_only=True):
    key: ConversationKey
    title: str = ""
    cwd: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    last_seq: int = 0
    message_count: int = 0
    archive_count: int = 0
    # Up to here the owner has taken what was said as trusted.
    trusted_seq: int = 0
    # In a list of conversations: the strangers whose words the agent sees there, and where in the list it stands.
    taint: frozenset[str] = frozenset()
    place: Place = (0.0, 0)


class Archive(Struct, frozen=True, kw_only=True):
    """A compacted stretch of history. The messages first_seq..last_seq keep their attribution."""

    number: int
    first_seq: int
    last_seq: int
    title: str
    summary: str
    archived_at: float
    # What writing the summary took.
    model: str = ""
    usage: Usage = Usage()
    cost: float = 0.0
    taint: frozenset[str] = frozenset()


class StoppedTurn(Struct, frozen=True, kw_only=True):
    """A turn that ended without an answer: the number of its message, who was to answer it, and its outcome."""

    user_seq: int
    speaker: str
    outcome: str


class LoadedConversation(Struct, frozen=True, kw_only=True):
    """What a run needs of a conversation: its state, its newest archive, and the entries since."""

    conversation: Conversation
    archive: Archive | None
    entries: tuple[Entry, ...]
    # The turns among the entries that ended without an answer.
    stopped: tuple[StoppedTurn, ...] = ()
    # The epoch under which this daemon writes it, which the first write claims where no living daemon has it; 0 where
    # that is not known yet.
    epoch: int = 0


class Passage(Struct, frozen=True, kw_only=True):
    """The part of a message that a recall matched, as characters start..end of its content."""

    entry: Entry
    start: int
    end: int


class Recollection(Struct, frozen=True, kw_only=True):
    """One archive that a recall found, with the passages of its messages that matched, best archive first."""

    archive: Archive
    score: float
    passages: tuple[Passage, ...]
    # The part of the summary that fits best, as characters start..end.
    summary_span: tuple[int, int]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(passage.entry for passage in self.passages)
