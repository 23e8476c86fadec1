"""Reads runs back: by id, by a client's id, by parent, root or conversation; queued, ended, or owed to their parent."""

import json
from collections.abc import Collection, Iterable, Sequence

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.owner import OwnedRun
from moot.domain.recovery import LeftRun
from moot.domain.run import Delivery, Limits, MailCause, Outcome, Run, RunEnd, RunKind, RunRequest, RunStatus, Spawn
from moot.domain.scope import ALL_TOOLS, NO_TOOLS
from moot.domain.senders import CHILD_SENDER, WORKFLOW_SENDER, SenderSet
from moot.domain.usage import RunUsage
from moot.store import asks, conversations, deliveries, dialect, nodes, rows

# A result is not owed if the run was stopped together with its parent, unless it was to outlive the parent.
_IS_DROPPED = (
    "(runs.outcome = 'cancelled' AND outlives = 0 AND EXISTS"
    " (SELECT 1 FROM runs AS parents WHERE parents.id = runs.parent_id AND parents.outcome = 'cancelled'))"
)
# A background run that works for a conversation owes its result to that. For a step, its workflow reports.
_IS_STEP = f"substr(conversations.sender, 1, {len(WORKFLOW_SENDER)}) = '{WORKFLOW_SENDER}'"
_REPORTS = f"(runs.parent_id <> '' OR (runs.kind = 'background' AND runs.root_agent <> '' AND NOT {_IS_STEP}))"
IS_OWED = (
    f"runs.status = 'ended' AND runs.kind <> 'turn' AND {_REPORTS} AND deliveries.item_id IS NULL AND NOT {_IS_DROPPED}"
)
_DELIVERY = (
    f"CASE WHEN NOT {_REPORTS} OR deliveries.run_id = '' THEN 'none'"
    " WHEN deliveries.item_id IS NOT NULL THEN CASE WHEN EXISTS (SELECT 1 FROM runs AS reports"
    " WHERE reports.id = deliveries.run_id AND reports.author <> '' AND reports.user_seq = deliveries.seq)"
    " THEN 'sent' ELSE 'waited' END"
    f" WHEN {_IS_DROPPED} THEN 'none' ELSE 'owed' END"
)
# Granted tools are read from the asks; a run with all tools of its role has no grants.
_GRANTED = (
    f"CASE WHEN runs.allowed_tools IS NULL THEN '[]' ELSE (SELECT {dialect.json_list('DISTINCT tool')} FROM asks"
    " WHERE asks.run = runs.id AND asks.kind = 'grant' AND asks.state IN ('granted', 'used')) END"
)
# The results that the message of a report delivers.
_DELIVERS = (
    f"CASE WHEN runs.author = '' THEN '[]' ELSE (SELECT {dialect.json_list('item_id')} FROM deliveries AS reported"
    " WHERE reported.run_id = runs.id AND reported.seq = runs.user_seq) END"
)
_COLUMNS = (
    "conversations.agent, conversations.sender, runs.id, runs.speaker, runs.status,"
    " coalesce(messages.content, runs.content, ''), runs.cwd, max_steps, max_seconds, max_tokens, max_spend,"
    " client_message_id, runs.created_at, runs.started_at, runs.ended_at, user_seq, runs.outcome, runs.error,"
    " hit_limit, coalesce(replies.content, reply), provider, model, prompt, completion, cache_hit, cache_miss,"
    " reasoning, cost, steps, seconds, author, runs.taint, runs.root_id, kind, root_agent, root_sender,"
    f" parent_id, parent_call, parent_step, parent_seq, chain, spawn_reason, allowed_tools, outlives, client_key,"
    f" {_DELIVERY}, coalesce(deliveries.run_id, ''), coalesce(deliveries.seq, 0), {_GRANTED}, {_DELIVERS}, rerun_of,"
    " runs.search_path, steers, runs.tool_uses, report_to, runs.thread, runs.hops"
)
_SELECT = (
    f"SELECT {_COLUMNS} FROM runs JOIN conversations ON conversations.id = runs.conversation"
    " LEFT JOIN messages ON user_seq > 0 AND messages.id = (runs.conversation << 32) + user_seq"
    " LEFT JOIN messages AS replies ON reply_seq > 0 AND replies.id = (runs.conversation << 32) + reply_seq"
    " LEFT JOIN deliveries ON deliveries.item_id = runs.id"
)
# Maximum length of request and answer in a list: many runs are read at once, and only an excerpt is shown.
_LISTED_TEXT = 4_001
_LISTED = _SELECT.replace(
    "coalesce(messages.content, runs.content, '')",
    f"substr(coalesce(messages.content, runs.content, ''), 1, {_LISTED_TEXT})",
).replace("coalesce(replies.content, reply)", f"substr(coalesce(replies.content, reply), 1, {_LISTED_TEXT})")
_ENDED = "SELECT number, conversation, root_sender FROM runs WHERE status = 'ended'"


