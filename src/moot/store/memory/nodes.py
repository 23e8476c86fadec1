"""Ownership of conversations by node, in memory, with the epoch that fences a former owner. As in store/nodes.py.

The current node is the one whose transaction runs, `db.node`.
"""

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Fenced
from moot.domain.owner import Owner, locate, taken_over_error
from moot.store.memory.database import ConversationRow, Database, RunRow


def register(db: Database) -> int:
    """Register a store that opens the database and return its number. Earlier ones count as dead."""
    for number, _ in db.nodes.pairs():
        db.nodes.remove(number)
    number = db.count_up("nodes")
    db.nodes.put(number, number)
    return number


def claim(db: Database, key: ConversationKey, now: float, epoch: int = 0) -> tuple[ConversationRow, bool]:
    """Return the conversation, and whether it was created now. Raises Fenced like `find_held`.

    A new one is not created for a history that was deleted meanwhile, nor by a node that is not alive: it may know an
    earlier one of that name, which was deleted since.
    """
    held = find_held(db, key, epoch)
    if held is not None:
        return held, False
    if epoch or db.node not in db.nodes:
        raise fenced_error(db, key)
    return db.create_conversation(key, now), True


def find_held(db: Database, key: ConversationKey, epoch: int = 0) -> ConversationRow | None:
    """Return the conversation, claimed for this node if necessary; None if it does not exist.

    Raise Fenced if another living node has it, or if `epoch` is not the current one; 0 accepts any epoch.
    """
    row = db.conversation(key)
    if row is None:
        return None
    if row.node != db.node:
        row = _claim(db, row)
    if epoch not in (0, row.epoch):
        raise fenced_error(db, key)
    return row


def require_held(db: Database, key: ConversationKey, epoch: int = 0) -> ConversationRow:
    return find_held(db, key, epoch) or db.require_conversation(key)


def is_lost(db: Database, run: RunRow) -> bool:
    """Return whether another node has taken the run over. An ended run cannot be taken over."""
    held = db.conversations[run.conversation]
    return not run.is_ended and (held.node, held.epoch) != (db.node, run.epoch)


def is_replaced(db: Database, run: RunRow) -> bool:
    """As is_lost, but also where a later node has the conversation of a run that has ended."""
    return is_lost(db, run) or db.conversations[run.conversation].node > db.node


def require_run(db: Database, run_id: str) -> None:
    """Raise Fenced if another node has taken the run over. Removed and ended runs belong to no node."""
    run = db.runs.get(run_id)
    if run is not None and is_lost(db, run):
        raise fenced_error(db, db.conversations[run.conversation].key)


def next_epoch(db: Database, row: ConversationRow) -> int:
    """Return the epoch under which this node writes a conversation: the current one, or the one it will claim."""
    return row.epoch if row.node == db.node else row.epoch + 1


def _claim(db: Database, row: ConversationRow) -> ConversationRow:
    """Claim a conversation of another node. Raise Fenced if that node is alive, or this one is not."""
    if row.node in db.nodes or db.node not in db.nodes:
        raise fenced_error(db, row.key)
    return db.change_conversation(row, node=db.node, epoch=row.epoch + 1)


def take_over(db: Database) -> list[str]:
    """Claim the conversations of dead nodes that have runs which have not ended; return the ids of these runs."""
    left = db.runs.find("unfinished", True)
    for conversation in {run.conversation: None for run in left}:
        if db.conversations[conversation].node not in db.nodes:
            _claim(db, db.conversations[conversation])
    taken = [run for run in left if db.conversations[run.conversation].node == db.node and is_lost(db, run)]
    for run in taken:
        db.runs.put(run.id, replace(run, epoch=db.conversations[run.conversation].epoch))
    return [run.id for run in taken]


def find_owner(db: Database, key: ConversationKey) -> Owner | None:
    row = db.conversation(key)
    return None if row is None else owner_of(db, row)


def owner_of(db: Database, row: ConversationRow) -> Owner:
    """Return the owner of a conversation as this node sees it."""
    return locate(row.node, seen_from=db.node, is_alive=row.node in db.nodes)


def fenced_error(db: Database, key: ConversationKey) -> Fenced:
    owner = find_owner(db, key)
    return taken_over_error(str(key), owner.other_node if owner is not None else 0)
