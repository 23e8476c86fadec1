"""Conversations in memory: load, list, change, archive, import. Used by store.py."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import (
    Archive,
    Conversation,
    ConversationKey,
    LoadedConversation,
    Opening,
    Place,
    StoppedTurn,
    find_opening,
)
from moot.domain.digest import Visit
from moot.domain.errors import BadRequest, Conflict, NotFound
from moot.domain.message import Entry, Message
from moot.domain.run import UNDONE, Outcome
from moot.domain.senders import CHILD_SENDER
from moot.store.memory import nodes
from moot.store.memory.database import ConversationRow, Database, RunRow, check_message, check_text


def load(db: Database, key: ConversationKey) -> LoadedConversation | None:
    row = db.conversation(key)
    if row is None:
        return None
    archive = db.archives.get((row.id, row.archives))
    return load_part(db, row, archive, row.last_seq)


def load_part(db: Database, row: ConversationRow, archive: Archive | None, last: int) -> LoadedConversation:
    """Return what a speaker sees up to message `last` if this is the newest archive."""
    opening = _opening_after(db, row, archive)
    ranges = (*opening.ranges, (archive.last_seq + 1 if archive else 1, last))
    return LoadedConversation(
        conversation=row.read(),
        archive=opening.summary,
        entries=tuple(entry for range_ in ranges for entry in db.entries(row.id, *range_)),
        stopped=tuple(list_stopped_turns(db, row.id, ranges[0][0])),
        epoch=nodes.next_epoch(db, row),
    )


def _opening_after(db: Database, row: ConversationRow, archive: Archive | None) -> Opening:
    return find_opening(archive, lambda number: db.archives[row.id, number])


def list_stopped_turns(db: Database, conversation: int, first: int) -> list[StoppedTurn]:
    """Return the turns since message `first` that ended without an answer, and those that have one and did nothing.

    The last attempt counts.
    """
    newest: dict[int, RunRow] = {}
    for run in sorted(db.runs.find("conversation", conversation), key=lambda run: run.number):
        if run.is_ended and run.user_seq >= first:
            newest[run.user_seq] = run
    imported = db.imported_stopped_turns.get(conversation) or ()
    return [turn for turn in imported if turn.user_seq >= first] + [
        StoppedTurn(user_seq=seq, speaker=run.request.speaker, outcome=run.outcome, is_answered=_is_answered(run))
        for seq, run in sorted(newest.items())
        if run.outcome != Outcome.COMPLETED and (not _is_answered(run) or run.outcome in UNDONE)
    ]


def _is_answered(run: RunRow) -> bool:
    return run.reply_seq > 0 or (run.end is not None and bool(run.end.content))


def find_stopped_turns(db: Database, key: ConversationKey, first: int) -> list[StoppedTurn]:
    """Return the turns since message `first` that ended without an answer."""
    row = db.conversation(key)
    found = [] if row is None else list_stopped_turns(db, row.id, first)
    return [turn for turn in found if not turn.is_answered]


class ConversationFilter(Struct, frozen=True, kw_only=True):
    """A filter for conversations: an empty agent or sender matches all except those of teammates."""

    agent: str = ""
    sender: str = ""
    teammates: bool = False
    after: Place | None = None
    limit: int | None = None

    def includes(self, row: ConversationRow) -> bool:
        if self.agent not in ("", row.key.agent) or self.sender not in ("", row.key.sender):
            return False
        if not self.sender and not self.teammates and row.key.sender.startswith(CHILD_SENDER):
            return False
        return self.after is None or (row.updated_at, row.id) < self.after


def list_conversations(db: Database, wanted: ConversationFilter) -> list[Conversation]:
    found = [row for row in db.conversations if wanted.includes(row)]
    found.sort(key=lambda row: (row.updated_at, row.id), reverse=True)
    return [replace(row.read(), taint=_taint(db, row), place=(row.updated_at, row.id)) for row in found[: wanted.limit]]


def _taint(db: Database, row: ConversationRow) -> frozenset[str]:
    """Return the sources of untrusted text visible to a speaker, except what the owner has trusted."""
    loaded = load_part(db, row, db.archives.get((row.id, row.archives)), row.last_seq)
    names: set[str] = set()
    for entry in loaded.entries:
        if entry.seq > row.trusted_seq:
            names |= entry.message.taint
    if loaded.archive is not None and loaded.archive.last_seq > row.trusted_seq:
        names |= loaded.archive.taint
    return frozenset(names)


def entries(db: Database, key: ConversationKey, first: int, last: int) -> list[Entry]:
    row = db.conversation(key)
    return [] if row is None else db.entries(row.id, first, last if last > 0 else row.last_seq)


def trust(db: Database, key: ConversationKey, last: int) -> None:
    row = nodes.require_held(db, key)
    # At most the last number in use: later numbers belong to future messages.
    db.change_conversation(row, trusted_seq=max(row.trusted_seq, min(row.last_seq, last)))


def set_title(db: Database, key: ConversationKey, title: str) -> None:
    check_text(title)
    db.change_conversation(nodes.require_held(db, key), title=title)


def set_cwd(db: Database, key: ConversationKey, cwd: str, now: float) -> None:
    check_text(cwd)
    row, _ = nodes.claim(db, key, now)
    db.change_conversation(row, cwd=cwd)


def find_mode(db: Database, key: ConversationKey) -> str:
    row = db.conversation(key)
    return row.mode if row is not None else ""


def find_auto_approve(db: Database, key: ConversationKey) -> str:
    row = db.conversation(key)
    return row.auto_approve if row is not None else ""


def set_auto_approve(db: Database, key: ConversationKey, level: str, now: float) -> None:
    row, _ = nodes.claim(db, key, now)
    db.change_conversation(row, auto_approve=level)


def set_mode(db: Database, key: ConversationKey, mode: str, now: float) -> None:
    row, _ = nodes.claim(db, key, now)
    db.change_conversation(row, mode=mode)


def set_project_files(db: Database, key: ConversationKey, *, used: bool, now: float) -> None:
    row, _ = nodes.claim(db, key, now)
    db.change_conversation(row, project_files=used)


def find_visit(db: Database, key: ConversationKey) -> Visit | None:
    row = db.conversation(key)
    return row.visit if row is not None else None


def set_visit(db: Database, key: ConversationKey, visit: Visit) -> None:
    """Store a visit. Reading is no work on the conversation, so any node may store it."""
    row = db.conversation(key)
    if row is not None:
        db.change_conversation(row, visit=visit)


def set_model(db: Database, key: ConversationKey, model: str, now: float) -> None:
    check_text(model)
    row, _ = nodes.claim(db, key, now)
    db.change_conversation(row, model=model)


# ---- archives and imports -----------------------------------------------------------------------


def archive(db: Database, key: ConversationKey, archive: Archive, epoch: int) -> Archive:
    """Archive the active messages up to archive.last_seq. The rows stay in place."""
    row = nodes.require_held(db, key, epoch)
    added = _add_archive(db, row, archive)
    # The token count included the archived messages, so it is no longer valid.
    for entry in db.entries(row.id, added.last_seq + 1, row.last_seq):
        if entry.message.context_tokens:
            message = replace(entry.message, context_tokens=0)
            db.messages.put((row.id, entry.seq), replace(entry, message=message))
    return added


def open_stretch(db: Database, key: ConversationKey, closing: Archive | None, resumed: int, epoch: int) -> Archive:
    """Archive the active messages as `closing`, if there are any, and let what follows begin with archive `resumed`."""
    row = nodes.require_held(db, key, epoch)
    continued = db.archives.get((row.id, resumed)) if resumed else None
    if resumed and continued is None:
        raise NotFound(f"there is no archive {resumed}", fix="`moot archives AGENT` lists them.")
    if closing is not None:
        closing = replace(closing, title=row.title or closing.title, is_closed=True, resumed=resumed)
        closed = _add_archive(db, row, closing)
    else:
        newest = db.archives.get((row.id, row.archives))
        if newest is None or row.last_seq > newest.last_seq:
            raise Conflict("messages were added to the conversation", fix="Try again.")
        closed = db.archives.put((row.id, newest.number), replace(newest, is_closed=True, resumed=resumed))
    title = continued.title if continued is not None else ""
    db.change_conversation(db.conversations[row.id], title=title)
    for number, rule in db.rules.pairs():
        if rule.is_of_conversation and (rule.agent, rule.sender) == (key.agent, key.sender):
            db.rules.remove(number)
    return closed


def _add_archive(db: Database, row: ConversationRow, archive: Archive) -> Archive:
    first = row.archived_seq + 1
    if archive.first_seq not in (0, first) or not first <= archive.last_seq <= row.last_seq:
        raise Conflict(
            f"messages {archive.first_seq}..{archive.last_seq} are not the active ones ({first}..{row.last_seq})",
            fix="Load the conversation again and compact what is there now.",
        )
    check_text(archive.title, archive.summary)
    added = replace(archive, number=row.archives + 1, first_seq=first)
    db.archives.put((row.id, added.number), added)
    db.change_conversation(row, archived_seq=added.last_seq, archives=added.number)
    return added


def list_archives(db: Database, key: ConversationKey) -> list[Archive]:
    row = db.conversation(key)
    return [] if row is None else db.archives_of(row)


def check_import(db: Database, key: ConversationKey) -> None:
    """Raise if something was said in the target conversation, or it belongs to another daemon."""
    row = nodes.find_held(db, key)
    if row is not None:
        runs = db.runs.find("conversation", row.id)
        if row.last_seq or any(run.started_at or run.is_ended for run in runs):
            raise Conflict(
                f"there is already a conversation with {key}",
                fix="Import it under another sender, or delete that one first.",
            )


def check_archives(archives: Sequence[Archive]) -> None:
    for expected, each in enumerate(archives, start=1):
        if each.number not in (0, expected):
            raise BadRequest(f"archive {each.number} stands where {expected} belongs", fix="Export it again.")


def restore(
    db: Database,
    conversation: Conversation,
    messages: Sequence[tuple[Message, float]],
    archives: Sequence[Archive],
    stopped: tuple[StoppedTurn, ...],
) -> None:
    """Write an imported conversation. What arrived or was set meanwhile stays as it is."""
    key = conversation.key
    check_import(db, key)
    check_text(conversation.title, conversation.cwd)
    row, _ = nodes.claim(db, key, conversation.created_at)
    for seq, (message, at) in enumerate(messages, start=1):
        check_message(message)
        db.messages.put((row.id, seq), Entry(seq=seq, message=message, run_id="", created_at=at))
    row = db.change_conversation(
        row,
        title=row.title or conversation.title,
        cwd=row.cwd or conversation.cwd,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        last_seq=len(messages),
    )
    if stopped:
        db.imported_stopped_turns.put(row.id, stopped)
    for each in archives:
        _add_archive(db, db.conversations[row.id], each)
