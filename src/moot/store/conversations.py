"""Conversations and their messages: load, list, name."""

import apsw
from msgspec import Struct
from msgspec.structs import replace

from moot.domain.conversation import Archive, Conversation, ConversationKey, LoadedConversation, Place, StoppedTurn
from moot.domain.digest import Visit
from moot.domain.message import Entry, Role, ToolCall
from moot.domain.run import UNDONE
from moot.domain.senders import CHILD_SENDER
from moot.store import archives as archives_
from moot.store import dialect, nodes, rows

# The taint of what a speaker sees: the newest archive and the messages since, except those the owner has trusted.
_TAINT = (
    f"(SELECT coalesce({dialect.join_values('taint')}, '') FROM ("
    " SELECT DISTINCT taint FROM messages WHERE taint <> '' AND messages.id BETWEEN"
    f" (conversations.id << 32) + {dialect.greatest('archived_seq', 'trusted_seq')} + 1"
    " AND (conversations.id << 32) + last_seq"
    " UNION SELECT taint FROM archives WHERE conversation = conversations.id AND number = conversations.archives"
    " AND taint <> '' AND NOT closed AND archives.last_seq > trusted_seq))"
)
_IS_ANSWERED = "(reply_seq > 0 OR reply <> '')"
_UNDONE = ", ".join(f"'{outcome}'" for outcome in sorted(UNDONE))
# The archive that what follows the newest one begins with.
_RESUMED = "(SELECT resumed FROM archives WHERE conversation = conversations.id AND number = conversations.archives)"


def claim(db: apsw.Connection, key: ConversationKey, now: float, node: int, epoch: int = 0) -> tuple[nodes.Held, bool]:
    """Return the conversation, and whether it was created now. Raises Fenced like `nodes.find_held`."""
    held = nodes.find_held(db, key, node, epoch)
    if held is not None:
        return held, False
    if epoch:
        # The history that the write continues was deleted meanwhile.
        raise nodes.fenced_error(db, key, node)
    return create(db, key, now, node), True


def create(db: apsw.Connection, key: ConversationKey, now: float, node: int) -> nodes.Held:
    """Create an empty conversation. Raise Fenced if this node is not alive: it may know an earlier one of that name,
    which was deleted since.
    """
    created = db.execute(
        "INSERT INTO conversations (agent, sender, created_at, updated_at, node, epoch) SELECT ?1, ?2, ?3, ?3, ?4, 1"
        " WHERE EXISTS (SELECT 1 FROM nodes WHERE id = ?4) RETURNING id, epoch",
        (key.agent, key.sender, now, node),
    ).get
    if created is None:
        raise nodes.fenced_error(db, key, node)
    number, epoch = created
    return nodes.Held(number, 0, epoch)


def load(db: apsw.Connection, key: ConversationKey, node: int) -> LoadedConversation | None:
    row = db.execute(
        f"SELECT id, node, epoch, {rows.CONVERSATION_COLUMNS} FROM conversations WHERE agent = ? AND sender = ?", key
    ).fetchone()
    if row is None:
        return None
    (number, owner, epoch), state = row[:3], rows.conversation(row[3:])
    loaded = load_after(db, number, state, archives_.newest(db, number), state.last_seq)
    return replace(loaded, epoch=nodes.next_epoch(owner, epoch, node))


def load_after(
    db: apsw.Connection, number: int, state: Conversation, newest: Archive | None, last_seq: int
) -> LoadedConversation:
    """Return what a speaker sees up to message `last_seq` if this is the newest archive."""
    opening = archives_.opening_after(db, number, newest)
    ranges = (*opening.ranges, (newest.last_seq + 1 if newest else 1, last_seq))
    return LoadedConversation(
        conversation=state,
        archive=opening.summary,
        entries=tuple(entry for range_ in ranges for entry in rows.entries_between(db, number, *range_)),
        # A message that is followed by another is not rerun in place, so the outcome of its turn does not change.
        stopped=tuple(list_stopped_turns(db, number, ranges[0][0])),
    )


