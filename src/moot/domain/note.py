"""Notes on a conversation: observations as it grows, reflections that condense them, and when they are due. Pure."""

from enum import StrEnum

from msgspec import Struct

NOTE_LENGTH = 8_192


class NoteKind(StrEnum):
    OBSERVATION = "observation"
    REFLECTION = "reflection"


class Note(Struct, frozen=True, kw_only=True):
    """A note about the messages first_seq..last_seq of one conversation."""

    kind: NoteKind
    content: str
    first_seq: int
    last_seq: int
    taint: frozenset[str] = frozenset()
    number: int = 0
    created_at: float = 0.0


class NoteProgress(Struct, frozen=True, kw_only=True):
    """How far a conversation is noted: its newest message, the newest one observed, and observations not yet condensed.

    `trusted_seq` is the newest message that its owner has marked as trusted.
    """

    last_seq: int = 0
    noted_seq: int = 0
    trusted_seq: int = 0
    open: tuple[Note, ...] = ()


def is_observation_due(history_length: int, last_noted_seq: int, *, every: int) -> bool:
    """Whether there are enough messages since the last observation for another one."""
    return every > 0 and history_length - last_noted_seq >= every


def is_reflection_due(observations: int, *, every: int) -> bool:
    """Whether there are enough observations that no reflection has condensed."""
    return every > 0 and observations >= every


def span(notes: tuple[Note, ...]) -> tuple[int, int]:
    """Return the first and last message number that these notes cover."""
    return min(note.first_seq for note in notes), max(note.last_seq for note in notes)
