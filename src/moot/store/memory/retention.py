"""Removes conversations, trace notes and workflows in memory, on demand and after their time. Used by store.py."""

from collections.abc import Callable

from msgspec.structs import fields, replace

from moot.domain.config import TraceConfig
from moot.domain.conversation import ConversationKey
from moot.domain.deletion import DELETED_UNREAD, Deletion, DeletionCounts, ExpiredData
from moot.domain.goal import make_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.outbox import ReturnedMail
from moot.domain.run import Run, RunEnd, RunKind, RunRequest, RunStatus, Spawn
from moot.domain.senders import CHILD_SENDER
from moot.domain.step_record import Part
from moot.domain.trace import is_failure
from moot.domain.usage import Usage, UsageRow
from moot.store.memory import accounts, documents, found_runs, lost_mail, nodes, notices, workflows
from moot.store.memory.cron_jobs import remove_job
from moot.store.memory.database import Database, PastRunRow, RunRow
from moot.store.memory.mail import find_conversation, list_unread
from moot.store.memory.transactions import Transactions

_DAY = 86_400.0
IsOld = Callable[[RunRow, float], bool]


# ---- deletion -----------------------------------------------------------------------------------


def count_deletion(db: Database, key: ConversationKey) -> DeletionCounts:
    """Return the counts of what a deletion would remove, including the conversations of its teammates."""
    each = [_count(db, one) for one in (key, *_list_teammate_conversations(db, key))]
    return DeletionCounts(
        **{field.name: sum(getattr(counts, field.name) for counts in each) for field in fields(DeletionCounts)}
    )


def _list_teammate_conversations(db: Database, key: ConversationKey) -> list[ConversationKey]:
    """Return the conversations of ended runs that were spawned for this one."""
    ended = [row for row in db.runs.find("root_conversation", key) if row.is_ended and not _has_live_run(db, row)]
    found = [row for row in ended if not workflows.is_needed(db, row.id)]
    return list({db.conversations[row.conversation].key: None for row in found})


def _has_live_run(db: Database, row: RunRow) -> bool:
    """Return whether another run goes on in the conversation of a run."""
    return any(not each.is_ended for each in db.runs.find("conversation", row.conversation))


def _count(db: Database, key: ConversationKey) -> DeletionCounts:
    row = db.require_conversation(key)
    return DeletionCounts(
        messages=row.last_seq,
        archives=row.archives,
        runs=db.runs.count("conversation", row.id),
        memories=db.memories.count("owner", key),
        tasks=db.tasks.count("owner", key),
        schedules=db.cron_jobs.count("owner", key),
        documents=documents.count_of_pair(db, key),
        notes=db.notes.count("conversation", row.id),
        outputs=db.outputs.count("conversation", row.id),
        lessons=db.learnings.count("origin", key)
        + db.knowledge.count("origin", key)
        + db.inquiries.count("conversation", key),
        rules=len(_rules(db, key)),
        mail=db.mail.count("conversation", row.id),
    )


def _rules(db: Database, key: ConversationKey) -> list[int]:
    return [number for number, rule in db.rules.pairs() if (rule.agent, rule.sender) == key]


def delete(db: Database, key: ConversationKey, now: float) -> Deletion:
    counts = count_deletion(db, key)
    returned: list[ReturnedMail] = []
    for one in (*_list_teammate_conversations(db, key), key):
        returned += _remove(db, one, now)
        _remove_spend(db, one)
    for past in [past for past in db.past_spend.pairs() if past[0][:2] == key]:
        db.past_spend.remove(past[0])
    sweep_parts(db)
    return Deletion(counts=counts, returned=returned)


def _remove_spend(db: Database, key: ConversationKey) -> None:
    for place, _ in [other for other in db.other_spend.pairs() if other[0][0] == key]:
        db.other_spend.remove(place)


def _remove(db: Database, key: ConversationKey, now: float) -> list[ReturnedMail]:
    """Remove one conversation with everything that belongs to it; return the mail that comes back."""
    row = nodes.require_held(db, key)
    for seq in range(1, row.last_seq + 1):
        db.messages.remove((row.id, seq))
    for number in range(1, row.archives + 1):
        db.archives.remove((row.id, number))
    db.imported_stopped_turns.remove(row.id)
    for run in db.runs.find("conversation", row.id):
        _remove_run(db, run)
    returned = _remove_mail(db, row.id, now)
    workflows.remove_of_conversation(db, key)
    for table in (db.asks, db.past_attempts, db.notes, db.outputs):
        table.remove_all("conversation", row.id)
    _remove_of_pair(db, key)
    db.librarian_progress.remove(row.id)
    db.conversations.remove(row.id)
    return returned


