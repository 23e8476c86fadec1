"""Tokens of principals that are not the owner. Only digests are stored."""

from collections.abc import Collection

import apsw
from msgspec.structs import replace

from moot.domain.errors import Conflict, NotFound
from moot.domain.senders import owner_of
from moot.domain.token import Token, is_cut_off, list_sender_candidates, sender_in_use_error
from moot.store import rows

# The last use of a token is stored at most once a minute, not on every request.
_TOUCH_SECONDS = 60.0
# The tables with what belongs to a sender, and the column that names it. Conversations may name it within their sender.
_OWNED = (
    ("secrets", "owner"),
    ("cron_jobs", "sender"),
    ("workflows", "owner"),
    ("graph_entities", "owner"),
    ("graph_terms", "owner"),
    ("document_owners", "sender"),
    ("knowledge", "owner"),
    ("learnings", "owner"),
    ("memories", "sender"),
    ("tasks", "sender"),
)


def add(db: apsw.Connection, token: Token, digest: str, taken: Collection[str]) -> Token:
    """Store a token with a sender of its own, and return it."""
    if db.execute("SELECT 1 FROM tokens WHERE name = ? AND revoked_at = 0", (token.name,)).get:
        raise Conflict(f"there is a token named {token.name!r}", fix="Revoke it first, or choose another name.")
    if db.execute("SELECT 1 FROM tokens WHERE digest = ?", (digest,)).get:
        raise Conflict("this token was used before", fix="Make a new one.")
    token = replace(token, sender=_choose_sender(db, token, taken))
    db.execute(
        "INSERT INTO tokens (digest, name, sender, senders, created_at, last_used_at, revoked_at, may_approve)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            digest,
            token.name,
            token.sender,
            rows.encode_names(token.senders),
            token.created_at,
            token.last_used_at,
            token.revoked_at,
            token.may_approve,
        ),
    )
    return token


def _choose_sender(db: apsw.Connection, token: Token, taken: Collection[str]) -> str:
    if token.continues_name:
        return token.name
    talking = {owner_of(sender) for (sender,) in db.execute("SELECT DISTINCT sender FROM conversations")}

    def is_used(sender: str) -> bool:
        return sender in taken or sender in talking or _has_data(db, sender)

    if is_used(token.name) and not _was_given(db, token.name):
        raise sender_in_use_error(token.name)
    candidates = list_sender_candidates(token.name)
    return next(each for each in candidates if not (_was_given(db, each) or is_used(each)))


def _was_given(db: apsw.Connection, sender: str) -> bool:
    return bool(db.execute("SELECT 1 FROM tokens WHERE sender = ?", (sender,)).get)


def _has_data(db: apsw.Connection, sender: str) -> bool:
    """Whether there is something that a token with this sender could see or use."""
    found = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE {column} = ?1" for table, column in _OWNED)
    return bool(db.execute(found, (sender,)).get)


def find(db: apsw.Connection, digest: str) -> Token | None:
    """Return the token with this digest, unless it is revoked."""
    row = db.execute(
        f"SELECT {rows.TOKEN_COLUMNS} FROM tokens WHERE digest = ? AND revoked_at = 0", (digest,)
    ).fetchone()
    return None if row is None else rows.token(row)


def touch(db: apsw.Connection, name: str, now: float) -> None:
    db.execute(
        "UPDATE tokens SET last_used_at = ?1 WHERE name = ?2 AND revoked_at = 0 AND abs(?1 - last_used_at) >= ?3",
        (now, name, _TOUCH_SECONDS),
    )


def list_tokens(db: apsw.Connection) -> list[Token]:
    return [rows.token(row) for row in db.execute(f"SELECT {rows.TOKEN_COLUMNS} FROM tokens ORDER BY name, created_at")]


def revoke(db: apsw.Connection, name: str, now: float) -> tuple[str, ...]:
    """Revoke a token and pause the jobs of senders that have no other token; return their names.

    It stays in the list; revoking it again changes nothing.
    """
    if not db.execute("SELECT 1 FROM tokens WHERE name = ?", (name,)).get:
        raise NotFound(f"no token named {name!r}", fix="List them with `moot tokens list`.")
    db.execute("UPDATE tokens SET revoked_at = ? WHERE name = ? AND revoked_at = 0", (now, name))
    if not db.changes():
        return ()
    tokens = list_tokens(db)
    found = "SELECT id, name, sender FROM cron_jobs WHERE next_at IS NOT NULL ORDER BY name, id"
    active: list[tuple[str, str, str]] = [(row[0], row[1], row[2]) for row in db.execute(found)]
    paused = [(job_id, job) for job_id, job, sender in active if is_cut_off(sender, tokens)]
    for job_id, _ in paused:
        db.execute("UPDATE cron_jobs SET paused = 1, next_at = NULL, updated_at = ? WHERE id = ?", (now, job_id))
    return tuple(job for _, job in paused)
