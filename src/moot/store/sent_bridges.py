"""Rows of bridge messages to goals of other stores, which their responses are checked against.

Written by outbox.py, whose own rows are deleted once the other daemon has them; read by mail.py.
"""

import apsw
import msgspec

from moot.domain.goal import read_goal_id
from moot.domain.mail import Mail

_mail = msgspec.json.Decoder(Mail)


def insert(db: apsw.Connection, mail: Mail) -> None:
    """Write a message, unless it is there already, or its sender has no conversation."""
    sender = read_goal_id(mail.from_goal)
    db.execute(
        "INSERT INTO sent_bridges SELECT ?, id, ?, ? FROM conversations WHERE id = ? ON CONFLICT (id) DO NOTHING",
        (
            mail.id,
            mail.correlation_id,
            msgspec.json.encode(mail).decode(),
            sender[1] if sender is not None else 0,
        ),
    )


def list_correlated(db: apsw.Connection, correlation_id: str) -> list[Mail]:
    found = db.execute("SELECT content FROM sent_bridges WHERE correlation_id = ?", (correlation_id,))
    return [_mail.decode(content) for (content,) in found]