def _remove_of_pair(db: Database, key: ConversationKey) -> None:
    for owned in (db.memories, db.tasks):
        owned.remove_all("owner", key)
    for learned in (db.learnings, db.knowledge):
        learned.remove_all("origin", key)
    db.inquiries.remove_all("conversation", key)
    for job in db.cron_jobs.find("owner", key):
        remove_job(db, job.id)
    documents.remove_of_pair(db, key)
    for number in _rules(db, key):
        db.rules.remove(number)


def _remove_mail(db: Database, conversation: int, now: float) -> list[ReturnedMail]:
    lost_mail.forget_of_conversation(db, conversation)
    returned = _return_unread(db, conversation, now)
    for item in db.outbox.find("conversation", conversation):
        if item.failed_at:
            db.outbox.remove(item.item.id)
    for row in db.mail.find("conversation", conversation):
        db.deliveries.remove(row.mail.id)
    db.mail.remove_all("conversation", conversation)
    db.sent_bridges.remove_all("sender", make_goal_id(db.identity, conversation))
    return returned


def _return_unread(db: Database, conversation: int, now: float) -> list[ReturnedMail]:
    """Give back the unread mail of a conversation; return what was sent by another one of this store."""
    unread = list_unread(db, db.conversations[conversation])
    notices.add(db, unread, NoticeState.EVICTED, DELETED_UNREAD)
    own = [mail for mail in unread if find_conversation(db, mail.from_goal) is not None]
    for mail in own:
        lost_mail.keep_returned(db, mail, DELETED_UNREAD, now)
    return [ReturnedMail(mail=mail, state=NoticeState.EVICTED, reason=DELETED_UNREAD) for mail in own]


def _remove_run(db: Database, run: RunRow) -> None:
    # The asks of a teammate are in the conversation of its root.
    for table in (db.asks, db.past_attempts, db.trace_notes, db.steps, db.tool_audit):
        table.remove_all("run", run.id)
    db.past_runs.remove_all("parent", run.id)
    db.cron_firings.remove_all("run", run.id)
    db.deliveries.remove(run.id)
    db.runs.remove(run.id)


def sweep_parts(db: Database) -> None:
    """Remove the parts of model requests that no record needs any more, directly or through another part."""
    used: set[bytes] = set()
    for record in db.steps:
        for part in (record.head, record.extra, record.changes):
            _mark(part, used)
    for digest, _ in db.parts.pairs():
        if digest not in used:
            db.parts.remove(digest)


def _mark(part: Part | None, used: set[bytes]) -> None:
    while part is not None and part.digest not in used:
        used.add(part.digest)
        part = part.parent


# ---- expiry -------------------------------------------------------------------------------------


class MemoryRetention:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def expire(self, config: TraceConfig, *, now: float, batch: int) -> ExpiredData:
        failed, fine = now - config.keep_failed_days * _DAY, now - config.keep_days * _DAY

        def is_old(row: RunRow, at: float) -> bool:
            return at < (failed if row.end is not None and is_failure(row.end.outcome) else fine)

        return await self._transactions.write(
            lambda db: ExpiredData(
                _expire_runs(db, is_old, config.most, batch, now),
                _expire_notes(db, is_old, config.most, batch)
                + workflows.expire(db, config, now, batch)
                + _expire_audit(db, max(failed, fine), batch),
            )
        )


def _expire_runs(db: Database, is_old: IsOld, most: int, batch: int, now: float) -> tuple[ConversationKey, ...]:
    expired = _list_expired(db, is_old, most, batch)
    gone: list[ConversationKey] = []
    for run in expired:
        conversation = db.conversations.get(run.conversation)
        # Another living daemon deletes its own runs.
        if conversation is not None and (conversation.node == db.node or conversation.node not in db.nodes):
            # Reports that arrived after its end belong to its conversation and are removed with it.
            gone.append(conversation.key)
            _let_go(db, conversation.key, now)
    if expired:
        sweep_parts(db)
    return tuple(gone)


