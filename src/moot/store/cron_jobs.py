"""The tables of scheduled jobs and their firings. A firing is written together with the run it starts."""

import json
from collections.abc import Mapping, Sequence

import apsw
from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import (
    MOST_FIRINGS,
    MOST_JOBS,
    CronJob,
    Firing,
    FiringRecord,
    JobDelivery,
    JobIsolation,
    MissedRule,
    SkipReason,
    check_same_kind,
)
from moot.domain.errors import BadRequest, Conflict
from moot.domain.run import MailCause, Run
from moot.domain.schedule import Schedule, ScheduleKind
from moot.domain.senders import SenderSet
from moot.domain.token import cut_off_error, is_cut_off
from moot.domain.workflow import LISTED_SOURCE, WorkflowLaunch
from moot.store import conversations, dialect, found_runs, rows, runs, tokens, workflow_rows
from moot.store.sqlite import SqliteStore

_COLUMNS = (
    "id, agent, sender, name, runs_as, prompt, workflow, schedule_kind, schedule, zone, conversation_mode, missed,"
    " delivers, timeout, cwd, search_path, taint, created_at, updated_at, paused, next_at, thread, hops"
)
_CHANGED = ", ".join(
    f"{name} = excluded.{name}" for name in _COLUMNS.split(", ") if name not in {"id", "agent", "sender", "created_at"}
)
# By the number that is stored.
_DELIVERIES = (JobDelivery.NOWHERE, JobDelivery.CONVERSATION, JobDelivery.OWNER)
_SELECT = f"SELECT {_COLUMNS} FROM cron_jobs"
_SELECT_LISTED = _SELECT.replace(" workflow,", f" substr(workflow, 1, {LISTED_SOURCE}),")
_SELECT_FIRINGS = (
    "SELECT job_id, due_at, fired_at, run_id, skipped, manual FROM cron_firings JOIN cron_jobs ON cron_jobs.id = job_id"
)
_IS_DUE = "next_at IS NOT NULL AND paused = 0"
# Whether the run or workflow run of a firing has not ended.
_IS_LIVE = (
    "(EXISTS (SELECT 1 FROM runs WHERE runs.id = cron_firings.run_id AND runs.status <> 'ended')"
    " OR EXISTS (SELECT 1 FROM workflows WHERE workflows.id = cron_firings.run_id AND workflows.ended_at = 0))"
)


class SqliteCron:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def save(self, job: CronJob) -> tuple[CronJob, bool]:
        return await self._store.write(lambda db: _save(db, job, self._store.node), "cron")

    async def get(self, job_id: str) -> CronJob | None:
        return await self._store.read(lambda db: _get(db, job_id))

    async def find(self, owner: ConversationKey, name: str) -> CronJob | None:
        return await self._store.read(lambda db: _find(db, owner, name))

    async def list_jobs(self, *, agent: str = "", sender: str = "") -> list[CronJob]:
        return await self._store.read(lambda db: _list_jobs(db, agent, sender))

    async def pause(self, job_id: str, *, now: float) -> CronJob | None:
        return await self._store.write(lambda db: _set_paused(db, job_id, True, None, now), "cron")

    async def resume(self, job_id: str, *, next_at: float | None, now: float) -> CronJob | None:
        return await self._store.write(lambda db: _set_paused(db, job_id, False, next_at, now), "cron")

    async def remove(self, job_id: str) -> bool:
        return await self._store.write(lambda db: _remove(db, job_id), "cron")

    async def find_next_due(self) -> float | None:
        found = f"SELECT next_at FROM cron_jobs WHERE {_IS_DUE} ORDER BY next_at LIMIT 1"
        return await self._store.read(lambda db: db.execute(found).get)

    async def find_last_fired(self) -> float:
        return await self._store.read(lambda db: db.execute("SELECT coalesce(max(fired_at), 0) FROM cron_firings").get)

    async def move(self, times: Mapping[str, tuple[float, float]]) -> None:
        await self._store.write(lambda db: _move(db, times), "cron")

    async def list_due(self, now: float, *, limit: int) -> list[CronJob]:
        due = f"{_SELECT} WHERE {_IS_DUE} AND next_at <= ? ORDER BY next_at, id LIMIT ?"
        return await self._store.read(lambda db: [_job(row) for row in db.execute(due, (now, limit))])

    async def fire(
        self, job: CronJob, firing: Firing, work: Run | WorkflowLaunch | None, *, next_at: float | None
    ) -> Firing | None:
        return await self._store.write(lambda db: _fire(db, job, firing, work, next_at, self._store.node), "fire")

    async def list_last_firings(self, *, agent: str = "", sender: str = "") -> list[FiringRecord]:
        return await self._store.read(lambda db: _list_last_firings(db, agent, sender))

    async def list_firings(
        self, senders: SenderSet, *, job_id: str = "", agent: str = "", limit: int
    ) -> list[FiringRecord]:
        return await self._store.read(lambda db: _list_firings(db, senders, job_id, agent, limit))


