"""Nodes: which daemon writes a conversation, and the epoch that rejects a daemon that lost it. For all that writes.

A node is a daemon that uses this store; it is alive while its row is there. A conversation has a node and an epoch,
which goes up each time another node claims it. A run keeps the epoch under which it was queued, begun or taken over.
"""

from typing import NamedTuple

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Fenced
from moot.domain.owner import Owner, locate, taken_over_error
from moot.store import rows

# For a row of `runs`: whether another node has taken it over. Takes the number of this node. False for ended runs,
# which do not change any more.
IS_LOST = (
    "EXISTS (SELECT 1 FROM conversations AS held WHERE held.id = runs.conversation AND runs.status <> 'ended'"
    " AND (held.node <> ? OR held.epoch <> runs.epoch))"
)
# The same for what is written beside a run and needs no conversation: a daemon that was replaced may not know yet that
# its run has ended elsewhere. Numbers of nodes grow, so a later one is the one that replaced this.
IS_REPLACED = (
    "EXISTS (SELECT 1 FROM conversations AS held, (SELECT ? AS number) AS own WHERE held.id = runs.conversation AND"
    " (held.node > own.number"
    " OR (runs.status <> 'ended' AND (held.node <> own.number OR held.epoch <> runs.epoch))))"
)
# For a row of `conversations`: whether its node is alive.
_IS_ALIVE = "EXISTS (SELECT 1 FROM nodes WHERE nodes.id = conversations.node)"


class Held(NamedTuple):
    """A conversation that this node may write: its id, its last number, and its epoch."""

    id: int
    last_seq: int
    epoch: int


def register(db: apsw.Connection) -> int:
    """Register this daemon as the only node; return its number. It holds the lock of its home, so no other is alive."""
    with db:
        db.execute("DELETE FROM nodes")
        db.execute("INSERT INTO nodes DEFAULT VALUES")
    return db.last_insert_rowid()


def find_held(db: apsw.Connection, key: ConversationKey, node: int, epoch: int = 0) -> Held | None:
    """Return the conversation, claimed for this node if necessary; None if it does not exist.

    Raise Fenced if another living node has it, or if `epoch` is not the current one. 0 accepts any epoch: for a write
    without an earlier transaction.
    """
    row = db.execute(
        "SELECT id, last_seq, epoch, node FROM conversations WHERE agent = ? AND sender = ?", key
    ).fetchone()
    if row is None:
        return None
    number, last_seq, current, owner = row
    if owner != node:
        current = _claim(db, number, key, node)
    if epoch not in (0, current):
        raise fenced_error(db, key, node)
    return Held(number, last_seq, current)


def require_held(db: apsw.Connection, key: ConversationKey, node: int, epoch: int = 0) -> Held:
    held = find_held(db, key, node, epoch)
    if held is None:
        raise rows.no_conversation(key)
    return held


def require_run(db: apsw.Connection, run_id: str, node: int) -> None:
    """Raise Fenced if another node has taken the run over. Removed and ended runs belong to no node."""
    row = db.execute(
        "SELECT agent, sender FROM runs JOIN conversations ON conversations.id = runs.conversation"
        f" WHERE runs.id = ? AND {IS_LOST}",
        (run_id, node),
    ).fetchone()
    if row is not None:
        raise fenced_error(db, ConversationKey(*row), node)


def require_owned(db: apsw.Connection, run_id: str, node: int) -> None:
    """Raise Fenced if another node has the conversation of a run, also if the run has ended."""
    row = db.execute(
        "SELECT agent, sender FROM runs JOIN conversations ON conversations.id = runs.conversation"
        " WHERE runs.id = ? AND node <> ?",
        (run_id, node),
    ).fetchone()
    if row is not None:
        raise fenced_error(db, ConversationKey(*row), node)


def next_epoch(owner: int, epoch: int, node: int) -> int:
    """Return the epoch under which this node writes a conversation: the current one, or the one it will claim."""
    return epoch if owner == node else epoch + 1


def _claim(db: apsw.Connection, conversation: int, key: ConversationKey, node: int) -> int:
    """Claim a conversation of another node; return its new epoch. Raise Fenced if that node is alive, or this not."""
    taken = db.execute(
        "UPDATE conversations SET node = ?1, epoch = epoch + 1 WHERE id = ?2 AND EXISTS (SELECT 1 FROM nodes"
        " WHERE id = ?1) AND NOT EXISTS (SELECT 1 FROM nodes WHERE id = conversations.node) RETURNING epoch",
        (node, conversation),
    ).get
    if taken is None:
        raise fenced_error(db, key, node)
    return int(taken)


def take_over(db: apsw.Connection, node: int) -> list[str]:
    """Claim the conversations of dead nodes that have runs which have not ended; return the ids of these runs."""
    left = (
        "SELECT DISTINCT conversation, agent, sender FROM runs JOIN conversations"
        " ON conversations.id = runs.conversation WHERE status <> 'ended' AND node NOT IN (SELECT id FROM nodes)"
    )
    found: list[rows.Row] = db.execute(left).fetchall()
    for conversation, agent, sender in found:
        _claim(db, conversation, ConversationKey(agent, sender), node)
    taken = db.execute(
        "UPDATE runs SET epoch = (SELECT epoch FROM conversations WHERE id = runs.conversation)"
        f" WHERE status <> 'ended' AND {IS_LOST} AND conversation IN (SELECT id FROM conversations WHERE node = ?)"
        " RETURNING id",
        (node, node),
    )
    return [run_id for (run_id,) in taken]


def find_owner(db: apsw.Connection, key: ConversationKey, node: int) -> Owner | None:
    """Return the owner of a conversation as this node sees it; None if there is no such conversation."""
    row = db.execute(f"SELECT node, {_IS_ALIVE} FROM conversations WHERE agent = ? AND sender = ?", key).fetchone()
    return None if row is None else locate(row[0], seen_from=node, is_alive=bool(row[1]))


def list_owners(db: apsw.Connection, node: int) -> dict[str, Owner]:
    """Return the owners of the runs that have not ended, by run id."""
    found = db.execute(
        f"SELECT runs.id, node, {_IS_ALIVE} FROM runs JOIN conversations ON conversations.id = runs.conversation"
        " WHERE status IN ('queued', 'running') AND status <> 'ended'"
    )
    return {run_id: locate(owner, seen_from=node, is_alive=bool(alive)) for run_id, owner, alive in found}


def fenced_error(db: apsw.Connection, key: ConversationKey, node: int) -> Fenced:
    owner = find_owner(db, key, node)
    return taken_over_error(str(key), owner.other_node if owner is not None else 0)
