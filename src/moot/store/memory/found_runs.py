"""Reads runs back in memory, with what is derived: by id, parent, root or conversation; queued, ended or owed."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from moot.domain.ask import AskKind, AskState
from moot.domain.conversation import ConversationKey
from moot.domain.owner import OwnedRun
from moot.domain.run import Delivery, Outcome, Run, RunEnd, RunKind, RunRequest
from moot.domain.scope import ALL_TOOLS, NO_TOOLS
from moot.domain.senders import WORKFLOW_SENDER, SenderSet
from moot.store.memory import nodes
from moot.store.memory.database import Database, RunRow

# Messages and answers in lists are cut to this length.
_LISTED_TEXT = 4_001


def read_all(db: Database, rows: Iterable[RunRow]) -> list[Run]:
    """Return runs in the order in which they were stored."""
    return [read(db, row) for row in sorted(rows, key=lambda row: row.number)]


def read(db: Database, row: RunRow) -> Run:
    delivered = db.deliveries.get(row.id)
    return Run(
        request=_read_request(db, row),
        status=row.status,
        created_at=row.created_at,
        spawn=row.spawn,
        started_at=row.started_at,
        ended_at=row.ended_at,
        user_seq=row.user_seq,
        end=_read_end(db, row),
        spent=row.spent,
        delivery=delivery_of(db, row),
        delivered_by=delivered.run_id if delivered else "",
        delivered_seq=delivered.seq if delivered else 0,
        granted_tools=_list_granted_tools(db, row),
    )


def _read_request(db: Database, row: RunRow) -> RunRequest:
    request, key = row.request, db.conversations[row.conversation].key
    content, delivers = request.content, request.delivers
    if row.user_seq:
        content = db.messages[row.conversation, row.user_seq].message.content
    if request.author:
        item_ids = (each.item_id for each in db.deliveries.find("run", row.id) if each.seq == row.user_seq)
        delivers = tuple(sorted(item_ids))
    # The scope is not stored; the reconstructed one never allows a guest more than guests may have.
    scope = ALL_TOOLS if request.speaker == key.agent else NO_TOOLS
    return replace(request, key=key, content=content, scope=scope, delivers=delivers)


def _read_end(db: Database, row: RunRow) -> RunEnd | None:
    if row.end is None:
        return None
    content = row.end.content
    if row.reply_seq:
        content = db.messages[row.conversation, row.reply_seq].message.content
    spent = row.spent
    return replace(
        row.end,
        content=content,
        usage=spent.usage,
        cost=spent.cost,
        steps=spent.steps,
        seconds=spent.seconds,
        tool_uses=spent.tool_uses,
    )


def _list_granted_tools(db: Database, row: RunRow) -> tuple[str, ...]:
    """Return the granted tools, from the asks; a run with all tools of its role has no grants."""
    if row.spawn.allowed_tools is None:
        return ()
    granted = (AskState.GRANTED, AskState.USED)
    found = [each for each in db.asks.find("run", row.id) if each.ask.kind is AskKind.GRANT]
    return tuple(dict.fromkeys(each.ask.tool for each in found if each.ask.state in granted))


def delivery_of(db: Database, row: RunRow) -> Delivery:
    delivered = db.deliveries.get(row.id)
    if not _reports(row) or (delivered is not None and not delivered.run_id):
        return Delivery.NONE
    if delivered is not None:
        report = db.runs.get(delivered.run_id)
        is_report = report is not None and report.request.author and report.user_seq == delivered.seq
        return Delivery.SENT if is_report else Delivery.WAITED
    return Delivery.NONE if _is_dropped(db, row) else Delivery.OWED


def _reports(row: RunRow) -> bool:
    """Return whether the result belongs to another run, or to the conversation that a background run works for.

    That of a step belongs to its workflow.
    """
    if row.parent_id:
        return True
    is_step = row.request.key.sender.startswith(WORKFLOW_SENDER)
    return row.spawn.kind is RunKind.BACKGROUND and row.request.root is not None and not is_step


def _is_dropped(db: Database, row: RunRow) -> bool:
    """Return whether a result is not owed: the run was stopped with its parent and was not to outlive it."""
    if row.outcome != Outcome.CANCELLED or row.spawn.outlives:
        return False
    parent = db.runs.get(row.parent_id)
    return parent is not None and parent.outcome == Outcome.CANCELLED


def is_owed(db: Database, row: RunRow) -> bool:
    return row.is_ended and row.id not in db.deliveries and delivery_of(db, row) is Delivery.OWED


def get(db: Database, run_id: str) -> Run | None:
    row = db.runs.get(run_id)
    return None if row is None else read(db, row)


def find(db: Database, key: ConversationKey, client_message_id: str) -> Run | None:
    conversation = db.conversation(key)
    if conversation is None or not client_message_id:
        return None
    return next(iter(read_all(db, db.runs.find("message", (conversation.id, client_message_id)))), None)


def find_retried(db: Database, key: ConversationKey, prefix: str, since: float) -> Run | None:
    """Return the newest run whose client message id has this prefix, unless it ended before `since`."""
    conversation = db.conversation(key)
    if conversation is None:
        return None
    rows = [
        row
        for row in db.runs.find("conversation", conversation.id)
        if row.request.client_message_id
        and row.request.client_message_id.startswith(prefix)
        and (not row.is_ended or row.ended_at >= since)
    ]
    return next(reversed(read_all(db, rows)), None)


def list_ids(db: Database, start: str, limit: int) -> list[str]:
    return sorted((row.id for row in db.runs if row.id.startswith(start)), reverse=True)[:limit]


def list_ended(db: Database, senders: SenderSet, limit: int, prefix: str = "") -> list[Run]:
    def is_owned(row: RunRow) -> bool:
        root, sender = row.request.root, db.conversations[row.conversation].key.sender
        return sender.startswith(prefix) and senders.includes(root.sender if root else sender)

    ended = sorted((row for row in db.runs if row.is_ended), key=lambda row: (row.ended_at, row.number), reverse=True)
    found: list[Run] = []
    for row in ended:
        if len(found) >= limit:
            break
        if is_owned(row):
            found.append(_shorten(read(db, row)))
    return found


def _shorten(run: Run) -> Run:
    end = run.end
    return replace(
        run,
        request=replace(run.request, content=run.request.content[:_LISTED_TEXT]),
        end=end and replace(end, content=end.content[:_LISTED_TEXT]),
    )


def list_not_ended(db: Database) -> list[Run]:
    return read_all(db, db.runs.find("unfinished", True))


def list_live(db: Database) -> list[OwnedRun]:
    rows = sorted(db.runs.find("unfinished", True), key=lambda row: row.number)
    return [OwnedRun(read(db, row), nodes.owner_of(db, db.conversations[row.conversation])) for row in rows]


def list_owed(db: Database) -> list[Run]:
    """Return ended runs whose results are owed, except those whose parents belong to another living node."""
    return read_all(db, [row for row in db.runs if is_owed(db, row) and not is_elsewhere(db, row.parent_id or row.id)])


def list_still_owed(db: Database, run_ids: Sequence[str]) -> list[Run]:
    rows = [row for run_id in dict.fromkeys(run_ids) if (row := db.runs.get(run_id)) is not None]
    return read_all(db, [row for row in rows if is_owed(db, row) and not is_elsewhere(db, row.parent_id or row.id)])


def is_elsewhere(db: Database, run_id: str) -> bool:
    """Whether a run belongs to another living node."""
    run = db.runs.get(run_id)
    node = db.conversations[run.conversation].node if run is not None else db.node
    return node != db.node and node in db.nodes


def list_of_root(db: Database, root_id: str) -> list[Run]:
    return read_all(db, [row for row in db.runs.find("root", root_id) if row.spawn.kind is not RunKind.TURN])


def list_workers(db: Database, key: ConversationKey, root: ConversationKey, limit: int) -> list[Run]:
    """Return the newest run of each teammate that runs of a conversation have started, newest first."""
    newest: dict[int, RunRow] = {}
    for row in db.runs:
        parent = db.runs.get(row.parent_id)
        if row.spawn.kind is not RunKind.TEAMMATE or row.request.root != root or parent is None:
            continue
        known = newest.get(row.conversation)
        if db.conversations[parent.conversation].key == key and (known is None or known.number < row.number):
            newest[row.conversation] = row
    return read_all(db, newest.values())[::-1][:limit]


def list_of_parent(db: Database, parent_id: str) -> list[Run]:
    return read_all(db, db.runs.find("parent", parent_id))


def list_of_conversation(db: Database, key: ConversationKey, first_seq: int) -> list[Run]:
    """Return runs of messages from first_seq on, then those without a message; the last run of a message wins."""
    conversation = db.conversation(key)
    if conversation is None:
        return []
    rows = [
        row for row in db.runs.find("conversation", conversation.id) if row.user_seq >= first_seq or not row.user_seq
    ]
    rows.sort(key=lambda row: (not row.user_seq, row.user_seq, row.number))
    return [read(db, row) for row in rows]


def find_roots(db: Database, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
    rows = [row for run_id in run_ids if (row := db.runs.get(run_id)) is not None]
    return {row.id: row.request.root for row in rows if row.request.root is not None}