def _save(db: apsw.Connection, job: CronJob, node: int) -> tuple[CronJob, bool]:
    if job.delivers and rows.conversation_id(db, job.owner) is None:
        # Questions of its runs are asked there.
        conversations.claim(db, job.owner, job.updated_at, node)
    if is_cut_off(job.owner.sender, tokens.list_tokens(db)):
        # A run that has begun before the revocation adds it.
        job = replace(job, is_paused=True, next_at=None)
    known = _find(db, job.owner, job.name)
    if known is None:
        count = db.execute("SELECT count(*) FROM cron_jobs WHERE agent = ? AND sender = ?", job.owner).get
        if count >= MOST_JOBS:
            raise BadRequest(f"there are {MOST_JOBS} jobs already", fix="Remove one first.")
    else:
        check_same_kind(known, is_workflow=bool(job.workflow))
        job = replace(job, id=known.id, created_at=known.created_at)
    db.execute(
        f"INSERT INTO cron_jobs ({_COLUMNS}) VALUES ({', '.join('?' * 23)})"
        f" ON CONFLICT (agent, sender, name) DO UPDATE SET {_CHANGED}",
        (
            job.id,
            *job.owner,
            job.name,
            job.agent,
            job.prompt,
            job.workflow,
            job.schedule.kind,
            job.schedule.text,
            job.schedule.zone,
            job.conversation_mode,
            job.missed,
            _DELIVERIES.index(job.delivery),
            job.timeout,
            job.cwd,
            job.search_path,
            rows.encode_taint(job.taint),
            job.created_at,
            job.updated_at,
            int(job.is_paused),
            job.next_at,
            job.cause.thread,
            job.cause.hops,
        ),
    )
    return job, known is None


def _get(db: apsw.Connection, job_id: str) -> CronJob | None:
    row = db.execute(f"{_SELECT} WHERE id = ?", (job_id,)).fetchone()
    return None if row is None else _job(row)


def _find(db: apsw.Connection, owner: ConversationKey, name: str) -> CronJob | None:
    row = db.execute(f"{_SELECT} WHERE agent = ? AND sender = ? AND name = ?", (*owner, name)).fetchone()
    return None if row is None else _job(row)


def _list_jobs(db: apsw.Connection, agent: str, sender: str) -> list[CronJob]:
    found = db.execute(
        f"{_SELECT_LISTED} WHERE (?1 = '' OR agent = ?1) AND (?2 = '' OR sender = ?2) ORDER BY name, id",
        (agent, sender),
    )
    return [_job(row) for row in found]


def _set_paused(db: apsw.Connection, job_id: str, paused: bool, next_at: float | None, now: float) -> CronJob | None:
    job = _get(db, job_id)
    if not paused and job is not None and is_cut_off(job.owner.sender, tokens.list_tokens(db)):
        raise cut_off_error(job.owner.sender)
    db.execute(
        "UPDATE cron_jobs SET paused = ?, next_at = ?, updated_at = ? WHERE id = ?", (int(paused), next_at, now, job_id)
    )
    return _get(db, job_id)


def _move(db: apsw.Connection, times: Mapping[str, tuple[float, float]]) -> None:
    db.executemany(
        "UPDATE cron_jobs SET next_at = ?3 WHERE id = ?1 AND next_at = ?2 AND paused = 0",
        [(job_id, before, after) for job_id, (before, after) in times.items()],
    )


def _remove(db: apsw.Connection, job_id: str) -> bool:
    db.execute("DELETE FROM cron_jobs WHERE id = ?", (job_id,))
    return bool(db.changes())


def _fire(
    db: apsw.Connection,
    job: CronJob,
    firing: Firing,
    work: Run | WorkflowLaunch | None,
    next_at: float | None,
    node: int,
) -> Firing | None:
    current = _get(db, job.id)
    if not firing.is_manual and (current != job or job.is_paused or job.next_at != firing.due_at):
        return None
    if current is None:
        return None
    if not firing.is_manual:
        db.execute("UPDATE cron_jobs SET next_at = ? WHERE id = ?", (next_at, job.id))
    if db.execute("SELECT 1 FROM cron_firings WHERE job_id = ? AND due_at = ?", (job.id, firing.due_at)).get:
        # The instant has come again, for example because the clock was set back.
        return None
    started = _start(db, job, firing, work, node)
    if started is None:
        return None
    db.execute(
        "INSERT INTO cron_firings (job_id, due_at, fired_at, run_id, skipped, manual) VALUES (?, ?, ?, ?, ?, ?)",
        (job.id, started.due_at, started.fired_at, started.run_id, started.skipped or "", int(started.is_manual)),
    )
    _prune(db, job.id)
    return started


