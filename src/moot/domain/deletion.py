"""What goes with a conversation that is deleted. Pure."""

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
    # What tool calls taught, and results kept as knowledge.
    lessons: int = 0
    # What was allowed in it for good, or for one of its runs.
    rules: int = 0
