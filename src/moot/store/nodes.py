"""Nodes: which daemon may write a conversation, and the epoch that rejects the writes of one that lost it. For runs."""

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Fenced


def register(db: apsw.Connection) -> int:
    """Register this daemon; its number. Whoever opens the store holds the lock of its home, so no other is alive."""
    with db:
        db.execute("UPDATE nodes SET is_alive = 0 WHERE is_alive = 1")
        db.execute("INSERT INTO nodes (is_alive) VALUES (1)")
    return db.last_insert_rowid()


def claim(db: apsw.Connection, conversation: int, key: ConversationKey, node: int) -> int:
    """Take a conversation of another node; its new epoch. Fenced where that node is alive, or this one is not."""
    taken = db.execute(
        "UPDATE conversations SET node = ?1, epoch = epoch + 1 WHERE id = ?2"
        " AND EXISTS (SELECT 1 FROM nodes WHERE id = ?1 AND is_alive = 1)"
        " AND NOT EXISTS (SELECT 1 FROM nodes WHERE id = conversations.node AND is_alive = 1) RETURNING epoch",
        (node, conversation),
    ).get
    if taken is None:
        raise fenced(key)
    return int(taken)


def take_over(db: apsw.Connection, node: int) -> None:
    """Claim the conversations of nodes that are not alive in which runs have not ended, and those runs with them."""
    left = (
        "SELECT conversation FROM runs WHERE status <> 'ended' AND conversation IN (SELECT id FROM conversations"
        " WHERE node <> ? AND node NOT IN (SELECT id FROM nodes WHERE is_alive = 1))"
    )
    found = [conversation for (conversation,) in db.execute(left, (node,))]
    for conversation in dict.fromkeys(found):
        db.execute("UPDATE conversations SET node = ?, epoch = epoch + 1 WHERE id = ?", (node, conversation))
        db.execute(
            "UPDATE runs SET epoch = (SELECT epoch FROM conversations WHERE id = ?1)"
            " WHERE conversation = ?1 AND status <> 'ended'",
            (conversation,),
        )


def fenced(key: ConversationKey) -> Fenced:
    return Fenced(f"another daemon has taken over {key}", fix="Send it again; the daemon that has it answers.")
