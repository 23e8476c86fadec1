"""Counts of what is deleted with a conversation. Pure."""

from msgspec import Struct


class DeletionCounts(Struct, frozen=True, kw_only=True):
    """What deleting a conversation would remove."""

    messages: int
    archives: int
    runs: int
    memories: int = 0
    tasks: int = 0
    notes: int = 0
    outputs: int = 0
    # Learnings from tool calls, results stored as knowledge, and inquiries.
    lessons: int = 0
    # Rules made in it, permanent or for one of its runs.
    rules: int = 0
    # Messages from other agents.
    mail: int = 0
    # Scheduled jobs that it owns.
    schedules: int = 0
    # Documents that were indexed for it.
    documents: int = 0
