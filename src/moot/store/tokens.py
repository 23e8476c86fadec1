"""Tokens of principals that are not the owner. Only digests are stored."""

import apsw

from moot.domain.errors import Conflict, NotFound
from moot.domain.token import Token
from moot.store import rows

# The last use of a token is stored at most once a minute, not on every request.
_TOUCH_SECONDS = 60.0


def add(db: apsw.Connection, token: Token, digest: str) -> None:
    revoked_at = db.execute("SELECT revoked_at FROM tokens WHERE name = ?", (token.name,)).get
    if revoked_at == 0:
        raise Conflict(f"there is a token named {token.name!r}", fix="Revoke it first, or choose another name.")
    db.execute("DELETE FROM tokens WHERE name = ?", (token.name,))
    if db.execute("SELECT 1 FROM tokens WHERE digest = ?", (digest,)).get:
        raise Conflict("this token exists under another name", fix="Make a new one.")
    db.execute(
        "INSERT INTO tokens (name, digest, senders, created_at, last_used_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            token.name,
            digest,
            rows.encode_names(token.senders),
            token.created_at,
            token.last_used_at,
            token.revoked_at,
        ),
    )


def find(db: apsw.Connection, digest: str) -> Token | None:
    """Return the token with this digest, unless it is revoked."""
    row = db.execute(
        f"SELECT {rows.TOKEN_COLUMNS} FROM tokens WHERE digest = ? AND revoked_at = 0", (digest,)
    ).fetchone()
    return None if row is None else rows.token(row)


def touch(db: apsw.Connection, name: str, now: float) -> None:
    db.execute(
        "UPDATE tokens SET last_used_at = ?1 WHERE name = ?2 AND abs(?1 - last_used_at) >= ?3",
        (now, name, _TOUCH_SECONDS),
    )


def list_tokens(db: apsw.Connection) -> list[Token]:
    return [rows.token(row) for row in db.execute(f"SELECT {rows.TOKEN_COLUMNS} FROM tokens ORDER BY name")]


def revoke(db: apsw.Connection, name: str, now: float) -> None:
    """Revoke a token. It stays in the list; revoking it again changes nothing."""
    if not db.execute("SELECT 1 FROM tokens WHERE name = ?", (name,)).get:
        raise NotFound(f"no token named {name!r}", fix="List them with `moot tokens list`.")
    db.execute("UPDATE tokens SET revoked_at = ? WHERE name = ? AND revoked_at = 0", (now, name))