def _start(
    db: apsw.Connection, job: CronJob, firing: Firing, work: Run | WorkflowLaunch | None, node: int
) -> Firing | None:
    """Store the run or workflow run of a firing, unless the one before has not ended.

    Return None if the instant has one, which is known for longer than its firing.
    """
    if work is None:
        return firing
    if _has_live_run(db, job.id):
        if firing.is_manual:
            raise Conflict(f"a run of {job.name} has not ended", fix="Wait for it, or stop it.")
        return replace(firing, skipped=SkipReason.RUNNING)
    if isinstance(work, WorkflowLaunch):
        is_new = workflow_rows.create(db, work.run, work.reports, node).id == work.run.id
        return replace(firing, run_id=work.run.id) if is_new else None
    return replace(firing, run_id=work.id) if runs.spawn(db, work, node).id == work.id else None


def _has_live_run(db: apsw.Connection, job_id: str) -> bool:
    live = f"SELECT 1 FROM cron_firings WHERE job_id = ? AND run_id <> '' AND {_IS_LIVE} LIMIT 1"
    return db.execute(live, (job_id,)).get is not None


def _prune(db: apsw.Connection, job_id: str) -> None:
    """Delete the oldest firings over the limit, except the one whose run has not ended."""
    db.execute(
        "DELETE FROM cron_firings WHERE job_id = ?1 AND due_at <="
        " (SELECT due_at FROM cron_firings WHERE job_id = ?1 ORDER BY due_at DESC LIMIT 1 OFFSET ?2)"
        f" AND NOT {_IS_LIVE}",
        (job_id, MOST_FIRINGS),
    )


def _list_firings(db: apsw.Connection, senders: SenderSet, job_id: str, agent: str, limit: int) -> list[FiringRecord]:
    known = [sender for (sender,) in db.execute("SELECT DISTINCT sender FROM cron_jobs")]
    found = db.execute(
        f"{_SELECT_FIRINGS} WHERE (?1 = '' OR job_id = ?1) AND (?2 = '' OR agent = ?2)"
        f" AND sender IN {dialect.among('?3')} ORDER BY fired_at DESC, due_at DESC LIMIT ?4",
        (job_id, agent, json.dumps([sender for sender in known if senders.includes(sender)]), limit),
    ).fetchall()
    return _read_records(db, found)


def _list_last_firings(db: apsw.Connection, agent: str, sender: str) -> list[FiringRecord]:
    newest = "(SELECT max(due_at) FROM cron_firings AS newest WHERE newest.job_id = cron_jobs.id)"
    found = db.execute(
        f"{_SELECT_FIRINGS} WHERE (?1 = '' OR agent = ?1) AND (?2 = '' OR sender = ?2) AND due_at = {newest}",
        (agent, sender),
    ).fetchall()
    return _read_records(db, found)


def _read_records(db: apsw.Connection, found: Sequence[rows.Row]) -> list[FiringRecord]:
    records: list[FiringRecord] = []
    for row in found:
        firing, job = _firing(row), _job(rows.one(db.execute(f"{_SELECT_LISTED} WHERE id = ?", (row[0],))))
        run = found_runs.get(db, firing.run_id) if firing.run_id and not job.workflow else None
        workflow = workflow_rows.get_listed(db, firing.run_id) if firing.run_id and run is None else None
        last_step = workflow_rows.find_last_run(db, workflow) if workflow is not None else None
        records.append(FiringRecord(firing=firing, job=job, run=run, workflow=workflow, last_step=last_step))
    return records


def _firing(row: rows.Row) -> Firing:
    job_id, due_at, fired_at, run_id, skipped, manual = row
    return Firing(
        job_id=job_id,
        due_at=due_at,
        fired_at=fired_at,
        run_id=run_id,
        skipped=SkipReason(skipped) if skipped else None,
        is_manual=bool(manual),
    )


def _job(row: rows.Row) -> CronJob:
    return CronJob(
        id=row[0],
        owner=ConversationKey(row[1], row[2]),
        name=row[3],
        agent=row[4],
        prompt=row[5],
        workflow=row[6],
        schedule=Schedule(kind=ScheduleKind(row[7]), text=row[8], zone=row[9]),
        conversation_mode=JobIsolation(row[10]),
        missed=MissedRule(row[11]),
        delivery=_DELIVERIES[row[12]],
        timeout=row[13],
        cwd=row[14],
        search_path=row[15],
        taint=rows.decode_taint(row[16]),
        created_at=row[17],
        updated_at=row[18],
        is_paused=bool(row[19]),
        next_at=row[20],
        cause=MailCause(row[21], row[22]),
    )