def _expire_audit(db: Database, before: float, batch: int) -> int:
    old = sorted((row.record.at, number) for number, row in db.tool_audit.pairs() if row.record.at < before)
    for _, number in old[:batch]:
        db.tool_audit.remove(number)
    return len(old[:batch])


def _list_expired(db: Database, is_old: IsOld, most: int, batch: int) -> list[RunRow]:
    """Return spawned and background runs over the limits of age or number, oldest first."""
    spawned = [row for row in db.runs if row.is_ended and row.spawn.kind is not RunKind.TURN]
    over = min(batch, max(0, len(spawned) - most))
    done = sorted((row for row in spawned if _is_done(db, row)), key=lambda row: row.ended_at)
    found = [row for row in done if is_old(row, row.ended_at)][:batch]
    return found if len(found) >= over else done[:over]


def _is_done(db: Database, row: RunRow) -> bool:
    """Return whether the result is not owed, no run above or below is live, and none continues or needs it."""
    parent = db.runs.get(row.parent_id)
    children = db.runs.find("parent", row.id)
    is_working = any(not child.is_ended for child in children) or (parent is not None and not parent.is_ended)
    others = db.runs.find("conversation", row.conversation)
    is_continued = any(each.number > row.number and each.spawn.kind is not RunKind.TURN for each in others)
    is_needed = workflows.is_needed(db, row.id)
    return not (found_runs.is_owed(db, row) or is_working or is_continued or is_needed)


def _let_go(db: Database, key: ConversationKey, now: float) -> None:
    """Delete a run, keeping its usage and its end."""
    conversation = nodes.require_held(db, key)
    _keep_spend(db, key)
    for row in db.runs.find("conversation", conversation.id):
        if row.is_ended and row.parent_id in db.runs:
            past = _past_run(db, row)
            db.past_runs.put(row.id, PastRunRow(number=row.number, run=past))
    _remove(db, key, now)


def _keep_spend(db: Database, key: ConversationKey) -> None:
    """Move the usage of a conversation to the totals of its root conversation."""
    root = accounts.find_root(db, key) or key
    found = [each for each in accounts.list_outside_steps(db) if (each.agent, each.sender) == key]
    for row in db.runs.find("conversation", nodes.require_held(db, key).id):
        model = row.end.model if row.end else ""
        spent = row.spent
        found.append(
            UsageRow(agent=row.request.speaker, sender="", model=model, runs=1, usage=spent.usage, cost=spent.cost)
        )
    for each in found:
        place = (root.agent, root.sender, each.agent, each.model)
        new = replace(each, sender=root.sender, root=root.agent, runs=0, usage=Usage(), cost=0.0)
        known = db.past_spend.get(place) or new
        db.past_spend.put(
            place,
            replace(known, runs=known.runs + each.runs, usage=known.usage + each.usage, cost=known.cost + each.cost),
        )
    _remove_spend(db, key)


def _past_run(db: Database, row: RunRow) -> Run:
    """Build what the trace of its parent shows: times, outcome, and where the result went."""
    full, speaker = found_runs.read(db, row), row.request.speaker
    assert row.end is not None
    key = ConversationKey(speaker, CHILD_SENDER + row.id)
    return Run(
        request=RunRequest(id=row.id, key=key, speaker=speaker, content="", parent_id=row.parent_id),
        status=RunStatus.ENDED,
        created_at=row.created_at,
        spawn=Spawn(parent_call=row.spawn.parent_call),
        ended_at=row.ended_at,
        end=RunEnd(outcome=row.end.outcome),
        delivery=full.delivery,
        delivered_by=full.delivered_by,
        delivered_seq=full.delivered_seq,
    )


def _expire_notes(db: Database, is_old: IsOld, most: int, batch: int) -> int:
    """Remove expired trace notes of turns in conversations that are kept."""
    oldest: dict[str, float] = {}
    for note in db.trace_notes:
        oldest[note.run_id] = min(note.at, oldest.get(note.run_id, note.at))
    in_order = sorted(oldest, key=lambda run_id: oldest[run_id])
    found = [run_id for run_id in in_order if db.runs[run_id].is_ended and is_old(db.runs[run_id], oldest[run_id])]
    over = min(batch, len(oldest) - most)
    gone = found[:batch] if len(found[:batch]) >= over else in_order[:over]
    for run_id in gone:
        db.trace_notes.remove_all("run", run_id)
    return len(gone)
