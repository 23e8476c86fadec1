"""Which archives of a conversation can be continued, newest first. Pure."""

from collections.abc import Sequence

from moot.wire import moot_pb2 as pb


def list_resumable(archives: Sequence[pb.ArchiveInfo]) -> list[pb.ArchiveInfo]:
    """The archives that a new conversation was begun after, except those that a later one continues."""
    continued = {info.resumed for info in archives}
    return [info for info in reversed(archives) if info.closed and info.number not in continued]
