"""Builds the messages and archives of a history for the protocol. Used by records.py."""

from bisect import bisect_left
from collections.abc import Sequence

from moot.domain.conversation import Archive, Recollection, StoppedTurn
from moot.domain.message import Entry, Role
from moot.domain.run import Outcome, Run, RunEnd
from moot.wire import moot_pb2 as pb
from moot.wire.events import tool_call


def build_archive_info(archive: Archive, messages: Sequence[pb.HistoryMessage] = ()) -> pb.ArchiveInfo:
    return pb.ArchiveInfo(
        number=archive.number,
        title=archive.title,
        summary=archive.summary,
        archived_at=archive.archived_at,
        first_seq=archive.first_seq,
        last_seq=archive.last_seq,
        messages=list(messages),
        closed=archive.is_closed,
        resumed=archive.resumed,
    )


def list_history_messages(
    entries: Sequence[Entry], runs: Sequence[Run], stopped: Sequence[StoppedTurn], archives: Sequence[Archive]
) -> list[pb.HistoryMessage]:
    """Return the entries, each user message with the outcome of its turn, so that interruptions are visible."""
    ends_by_seq = {turn.user_seq: RunEnd(outcome=Outcome(turn.outcome)) for turn in stopped}
    ends_by_seq |= {run.user_seq: run.end for run in runs if run.end is not None}
    by_end = sorted(archives, key=lambda archive: archive.last_seq)
    ends = [archive.last_seq for archive in by_end]
    messages: list[pb.HistoryMessage] = []
    began = {run.id: run.user_seq for run in runs if run.user_seq}
    for entry in entries:
        info = _make_history_message(entry, ends_by_seq.get(entry.seq))
        if entry.run_id and entry.message.role is Role.USER:
            # The first message of a run began its turn; later ones steered it.
            info.steered = began.setdefault(entry.run_id, entry.seq) < entry.seq
        place = bisect_left(ends, entry.seq)
        if place < len(ends) and by_end[place].first_seq <= entry.seq:
            info.archive = by_end[place].number
        messages.append(info)
    return messages


def list_passages(found: Recollection, runs: Sequence[Run], stopped: Sequence[StoppedTurn]) -> list[pb.HistoryMessage]:
    messages = list_history_messages(found.entries, runs, stopped, (found.archive,))
    for message, passage in zip(messages, found.passages, strict=True):
        message.offset, message.length = passage.start, len(message.content)
        message.content = message.content[passage.start : passage.end]
    return messages


def _make_history_message(entry: Entry, end: RunEnd | None) -> pb.HistoryMessage:
    message = entry.message
    info = pb.HistoryMessage(
        seq=entry.seq,
        role=message.role,
        content=message.content,
        agent=message.agent,
        tool_calls=[tool_call(call) for call in message.tool_calls],
        tool_call_id=message.tool_call_id,
        created_at=entry.created_at,
        is_error=message.is_error,
        taint=",".join(sorted(message.taint)),
        thinking="\n\n".join(thinking.text for thinking in message.thinking if thinking.text),
        private=message.is_private,
        duration_ms=message.duration_ms,
    )
    if end is not None and message.role is Role.USER:
        info.outcome, info.error = end.outcome, end.error
    return info
