"""Imports a conversation: written in small parts under a hidden name, then made visible in one transaction.

The hidden name belongs to no agent. What a dead daemon left there is removed at the next start.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import apsw
from msgspec import Struct

from moot.domain.conversation import Archive, Conversation, ConversationKey, StoppedTurn
from moot.domain.errors import BadRequest, Conflict
from moot.domain.message import Message
from moot.store import archives as archives_
from moot.store import conversations, dialect, nodes, rows

# The agent name of conversations during an import. No agent has it, so no request or list shows them.
UNSEEN = ""
# The most that one transaction writes, because other writers wait for it.
_MOST_ROWS = 200
_MOST_CHARACTERS = 128 * 1024

T = TypeVar("T")


class ImportPart(Struct, frozen=True, kw_only=True):
    """What one transaction writes: messages after number `after`, or archives after all messages."""

    after: int = 0
    messages: Sequence[tuple[Message, float]] = ()
    # The turns of these messages that ended without an answer.
    stopped: Sequence[StoppedTurn] = ()
    archives: Sequence[Archive] = ()


class IncomingConversation(Struct, frozen=True, kw_only=True):
    """A conversation that is being imported. The counts it states are not trusted."""

    token: str
    conversation: Conversation
    messages: Sequence[tuple[Message, float]]
    archives: Sequence[Archive]
    stopped: Sequence[StoppedTurn]

    @property
    def key(self) -> ConversationKey:
        """Return the hidden key that it has during the import."""
        return ConversationKey(UNSEEN, self.token)

    @property
    def archived(self) -> int:
        """Return the number of the last archived message."""
        return self.archives[-1].last_seq if self.archives else 0

    def parts(self) -> list[ImportPart]:
        """Return the conversation in parts of bounded size. Raise if it is inconsistent, before anything is written."""
        _check(len(self.messages), self.archives)
        messages = _cut(self.messages, lambda each: len(each[0].content))
        archives = _cut(self.archives, lambda each: len(each.summary))
        parts = [
            ImportPart(after=after, messages=some, stopped=self._select_stopped(after, some))
            for after, some in messages
        ]
        return [*parts, *(ImportPart(archives=some) for _, some in archives)] or [ImportPart()]

    def _select_stopped(self, after: int, messages: Sequence[tuple[Message, float]]) -> Sequence[StoppedTurn]:
        first = bisect_right(self.stopped, after, key=lambda turn: turn.user_seq)
        last = bisect_right(self.stopped, after + len(messages), key=lambda turn: turn.user_seq)
        return self.stopped[first:last]


def _cut(found: Sequence[T], size: Callable[[T], int]) -> Iterator[tuple[int, Sequence[T]]]:
    """Yield batches of rows, each with the number of rows before it."""
    first, weight = 0, 0
    for at, row in enumerate(found):
        if at > first and (weight + size(row) > _MOST_CHARACTERS or at - first >= _MOST_ROWS):
            yield first, found[first:at]
            first, weight = at, 0
        weight += size(row)
    if found:
        yield first, found[first:]


def _check(messages: int, archives: Sequence[Archive]) -> None:
    last = 0
    for expected, archive in enumerate(archives, start=1):
        if archive.number not in (0, expected):
            raise BadRequest(f"archive {archive.number} stands where {expected} belongs", fix="Export it again.")
        if archive.first_seq not in (0, last + 1) or not last < archive.last_seq <= messages:
            raise Conflict(
                f"archive {expected} holds messages {archive.first_seq}..{archive.last_seq}, not those from {last + 1}"
                f" on of {messages}",
                fix="Export it again.",
            )
        last = archive.last_seq


def write(
    db: apsw.Connection, arriving: IncomingConversation, part: ImportPart, node: int, *, first: bool, last: bool
) -> None:
    if first:
        begin(db, arriving, node)
    held = nodes.find_held(db, arriving.key, node)
    if held is None:
        # Another daemon took it for an abandoned import and removed it.
        raise nodes.fenced_error(db, arriving.conversation.key, node)
    number = held.id
    if part.messages:
        _add_messages(db, number, part, archived=arriving.archived)
    for archive in part.archives:
        archives_.insert(db, number, archive)
    if last:
        publish(db, number, arriving.conversation, node)


def begin(db: apsw.Connection, arriving: IncomingConversation, node: int) -> None:
    key = arriving.conversation.key
    standing = nodes.find_held(db, key, node)
    if standing is not None and not _is_empty(db, standing.id):
        raise _exists(key)
    conversations.create(db, arriving.key, arriving.conversation.created_at, node)


def _is_empty(db: apsw.Connection, number: int) -> bool:
    """Return whether nothing was said in a conversation yet; it may have settings and queued messages."""
    return not db.execute(
        "SELECT (SELECT last_seq FROM conversations WHERE id = ?1)"
        " + (SELECT count(*) FROM runs WHERE conversation = ?1 AND status <> 'queued')",
        (number,),
    ).get


def _exists(key: ConversationKey) -> Conflict:
    return Conflict(
        f"there is already a conversation with {key}", fix="Import it under another sender, or delete that one first."
    )


def _add_messages(db: apsw.Connection, number: int, part: ImportPart, *, archived: int) -> None:
    rows.insert_messages(db, number, part.after, ((message, "", at) for message, at in part.messages))
    db.executemany(
        "INSERT INTO imported_stopped_turns (conversation, user_seq, speaker, outcome) VALUES (?, ?, ?, ?)",
        [(number, turn.user_seq, turn.speaker, turn.outcome) for turn in part.stopped],
    )
    last = part.after + len(part.messages)
    db.execute("UPDATE conversations SET last_seq = ? WHERE id = ?", (last, number))
    if part.after < archived:
        archives_.index_messages(db, number, part.after + 1, min(last, archived))


# What may belong to the conversation before the import is published: messages that were queued, results they deliver,
# questions and approvals of background runs that are shown there, and mail.
_ARRIVING = ("runs", "deliveries", "asks", "mail", "outbox", "sent_bridges")
# What a person may have set meanwhile.
_SETTINGS = "title, cwd, mode, auto_approve, chosen_model, project_files, visited_at, away_since"


def publish(db: apsw.Connection, number: int, conversation: Conversation, node: int) -> None:
    """Give the conversation its final name, which makes it visible with this commit."""
    _take_over(db, number, conversation.key, node)
    db.execute(
        "UPDATE conversations SET agent = ?, sender = ?, updated_at = ?,"
        " title = CASE title WHEN '' THEN ? ELSE title END, cwd = CASE cwd WHEN '' THEN ? ELSE cwd END WHERE id = ?",
        (*conversation.key, conversation.updated_at, conversation.title, conversation.cwd, number),
    )


def _take_over(db: apsw.Connection, number: int, key: ConversationKey, node: int) -> None:
    """Move what arrived under the final name during the import behind the imported messages, with the settings."""
    standing = nodes.find_held(db, key, node)
    if standing is None:
        return
    if standing.last_seq:
        raise _exists(key)
    for table in _ARRIVING:
        db.execute(f"UPDATE {table} SET conversation = ? WHERE conversation = ?", (number, standing.id))
    # The queued runs have the epoch of that conversation.
    db.execute(
        f"UPDATE conversations SET epoch = ?1, ({_SETTINGS}) = (SELECT {_SETTINGS} FROM conversations WHERE id = ?2)"
        " WHERE id = ?3",
        (standing.epoch, standing.id, number),
    )
    db.execute("DELETE FROM conversations WHERE id = ?", (standing.id,))


def discard(db: apsw.Connection, token: str) -> bool:
    """Remove the last part of an abandoned import; return False if nothing is left."""
    number = rows.conversation_id(db, ConversationKey(UNSEEN, token))
    if number is None:
        return False
    if db.execute("SELECT archives FROM conversations WHERE id = ?", (number,)).get:
        dialect.unindex(db, "summary_index", *_message_id_range(number, 0, rows.MAX_SEQ))
        db.execute("DELETE FROM archives WHERE conversation = ?", (number,))
        db.execute("UPDATE conversations SET archives = 0, archived_seq = 0 WHERE id = ?", (number,))
        return True
    last = int(db.execute("SELECT last_seq FROM conversations WHERE id = ?", (number,)).get)
    if not last:
        db.execute("DELETE FROM conversations WHERE id = ?", (number,))
        return True
    left = max(0, last - _MOST_ROWS)
    dialect.unindex(db, "message_index", *_message_id_range(number, left + 1, last))
    db.execute("DELETE FROM messages WHERE id BETWEEN ? AND ?", _message_id_range(number, left + 1, last))
    db.execute("DELETE FROM imported_stopped_turns WHERE conversation = ? AND user_seq > ?", (number, left))
    db.execute("UPDATE conversations SET last_seq = ? WHERE id = ?", (left, number))
    return True


def _message_id_range(number: int, first: int, last: int) -> tuple[int, int]:
    return rows.message_id(number, first), rows.message_id(number, last)


def list_unfinished(db: apsw.Connection) -> list[str]:
    """Return the tokens of imports that dead daemons did not finish."""
    found = "SELECT sender FROM conversations WHERE agent = ? AND node NOT IN (SELECT id FROM nodes)"
    return [token for (token,) in db.execute(found, (UNSEEN,))]
