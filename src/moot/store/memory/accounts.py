"""Usage of runs, tokens, and the check of the rows, in memory. Used by store.py."""

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from moot.domain.conversation import Archive, ConversationKey
from moot.domain.errors import Conflict, NotFound
from moot.domain.run import Limits, RunKind, RunStatus
from moot.domain.senders import CHILD_SENDER, owner_of
from moot.domain.token import Token, is_cut_off, list_sender_candidates, sender_in_use_error
from moot.domain.usage import RunUsage, Usage, UsageRow
from moot.store.memory.account_rows import TokenRow
from moot.store.memory.database import ConversationRow, Database

# The last use of a token is stored at most once a minute, not on every request.
_TOUCH_SECONDS = 60.0

# ---- spending -----------------------------------------------------------------------------------


def budget(db: Database, root_id: str) -> tuple[Limits, RunUsage]:
    """Return the limits of the root run, and the usage of all runs of its tree and of their calls outside steps.

    Those calls are summaries, which have their usage in the archive, and all others.

    Runs of a tree run concurrently, so the time of the tree is that of the longest run.
    """
    root = db.runs.get(root_id)
    rows = [*([root] if root else ()), *db.runs.find("root", root_id)]
    others: list[UsageRow | Archive] = [
        *(row for (_, _, root), row in db.other_spend.pairs() if root_id and root == root_id),
        *(archive for archive in db.archives if root_id and archive.root_id == root_id),
    ]
    total = RunUsage(
        usage=sum((row.spent.usage for row in rows), sum((row.usage for row in others), Usage())),
        cost=sum(row.spent.cost for row in rows) + sum(row.cost for row in others),
        steps=sum(row.spent.steps for row in rows),
        seconds=max((row.spent.seconds for row in rows), default=0.0),
    )
    return root.request.limits if root else Limits(), total


def add_spend(db: Database, key: ConversationKey, model: str, usage: Usage, cost: float, root_id: str) -> None:
    """Count a model call outside steps. One in the conversation of a teammate is listed for its root conversation."""
    if key.sender.startswith(CHILD_SENDER) and db.conversation(key) is None:
        # The conversation was removed in the meantime, and what it used with it.
        return
    new = UsageRow(agent=key.agent, sender=key.sender, model=model, runs=0, usage=Usage(), cost=0.0)
    known = db.other_spend.get((key, model, root_id)) or new
    db.other_spend.put((key, model, root_id), replace(known, usage=known.usage + usage, cost=known.cost + cost))


def list_outside_steps(db: Database) -> list[UsageRow]:
    """Return the usage of all summaries and other calls outside steps, under the conversations they were made in."""
    found: list[UsageRow] = list(db.other_spend)
    for (conversation, _), archive in db.archives.pairs():
        if archive.model:
            agent, sender = db.conversations[conversation].key
            found.append(
                UsageRow(
                    agent=agent, sender=sender, model=archive.model, runs=0, usage=archive.usage, cost=archive.cost
                )
            )
    return found


def find_root(db: Database, key: ConversationKey) -> ConversationKey | None:
    """Return the root conversation of that of a teammate."""
    conversation = db.conversation(key)
    runs = db.runs.find("conversation", conversation.id) if conversation is not None else []
    return next((row.request.root for row in runs if row.request.root), None)


def list_spend(db: Database, agent: str, sender: str) -> list[UsageRow]:
    """Return the usage of runs that began and ended, archives and calls outside runs; teammates where they ran."""
    found = list_outside_steps(db)
    for row in db.runs:
        if row.end is not None and row.started_at:
            key = db.conversations[row.conversation].key
            found.append(
                UsageRow(
                    agent=key.agent,
                    sender=key.sender,
                    model=row.end.model,
                    runs=1,
                    usage=row.spent.usage,
                    cost=row.spent.cost,
                )
            )
    wanted = [
        each
        for each in found
        if agent in ("", each.agent) and sender in ("", each.sender) and not each.sender.startswith(CHILD_SENDER)
    ]
    return sorted(_add_up(wanted), key=lambda each: (each.agent, each.sender, each.model))


def list_teammate_spend(db: Database, agent: str, sender: str) -> list[UsageRow]:
    """Return the usage of spawned runs, including those that were removed, by root conversation."""
    found = list(db.past_spend)
    for row in db.runs:
        if row.end is not None and row.spawn.kind is RunKind.TEAMMATE:
            root_agent, root_sender = row.request.root or ("", "")
            found.append(
                UsageRow(
                    agent=row.request.speaker,
                    sender=root_sender,
                    model=row.end.model,
                    runs=1,
                    usage=row.spent.usage,
                    cost=row.spent.cost,
                    root=root_agent,
                )
            )
    found += [
        replace(each, sender=root.sender, root=root.agent)
        for each in list_outside_steps(db)
        if each.sender.startswith(CHILD_SENDER) and (root := find_root(db, ConversationKey(each.agent, each.sender)))
    ]
    wanted = [each for each in found if agent in ("", each.root) and sender in ("", each.sender)]
    return sorted(_add_up(wanted), key=lambda each: (each.root, each.sender, each.agent, each.model))


def _add_up(found: Iterable[UsageRow]) -> list[UsageRow]:
    sums: dict[tuple[str, str, str, str], UsageRow] = {}
    for each in found:
        place = (each.root, each.sender, each.agent, each.model)
        known = sums.get(place, replace(each, runs=0, usage=Usage(), cost=0.0))
        sums[place] = replace(
            known, runs=known.runs + each.runs, usage=known.usage + each.usage, cost=known.cost + each.cost
        )
    return list(sums.values())