def _read(found: Iterable[rows.Row]) -> list[Run]:
    return [_run(row) for row in found]


def _run(row: rows.Row) -> Run:
    created_at, started_at, ended_at, user_seq = row[12:16]
    status = RunStatus(row[4])
    return Run(
        request=_request(row),
        status=status,
        created_at=created_at,
        spawn=_spawn(row),
        started_at=started_at,
        ended_at=ended_at,
        user_seq=user_seq,
        end=_end(row[16:30], row[53]) if status is RunStatus.ENDED else None,
        spent=RunUsage(usage=rows.usage(row[22:27]), cost=row[27], steps=row[28], seconds=row[29], tool_uses=row[53]),
        delivery=Delivery(row[45]),
        delivered_by=row[46],
        delivered_seq=row[47],
        granted_tools=tuple(json.loads(row[48])),
    )


def _request(row: rows.Row) -> RunRequest:
    agent, sender, run_id, speaker, _, content, cwd = row[:7]
    return RunRequest(
        id=run_id,
        key=ConversationKey(agent, sender),
        speaker=speaker,
        content=content,
        # The scope is not stored. The default never gives a guest more than a guest may have.
        scope=ALL_TOOLS if speaker == agent else NO_TOOLS,
        cwd=cwd,
        limits=Limits(steps=row[7], seconds=row[8], tokens=row[9], spend=row[10]),
        client_message_id=row[11],
        author=row[30],
        taint=rows.decode_taint(row[31]),
        root_id="" if row[32] == run_id else row[32],
        parent_id=row[36],
        delivers=tuple(json.loads(row[49])),
        root=ConversationKey(row[34], row[35]) if row[34] else None,
        rerun_of=row[50],
        search_path=row[51],
        steers=row[52],
        cause=MailCause(row[55], row[56]),
    )


def _spawn(row: rows.Row) -> Spawn:
    kind, allowed_tools = RunKind(row[33]), row[42]
    if kind is RunKind.TURN:
        return Spawn(kind=kind)
    return Spawn(
        kind=kind,
        parent_call=row[37],
        parent_step=row[38],
        parent_seq=row[39],
        chain=tuple(json.loads(row[40])),
        reason=row[41],
        allowed_tools=None if allowed_tools is None else tuple(json.loads(allowed_tools)),
        outlives=bool(row[43]),
        client_key=row[44],
        report_to=row[54],
    )


def _end(row: rows.Row, tool_uses: int) -> RunEnd:
    outcome, error, limit, content, provider, model, *spent, cost, steps, seconds = row
    return RunEnd(
        outcome=Outcome(outcome),
        error=error,
        limit=limit,
        content=content,
        provider=provider,
        model=model,
        usage=rows.usage(tuple(spent)),
        cost=cost,
        steps=steps,
        seconds=seconds,
        tool_uses=tool_uses,
    )


def ids_from(db: apsw.Connection, start: str, limit: int) -> list[str]:
    ids = f"SELECT id FROM runs WHERE {dialect.begins_with('id', '?1')} ORDER BY id DESC LIMIT ?2"
    found = db.execute(ids, (start, limit))
    return [str(run_id) for (run_id,) in found]


