"""Converts rows to values and back. The only module that knows the encoding of columns."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from moot.domain.conversation import Archive, Conversation, ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.message import Entry, Message, Role, Thinking, ToolCall
from moot.domain.token import Token
from moot.domain.usage import Usage

SHIFT = 32
MAX_SEQ = (1 << SHIFT) - 1

_encode = msgspec.json.Encoder().encode
_decode_calls = msgspec.json.Decoder(tuple[ToolCall, ...]).decode
_decode_thinking = msgspec.json.Decoder(tuple[Thinking, ...]).decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_ROLES = {role.value: role for role in Role}

Row = tuple[Any, ...]


def message_id(conversation: int, seq: int) -> int:
    return (conversation << SHIFT) + seq


def one(cursor: apsw.Cursor) -> Row:
    """Return the row of a query that always has exactly one."""
    (row,) = cursor
    return tuple(row)


def conversation_id(db: apsw.Connection, key: ConversationKey) -> int | None:
    found = db.execute("SELECT id FROM conversations WHERE agent = ? AND sender = ?", key).get
    return None if found is None else int(found)


def require_conversation(db: apsw.Connection, key: ConversationKey) -> int:
    found = conversation_id(db, key)
    if found is None:
        raise no_conversation(key)
    return found


def no_conversation(key: ConversationKey) -> NotFound:
    return NotFound(f"there is no conversation with {key}", fix="List them with `moot conversations`.")


CLEAN: frozenset[str] = frozenset()


def decode_taint(text: str) -> frozenset[str]:
    return frozenset(name for name in text.split(",") if name)


def encode_taint(names: frozenset[str]) -> str:
    return ",".join(sorted(names))


# ---- messages -----------------------------------------------------------------------------------

MESSAGE_COLUMNS = (
    "id, role, content, agent, tool_calls, tool_call_id, is_error, thinking, run_id, created_at, taint, context_tokens,"
    " private, duration_ms, unexecuted"
)
_INSERT_MESSAGE = f"INSERT INTO messages ({MESSAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def entry(row: Row) -> Entry:
    (
        number,
        role,
        content,
        agent,
        calls,
        call_id,
        is_error,
        thinking,
        run_id,
        created_at,
        taint,
        context,
        private,
        took,
        unexecuted,
    ) = row
    message = Message(
        role=_ROLES[role],
        content=content,
        agent=agent,
        tool_calls=_decode_calls(calls) if calls else (),
        tool_call_id=call_id,
        is_error=is_error == 1,
        thinking=_decode_thinking(thinking) if thinking else (),
        taint=decode_taint(taint) if taint else CLEAN,
        context_tokens=context,
        is_private=private == 1,
        duration_ms=took,
        is_unexecuted=unexecuted == 1,
    )
    return Entry(seq=number & MAX_SEQ, message=message, run_id=run_id, created_at=created_at)


def entries_between(db: apsw.Connection, conversation: int, first: int, last: int) -> list[Entry]:
    rows = db.execute(
        f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE id BETWEEN ? AND ? ORDER BY id",
        (message_id(conversation, max(first, 1)), message_id(conversation, last)),
    )
    return [entry(row) for row in rows]


def insert_messages(
    db: apsw.Connection, conversation: int, after: int, messages: Iterable[tuple[Message, str, float]]
) -> list[Entry]:
    """Insert messages after seq `after`; the caller updates last_seq of the conversation."""
    written: list[Entry] = []
    for seq, (message, run_id, created_at) in enumerate(messages, start=after + 1):
        if seq > MAX_SEQ:
            raise BadRequest("the conversation is full", fix="Go on under another sender.")
        db.execute(
            _INSERT_MESSAGE,
            (
                (conversation << SHIFT) + seq,
                message.role,
                message.content,
                message.agent,
                _encode(message.tool_calls) if message.tool_calls else None,
                message.tool_call_id,
                int(message.is_error),
                _encode(message.thinking) if message.thinking else None,
                run_id,
                created_at,
                encode_taint(message.taint) if message.taint else "",
                message.context_tokens,
                int(message.is_private),
                message.duration_ms,
                int(message.is_unexecuted),
            ),
        )
        written.append(Entry(seq=seq, message=message, run_id=run_id, created_at=created_at))
    return written


def append_messages(
    db: apsw.Connection,
    conversation: int,
    run_id: str,
    messages: Sequence[Message],
    now: float,
    *,
    last_seq: int,
) -> list[Entry]:
    """Append messages with the numbers after `last_seq`, which is the conversation's newest."""
    written = insert_messages(db, conversation, last_seq, [(message, run_id, now) for message in messages])
    if written:
        db.execute(
            "UPDATE conversations SET last_seq = ?, updated_at = ? WHERE id = ?",
            (written[-1].seq, now, conversation),
        )
    return written


# ---- conversations, archives, tokens ------------------------------------------------------------

CONVERSATION_COLUMNS = (
    "agent, sender, title, cwd, created_at, updated_at, last_seq, archives, trusted_seq, archived_seq, chosen_model,"
    " project_files, mode"
)


def conversation(row: Row) -> Conversation:
    agent, sender, title, cwd, created_at, updated_at, last_seq, archives, trusted_seq, archived_seq, *chosen = row
    model, project_files, mode = chosen
    return Conversation(
        key=ConversationKey(agent, sender),
        title=title,
        cwd=cwd,
        mode=mode,
        created_at=created_at,
        updated_at=updated_at,
        last_seq=last_seq,
        message_count=last_seq,
        archive_count=archives,
        archived_seq=archived_seq,
        model=model,
        trusted_seq=trusted_seq,
        uses_project_files=bool(project_files),
    )


USAGE_COLUMNS = "prompt, completion, cache_hit, cache_miss, reasoning"
ARCHIVE_COLUMNS = (
    f"number, first_seq, last_seq, title, summary, archived_at, model, {USAGE_COLUMNS}, cost, root_id, taint,"
    " closed, resumed"
)


def usage(row: Row) -> Usage:
    prompt, completion, cache_hit, cache_miss, reasoning = row
    return Usage(prompt=prompt, completion=completion, cache_hit=cache_hit, cache_miss=cache_miss, reasoning=reasoning)


def usage_values(spent: Usage) -> Row:
    return (spent.prompt, spent.completion, spent.cache_hit, spent.cache_miss, spent.reasoning)


def archive(row: Row) -> Archive:
    number, first_seq, last_seq, title, summary, archived_at, model, *spent, cost, root_id, taint, closed, resumed = row
    return Archive(
        number=number,
        first_seq=first_seq,
        last_seq=last_seq,
        title=title,
        summary=summary,
        archived_at=archived_at,
        model=model,
        usage=usage(tuple(spent)),
        cost=cost,
        root_id=root_id,
        taint=decode_taint(taint) if taint else CLEAN,
        is_closed=bool(closed),
        resumed=resumed,
    )


TOKEN_COLUMNS = "name, sender, senders, created_at, last_used_at, revoked_at, may_approve"


def token(row: Row) -> Token:
    name, sender, senders, created_at, last_used_at, revoked_at, may_approve = row
    return Token(
        name=name,
        sender=sender,
        senders=_decode_names(senders),
        created_at=created_at,
        last_used_at=last_used_at,
        revoked_at=revoked_at,
        may_approve=bool(may_approve),
    )


def encode_numbers(numbers: Iterable[int]) -> str:
    """Return a JSON list, for `dialect.among`."""
    return _encode(list(numbers)).decode()


def encode_names(names: Sequence[str]) -> bytes:
    return _encode(tuple(names))