def list_stopped_turns(db: apsw.Connection, conversation: int, first: int) -> list[StoppedTurn]:
    """Return the turns since message `first` that ended without an answer, and those that have one and did nothing.

    Only the last run of a message counts.
    """
    found = db.execute(
        f"SELECT user_seq, speaker, outcome, {_IS_ANSWERED} FROM runs"
        " WHERE conversation = ?1 AND user_seq >= ?2 AND status = 'ended' AND outcome <> 'completed'"
        f" AND (NOT {_IS_ANSWERED} OR outcome IN ({_UNDONE})) AND NOT EXISTS (SELECT 1 FROM runs AS later"
        " WHERE later.conversation = runs.conversation AND later.user_seq = runs.user_seq AND later.status = 'ended'"
        " AND later.number > runs.number)"
        " UNION ALL SELECT user_seq, speaker, outcome, 0 FROM imported_stopped_turns"
        " WHERE conversation = ?1 AND user_seq >= ?2 ORDER BY user_seq",
        (conversation, first),
    )
    return [
        StoppedTurn(user_seq=user_seq, speaker=speaker, outcome=outcome, is_answered=is_answered == 1)
        for user_seq, speaker, outcome, is_answered in found
    ]


def find_stopped_turns(db: apsw.Connection, key: ConversationKey, first: int) -> list[StoppedTurn]:
    """Return the turns since message `first` that ended without an answer."""
    number = rows.conversation_id(db, key)
    found = [] if number is None else list_stopped_turns(db, number, first)
    return [turn for turn in found if not turn.is_answered]


class ConversationFilter(Struct, frozen=True, kw_only=True):
    """Which conversations to list. An empty agent or sender matches all except those of teammates."""

    agent: str = ""
    sender: str = ""
    teammates: bool = False
    after: Place | None = None
    # None means no limit.
    limit: int | None = None

    def where(self) -> tuple[str, list[object]]:
        """Return the SQL condition and its parameters; only with the terms that are set, so that an index is used."""
        # A conversation without an agent is still being imported, and is not visible.
        terms: list[tuple[str, tuple[object, ...]]] = [
            ("agent = ?", (self.agent,)) if self.agent else ("agent <> ''", ())
        ]
        if self.sender:
            terms.append(("sender = ?", (self.sender,)))
        elif not self.teammates:
            terms.append(("substr(sender, 1, length(?)) <> ?", (CHILD_SENDER, CHILD_SENDER)))
        if self.after is not None:
            terms.append(("(updated_at, id) < (?, ?)", self.after))
        written = " AND ".join(term for term, _ in terms)
        return written, [value for _, values in terms for value in values]


def list_all(db: apsw.Connection, wanted: ConversationFilter) -> list[Conversation]:
    """Return conversations, most recently used first."""
    where, values = wanted.where()
    found = db.execute(
        f"SELECT {rows.CONVERSATION_COLUMNS}, {_TAINT}, {_RESUMED}, id FROM conversations WHERE {where}"
        " ORDER BY updated_at DESC, id DESC LIMIT ?",
        (*values, dialect.ALL_ROWS if wanted.limit is None else wanted.limit),
    )
    listed = []
    for *columns, taint, resumed, number in found:
        state, sources = rows.conversation(tuple(columns)), rows.decode_taint(taint)
        if resumed:
            sources |= _list_resumed_taint(db, number, state)
        listed.append(replace(state, taint=sources, place=(state.updated_at, number)))
    return listed


def _list_resumed_taint(db: apsw.Connection, number: int, state: Conversation) -> frozenset[str]:
    """Return the untrusted sources in the archive that the conversation was resumed from."""
    summary, ranges = archives_.opening_after(db, number, archives_.newest(db, number))
    found = summary.taint if summary is not None and summary.last_seq > state.trusted_seq else frozenset[str]()
    for first, last in ranges:
        tainted = db.execute(
            "SELECT DISTINCT taint FROM messages WHERE taint <> '' AND id BETWEEN ? AND ?",
            (rows.message_id(number, max(first, state.trusted_seq + 1)), rows.message_id(number, last)),
        )
        found = found.union(*(rows.decode_taint(taint) for (taint,) in tainted))
    return found