def list_ended(db: apsw.Connection, senders: SenderSet, limit: int, prefix: str = "") -> list[Run]:
    """Return the last ended runs of the senders' trees, newest first. Long texts are cut."""
    named = f"SELECT id FROM conversations WHERE {dialect.begins_with('sender', '?1')}"
    # The index has this order.
    query = f"{_ENDED}{f' AND conversation IN ({named})' if prefix else ''} ORDER BY ended_at DESC, number DESC"
    seen: dict[int, bool] = {}
    numbers: list[int] = []
    for number, conversation, root_sender in db.execute(query, (prefix,) if prefix else ()):
        if root_sender:
            is_owned = senders.includes(root_sender)
        elif conversation in seen:
            is_owned = seen[conversation]
        else:
            sender = db.execute("SELECT sender FROM conversations WHERE id = ?", (conversation,)).get
            is_owned = seen[conversation] = senders.includes(sender)
        if is_owned:
            numbers.append(number)
        if len(numbers) >= limit:
            break
    chosen = f"{_LISTED} WHERE number IN {dialect.among()} ORDER BY runs.ended_at DESC, number DESC"
    return _read(db.execute(chosen, (json.dumps(numbers),)))


def find(db: apsw.Connection, key: ConversationKey, client_message_id: str) -> Run | None:
    conversation = rows.conversation_id(db, key)
    if conversation is None or not client_message_id:
        return None
    found = db.execute(
        f"{_SELECT} WHERE runs.conversation = ? AND client_message_id = ? AND client_message_id <> ''",
        (conversation, client_message_id),
    )
    return next(iter(_read(found)), None)


def find_retried(db: apsw.Connection, key: ConversationKey, prefix: str, since: float) -> Run | None:
    """Return the newest run whose client message id has this prefix, unless it ended before `since`."""
    conversation = rows.conversation_id(db, key)
    found = db.execute(
        f"{_SELECT} WHERE runs.conversation = ?1 AND client_message_id <> ''"
        " AND substr(client_message_id, 1, length(?2)) = ?2 AND (status <> 'ended' OR ended_at >= ?3)"
        " ORDER BY number DESC LIMIT 1",
        (conversation, prefix, since),
    )
    return next(iter(_read(found)), None)


def get(db: apsw.Connection, run_id: str) -> Run | None:
    return next(iter(_read(db.execute(f"{_SELECT} WHERE runs.id = ?", (run_id,)))), None)


def list_by_ids(db: apsw.Connection, run_ids: Sequence[str]) -> list[Run]:
    """Return the runs with these ids, in any order."""
    return _read(db.execute(f"{_SELECT} WHERE runs.id IN {dialect.among()}", (json.dumps(run_ids),)))


def find_message(db: apsw.Connection, run_id: str) -> int:
    """Return the number of the message of a run; 0 if none was appended.

    A rerun that never began has the message of the run in whose place it was to answer.
    """
    user_seq, earlier = rows.one(db.execute("SELECT user_seq, rerun_of FROM runs WHERE id = ?", (run_id,)))
    while not user_seq and earlier:
        row = db.execute("SELECT user_seq, rerun_of FROM runs WHERE id = ?", (earlier,)).fetchone()
        user_seq, earlier = row if row is not None else (0, "")
    return int(user_seq)


def not_ended(db: apsw.Connection) -> list[Run]:
    """Return all runs that have not ended, parents before their children."""
    return _read(db.execute(f"{_SELECT} WHERE status IN ('queued', 'running') AND status <> 'ended' ORDER BY number"))


def list_live(db: apsw.Connection, node: int) -> list[OwnedRun]:
    """Return all runs that have not ended, with their owners as this node sees them."""
    owners = nodes.list_owners(db, node)
    return [OwnedRun(run, owners[run.id]) for run in not_ended(db)]