# ---- tokens -------------------------------------------------------------------------------------


def add_token(db: Database, token: Token, digest: str, taken: Collection[str]) -> Token:
    """Store a token with a sender of its own, and return it."""
    if _live_token(db, token.name) is not None:
        raise Conflict(f"there is a token named {token.name!r}", fix="Revoke it first, or choose another name.")
    if db.tokens.get(digest) is not None:
        raise Conflict("this token was used before", fix="Make a new one.")
    token = replace(token, sender=_choose_sender(db, token, taken))
    db.tokens.put(digest, TokenRow(token=token, digest=digest))
    return token


def _choose_sender(db: Database, token: Token, taken: Collection[str]) -> str:
    if token.continues_name:
        return token.name
    given = {row.token.sender for row in db.tokens}
    # What a token with one of these senders could see or use.
    used = {
        *taken,
        *(owner_of(row.key.sender) for row in db.conversations),
        *(row.info.owner for row in db.secrets),
        *(job.owner.sender for job in db.cron_jobs),
        *(row.run.owner for row in db.workflows),
        *(row.owner for row in db.graph_entities),
        *(row.owner for row in db.graph_terms),
        *(row.owner.sender for row in db.document_sources),
        *(row.item.owner for row in db.knowledge),
        *(row.learning.owner for row in db.learnings),
        *(row.owner.sender for row in db.memories),
        *(row.owner.sender for row in db.tasks),
    }
    if token.name in used - given:
        raise sender_in_use_error(token.name)
    return next(each for each in list_sender_candidates(token.name) if each not in given | used)


def _live_token(db: Database, name: str) -> TokenRow | None:
    return next((row for row in db.tokens.find("name", name) if not row.token.revoked_at), None)


def find_token(db: Database, digest: str) -> Token | None:
    """Return the token with this digest, unless it is revoked."""
    row = db.tokens.get(digest)
    return row.token if row is not None and not row.token.revoked_at else None


def touch_token(db: Database, name: str, now: float) -> None:
    row = _live_token(db, name)
    if row is not None and abs(now - row.token.last_used_at) >= _TOUCH_SECONDS:
        db.tokens.put(row.digest, replace(row, token=replace(row.token, last_used_at=now)))


def list_tokens(db: Database) -> list[Token]:
    if not len(db.tokens):
        # Every mail asks for them.
        return []
    return sorted((row.token for row in db.tokens), key=lambda token: (token.name, token.created_at))


def revoke_token(db: Database, name: str, now: float) -> tuple[str, ...]:
    """Revoke a token and pause the jobs of senders that have no other token; return their names.

    It stays in the list; revoking it again changes nothing.
    """
    if not db.tokens.count("name", name):
        raise NotFound(f"no token named {name!r}", fix="List them with `moot tokens list`.")
    row = _live_token(db, name)
    if row is None:
        return ()
    db.tokens.put(row.digest, replace(row, token=replace(row.token, revoked_at=now)))
    tokens = list_tokens(db)
    active = sorted((job for job in db.cron_jobs if job.next_at is not None), key=lambda job: (job.name, job.id))
    paused = [job for job in active if is_cut_off(job.owner.sender, tokens)]
    for job in paused:
        db.cron_jobs.put(job.id, replace(job, is_paused=True, next_at=None, updated_at=now))
    return tuple(job.name for job in paused)


# ---- the check ----------------------------------------------------------------------------------


def check(db: Database) -> list[str]:
    """Check the rows and return one sentence for each violation."""
    return [*_check_messages(db), *_check_runs(db), *_check_archives(db), *_check_references(db)]


def _check_messages(db: Database) -> Iterator[str]:
    seqs: dict[int, list[int]] = {row.id: [] for row in db.conversations}
    for (conversation, seq), _ in db.messages.pairs():
        if conversation not in seqs:
            yield f"messages of conversation {conversation} belong to nobody"
        else:
            seqs[conversation].append(seq)
    for row in db.conversations:
        if sorted(seqs[row.id]) != list(range(1, row.last_seq + 1)):
            yield f"{row.key} should have messages 1..{row.last_seq}, it has {sorted(seqs[row.id])}"


def _check_runs(db: Database) -> Iterator[str]:
    for row in db.runs:
        conversation = db.conversations.get(row.conversation)
        if conversation is None:
            yield f"run {row.id} has no conversation"
        elif max(row.user_seq, row.reply_seq) > conversation.last_seq or (
            (row.status is RunStatus.RUNNING and not row.user_seq) or row.is_ended != (row.end is not None)
        ):
            yield f"run {row.id} points at a message that is not there, or has lost its own"


def _check_archives(db: Database) -> Iterator[str]:
    for row in db.conversations:
        if not _has_sound_archives(db, row):
            yield f"{row.key} miscounts its archives"


def _has_sound_archives(db: Database, row: ConversationRow) -> bool:
    last = 0
    for number in range(1, row.archives + 1):
        archive = db.archives.get((row.id, number))
        if archive is None or archive.first_seq != last + 1 or archive.last_seq < archive.first_seq:
            return False
        last = archive.last_seq
    return last == row.archived_seq <= row.last_seq


def _check_references(db: Database) -> Iterator[str]:
    shown = [row.conversation for table in (db.asks, db.notes, db.outputs) for row in table]
    for conversation in sorted(set(shown)):
        if conversation not in db.conversations:
            yield f"asks, notes or outputs of conversation {conversation} belong to nobody"
    for run_id in sorted({record.run_id for table in (db.steps, db.trace_notes) for record in table}):
        if run_id not in db.runs:
            yield f"records of run {run_id} are left though the run is gone"