def entries(db: apsw.Connection, key: ConversationKey, first: int, last: int) -> list[Entry]:
    number = rows.conversation_id(db, key)
    if number is None:
        return []
    return rows.entries_between(db, number, first, min(last, rows.MAX_SEQ) if last > 0 else rows.MAX_SEQ)


def list_open_calls(db: apsw.Connection, conversation: int) -> tuple[ToolCall, ...]:
    """Return the calls of the last assistant message that have no result yet, in call order."""
    answered: set[str] = set()
    tail = db.execute(
        f"SELECT {rows.MESSAGE_COLUMNS} FROM messages WHERE id BETWEEN ? AND ? ORDER BY id DESC",
        (rows.message_id(conversation, 1), rows.message_id(conversation, rows.MAX_SEQ)),
    )
    for row in tail:
        message = rows.entry(row).message
        if message.role is not Role.TOOL:
            return tuple(call for call in message.tool_calls if call.id not in answered)
        answered.add(message.tool_call_id)
    return ()


def trust(db: apsw.Connection, key: ConversationKey, last: int, node: int) -> None:
    number = nodes.require_held(db, key, node).id
    # Limited to stored messages: a message that could not be stored leaves its number to a later one.
    newest = dialect.greatest("trusted_seq", dialect.least("last_seq", "?"))
    db.execute(f"UPDATE conversations SET trusted_seq = {newest} WHERE id = ?", (last, number))


def set_cwd(db: apsw.Connection, key: ConversationKey, cwd: str, now: float, node: int) -> None:
    held, _ = claim(db, key, now, node)
    db.execute("UPDATE conversations SET cwd = ? WHERE id = ?", (cwd, held.id))


def find_mode(db: apsw.Connection, key: ConversationKey) -> str:
    row = db.execute("SELECT mode FROM conversations WHERE agent = ? AND sender = ?", key).fetchone()
    return str(row[0]) if row is not None else ""


def set_mode(db: apsw.Connection, key: ConversationKey, mode: str, now: float, node: int) -> None:
    held, _ = claim(db, key, now, node)
    db.execute("UPDATE conversations SET mode = ? WHERE id = ?", (mode, held.id))


def find_auto_approve(db: apsw.Connection, key: ConversationKey) -> str:
    row = db.execute("SELECT auto_approve FROM conversations WHERE agent = ? AND sender = ?", key).fetchone()
    return str(row[0]) if row is not None else ""


def set_auto_approve(db: apsw.Connection, key: ConversationKey, level: str, now: float, node: int) -> None:
    held, _ = claim(db, key, now, node)
    db.execute("UPDATE conversations SET auto_approve = ? WHERE id = ?", (level, held.id))


def set_project_files(db: apsw.Connection, key: ConversationKey, *, used: bool, now: float, node: int) -> None:
    held, _ = claim(db, key, now, node)
    db.execute("UPDATE conversations SET project_files = ? WHERE id = ?", (int(used), held.id))


def set_model(db: apsw.Connection, key: ConversationKey, model: str, now: float, node: int) -> None:
    held, _ = claim(db, key, now, node)
    db.execute("UPDATE conversations SET chosen_model = ? WHERE id = ?", (model, held.id))


def find_visit(db: apsw.Connection, key: ConversationKey) -> Visit | None:
    found = db.execute(
        "SELECT visited_at, away_since FROM conversations WHERE agent = ? AND sender = ?", key
    ).fetchone()
    return None if found is None else Visit(at=found[0], away_since=found[1])


def set_visit(db: apsw.Connection, key: ConversationKey, visit: Visit) -> None:
    """Store a visit. Reading is no work on the conversation, so any node may store it."""
    db.execute(
        "UPDATE conversations SET visited_at = ?, away_since = ? WHERE agent = ? AND sender = ?",
        (visit.at, visit.away_since, *key),
    )


def set_title(db: apsw.Connection, key: ConversationKey, title: str, node: int) -> None:
    number = nodes.require_held(db, key, node).id
    db.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, number))