def list_owed(db: apsw.Connection, node: int) -> list[Run]:
    """Return ended runs whose results are owed, except those whose parents belong to another living node."""
    owed = f"{_SELECT} WHERE {IS_OWED} AND NOT {deliveries.IS_ELSEWHERE} ORDER BY number"
    return _read(db.execute(owed, (node,)))


def list_still_owed(db: apsw.Connection, run_ids: Sequence[str], node: int) -> list[Run]:
    """Return those of the given runs that `list_owed` returns."""
    named = f"runs.id IN {dialect.among('?2')}"
    owed = f"{_SELECT} WHERE {named} AND {IS_OWED} AND NOT {deliveries.IS_ELSEWHERE} ORDER BY number"
    return _read(db.execute(owed, (node, json.dumps(run_ids))))


def of_root(db: apsw.Connection, root_id: str) -> list[Run]:
    """Return all runs that were spawned in one turn."""
    return _read(
        db.execute(f"{_SELECT} WHERE root_id = ? AND root_id <> runs.id AND kind <> 'turn' ORDER BY number", (root_id,))
    )


def list_workers(db: apsw.Connection, key: ConversationKey, root: ConversationKey, limit: int) -> list[Run]:
    """Return the newest run of each teammate that runs of a conversation have started, newest first."""
    newest = (
        "SELECT max(spawned.number) FROM runs AS spawned JOIN runs AS parents ON parents.id = spawned.parent_id"
        " JOIN conversations AS held ON held.id = parents.conversation"
        " WHERE spawned.root_agent = ? AND spawned.root_sender = ? AND spawned.root_agent <> ''"
        " AND spawned.kind = 'teammate' AND held.agent = ? AND held.sender = ?"
        " GROUP BY spawned.conversation ORDER BY max(spawned.number) DESC LIMIT ?"
    )
    numbers = [number for (number,) in db.execute(newest, (*root, *key, limit))]
    chosen = f"{_SELECT} WHERE number IN {dialect.among()} ORDER BY number DESC"
    return _read(db.execute(chosen, (json.dumps(numbers),)))


def of_parent(db: apsw.Connection, parent_id: str) -> list[Run]:
    """Return the runs that a run has spawned, in order."""
    return _read(db.execute(f"{_SELECT} WHERE parent_id = ? AND parent_id <> '' ORDER BY number", (parent_id,)))


def keep_past(db: apsw.Connection, key: ConversationKey) -> None:
    """Store how the spawned runs of a conversation ended, for the traces of their parents, before their removal."""
    db.execute(
        "INSERT INTO past_runs (number, id, parent_id, parent_call, agent, outcome, delivery, delivered_by,"
        " delivered_seq, created_at, ended_at)"
        f" SELECT number, runs.id, parent_id, parent_call, speaker, outcome, {_DELIVERY},"
        " coalesce(deliveries.run_id, ''), coalesce(deliveries.seq, 0), runs.created_at, runs.ended_at"
        " FROM runs JOIN conversations ON conversations.id = runs.conversation"
        " LEFT JOIN deliveries ON deliveries.item_id = runs.id"
        " WHERE agent = ? AND sender = ? AND status = 'ended' AND parent_id IN (SELECT id FROM runs)",
        key,
    )


def all_of_parent(db: apsw.Connection, parent_id: str) -> list[Run]:
    """Return the runs that a run has spawned, in order; of those that were removed, only the end is known."""
    spawned = db.execute(
        "SELECT id FROM (SELECT id, number FROM runs WHERE parent_id = ?1 AND parent_id <> ''"
        " UNION ALL SELECT id, number FROM past_runs WHERE parent_id = ?1) ORDER BY number",
        (parent_id,),
    )
    order = [run_id for (run_id,) in spawned]
    found = {run.id: run for run in (*of_parent(db, parent_id), *_past_of_parent(db, parent_id))}
    return [found[run_id] for run_id in order]


def _past_of_parent(db: apsw.Connection, parent_id: str) -> list[Run]:
    found = db.execute(
        "SELECT id, parent_call, agent, outcome, delivery, delivered_by, delivered_seq, created_at, ended_at"
        " FROM past_runs WHERE parent_id = ?",
        (parent_id,),
    )
    return [_past_run(row, parent_id) for row in found]


def _past_run(row: rows.Row, parent_id: str) -> Run:
    run_id, call, agent, outcome, delivery, delivered_by, delivered_seq, created_at, ended_at = row
    key = ConversationKey(agent, CHILD_SENDER + run_id)
    return Run(
        request=RunRequest(id=run_id, key=key, speaker=agent, content="", parent_id=parent_id),
        status=RunStatus.ENDED,
        created_at=created_at,
        spawn=Spawn(parent_call=call),
        ended_at=ended_at,
        end=RunEnd(outcome=Outcome(outcome)),
        delivery=Delivery(delivery),
        delivered_by=delivered_by,
        delivered_seq=delivered_seq,
    )


def find_duplicate(db: apsw.Connection, run: Run) -> Run | None:
    """Return the run that the same call of the same parent, or the same client start, has created."""
    spawn = run.spawn
    values: tuple[str, ...]
    if spawn.parent_call:
        where, values = "parent_id = ? AND parent_call = ? AND parent_call <> ''", (run.parent_id, spawn.parent_call)
    elif spawn.client_key:
        where, values = "client_key = ? AND client_key <> ''", (spawn.client_key,)
    else:
        return None
    return next(iter(_read(db.execute(f"{_SELECT} WHERE {where}", values))), None)


def roots(db: apsw.Connection, run_ids: Sequence[str]) -> dict[str, ConversationKey]:
    """Return the root conversations of runs, by run id."""
    found = db.execute(
        f"SELECT id, root_agent, root_sender FROM runs WHERE root_agent <> '' AND id IN {dialect.among()}",
        (json.dumps(run_ids),),
    )
    return {run_id: ConversationKey(agent, sender) for run_id, agent, sender in found}


def of_conversation(db: apsw.Connection, key: ConversationKey, first_seq: int) -> list[Run]:
    """Return runs of messages from first_seq on, then those without a message; the last run of a message wins."""
    conversation = rows.conversation_id(db, key)
    if conversation is None:
        return []
    return _read(
        db.execute(
            f"{_SELECT} WHERE runs.conversation = ? AND (user_seq >= ? OR user_seq = 0)"
            " ORDER BY user_seq = 0, user_seq, number",
            (conversation, first_seq),
        )
    )


def list_left(db: apsw.Connection, taken: Collection[str]) -> list[LeftRun]:
    """Return those of the runs that have not ended, with the data that recovery needs, parents before children."""
    found: list[LeftRun] = []
    for run in not_ended(db):
        if run.id not in taken:
            continue
        conversation = rows.require_conversation(db, run.key)
        children = of_parent(db, run.id)
        found.append(
            LeftRun(
                run=run,
                open_calls=conversations.list_open_calls(db, conversation) if run.status is RunStatus.RUNNING else (),
                resumable=asks.resumable_calls(db, run.id),
                unapproved=asks.list_unapproved_calls(db, run.id),
                parent_outcome=_outcome(db, run.parent_id),
                has_teammates=any(
                    child.status is not RunStatus.ENDED or child.delivery == "owed" for child in children
                ),
            )
        )
    return found


def _outcome(db: apsw.Connection, run_id: str) -> Outcome | None:
    found = db.execute("SELECT outcome FROM runs WHERE id = ?", (run_id,)).get if run_id else ""
    return Outcome(found) if found else None


def is_followed(db: apsw.Connection, conversation: int, user_seq: int) -> bool:
    """Return whether another turn follows. Messages of the run itself do not count; a rerun continues them."""
    first, last = rows.message_id(conversation, user_seq + 1), rows.message_id(conversation + 1, 0)
    found = db.execute(
        "SELECT 1 FROM messages WHERE id >= ? AND id < ? AND role = 'user'"
        " AND (run_id = '' OR run_id <> (SELECT run_id FROM messages WHERE id = ?)) LIMIT 1",
        (first, last, first - 1),
    )
    return found.fetchone() is not None
