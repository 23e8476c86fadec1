"""Scheduled jobs and their firings in memory. Built by storage.py."""

from collections.abc import Mapping
from itertools import islice

from msgspec.structs import replace

from moot.domain.conversation import ConversationKey
from moot.domain.cron_job import (
    MOST_FIRINGS,
    MOST_JOBS,
    CronJob,
    Firing,
    FiringRecord,
    SkipReason,
    check_same_kind,
)
from moot.domain.errors import BadRequest, Conflict
from moot.domain.run import Run
from moot.domain.senders import SenderSet
from moot.domain.token import cut_off_error, is_cut_off
from moot.domain.workflow import LISTED_SOURCE, WorkflowLaunch
from moot.store.memory import accounts, found_runs, nodes, runs, workflows
from moot.store.memory.database import Database, check_text
from moot.store.memory.transactions import Transactions


class MemoryCron:
    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def save(self, job: CronJob) -> tuple[CronJob, bool]:
        return await self._transactions.write(lambda db: _save(db, job))

    async def get(self, job_id: str) -> CronJob | None:
        return await self._transactions.read(lambda db: db.cron_jobs.get(job_id))

    async def find(self, owner: ConversationKey, name: str) -> CronJob | None:
        return await self._transactions.read(lambda db: _find(db, owner, name))

    async def list_jobs(self, *, agent: str = "", sender: str = "") -> list[CronJob]:
        return await self._transactions.read(
            lambda db: sorted(
                (_cut(job) for job in db.cron_jobs if _is_of(job, agent, sender)), key=lambda job: (job.name, job.id)
            )
        )

    async def pause(self, job_id: str, *, now: float) -> CronJob | None:
        return await self._transactions.write(lambda db: _set_paused(db, job_id, True, None, now))

    async def resume(self, job_id: str, *, next_at: float | None, now: float) -> CronJob | None:
        return await self._transactions.write(lambda db: _set_paused(db, job_id, False, next_at, now))

    async def remove(self, job_id: str) -> bool:
        return await self._transactions.write(lambda db: remove_job(db, job_id))

    async def find_next_due(self) -> float | None:
        return await self._transactions.read(
            lambda db: min((job.next_at for job in _list_waiting(db) if job.next_at is not None), default=None)
        )

    async def find_last_fired(self) -> float:
        return await self._transactions.read(
            lambda db: max((firing.fired_at for firing in db.cron_firings), default=0.0)
        )

    async def move(self, times: Mapping[str, tuple[float, float]]) -> None:
        await self._transactions.write(lambda db: _move(db, times))

    async def list_due(self, now: float, *, limit: int) -> list[CronJob]:
        return await self._transactions.read(lambda db: _list_due(db, now)[:limit])

    async def fire(
        self, job: CronJob, firing: Firing, work: Run | WorkflowLaunch | None, *, next_at: float | None
    ) -> Firing | None:
        return await self._transactions.write(lambda db: _fire(db, job, firing, work, next_at))

    async def list_last_firings(self, *, agent: str = "", sender: str = "") -> list[FiringRecord]:
        return await self._transactions.read(lambda db: _list_last_firings(db, agent, sender))

    async def list_firings(
        self, senders: SenderSet, *, job_id: str = "", agent: str = "", limit: int
    ) -> list[FiringRecord]:
        def read(db: Database) -> list[FiringRecord]:
            found = (each for each in _list_firings(db, job_id, agent) if senders.includes(each.job.owner.sender))
            return list(islice(found, limit))

        return await self._transactions.read(read)


def _save(db: Database, job: CronJob) -> tuple[CronJob, bool]:
    check_text(*job.owner, job.name, job.agent, job.prompt, job.workflow, job.cwd, job.search_path, job.schedule.text)
    if job.delivers and db.conversation(job.owner) is None:
        # Questions of its runs are asked there.
        nodes.claim(db, job.owner, job.updated_at)
    if is_cut_off(job.owner.sender, accounts.list_tokens(db)):
        # A run that has begun before the revocation adds it.
        job = replace(job, is_paused=True, next_at=None)
    known = _find(db, job.owner, job.name)
    if known is not None:
        check_same_kind(known, is_workflow=bool(job.workflow))
        job = replace(job, id=known.id, created_at=known.created_at)
    elif db.cron_jobs.count("owner", job.owner) >= MOST_JOBS:
        raise BadRequest(f"there are {MOST_JOBS} jobs already", fix="Remove one first.")
    return db.cron_jobs.put(job.id, job), known is None


def _find(db: Database, owner: ConversationKey, name: str) -> CronJob | None:
    return next(iter(db.cron_jobs.find("name", (owner, name))), None)


def _cut(job: CronJob) -> CronJob:
    """Return a job as lists have it, with the beginning of the text of its workflow."""
    return replace(job, workflow=job.workflow[:LISTED_SOURCE])


def _is_of(job: CronJob, agent: str, sender: str) -> bool:
    return agent in ("", job.owner.agent) and sender in ("", job.owner.sender)


def _set_paused(db: Database, job_id: str, paused: bool, next_at: float | None, now: float) -> CronJob | None:
    job = db.cron_jobs.get(job_id)
    if job is None:
        return None
    if not paused and is_cut_off(job.owner.sender, accounts.list_tokens(db)):
        raise cut_off_error(job.owner.sender)
    return db.cron_jobs.put(job_id, replace(job, is_paused=paused, next_at=next_at, updated_at=now))


def _move(db: Database, times: Mapping[str, tuple[float, float]]) -> None:
    for job_id, (before, after) in times.items():
        job = db.cron_jobs.get(job_id)
        if job is not None and job.next_at == before and not job.is_paused:
            db.cron_jobs.put(job_id, replace(job, next_at=after))


def remove_job(db: Database, job_id: str) -> bool:
    """Remove a job and its firings."""
    db.cron_firings.remove_all("job", job_id)
    return db.cron_jobs.remove(job_id)


def _list_waiting(db: Database) -> list[CronJob]:
    return [job for job in db.cron_jobs if job.next_at is not None and not job.is_paused]


def _list_due(db: Database, now: float) -> list[CronJob]:
    due = [(job.next_at, job.id, job) for job in _list_waiting(db) if job.next_at is not None and job.next_at <= now]
    return [job for _, _, job in sorted(due, key=lambda each: each[:2])]


def _fire(
    db: Database, job: CronJob, firing: Firing, work: Run | WorkflowLaunch | None, next_at: float | None
) -> Firing | None:
    current = db.cron_jobs.get(job.id)
    if not firing.is_manual and (current != job or job.is_paused or job.next_at != firing.due_at):
        return None
    if current is None:
        return None
    if not firing.is_manual:
        db.cron_jobs.put(job.id, replace(current, next_at=next_at))
    if (job.id, firing.due_at) in db.cron_firings:
        # The instant has come again, for example because the clock was set back.
        return None
    started = _start(db, job, firing, work)
    if started is not None:
        db.cron_firings.put((job.id, started.due_at), started)
        _prune(db, job.id)
    return started


def _start(db: Database, job: CronJob, firing: Firing, work: Run | WorkflowLaunch | None) -> Firing | None:
    """Store the run or workflow run of a firing, unless the one before has not ended.

    Return None if the instant has one, which is known for longer than its firing.
    """
    if work is None:
        return firing
    if any(_is_live(db, each) for each in db.cron_firings.find("job", job.id)):
        if firing.is_manual:
            raise Conflict(f"a run of {job.name} has not ended", fix="Wait for it, or stop it.")
        return replace(firing, skipped=SkipReason.RUNNING)
    if isinstance(work, WorkflowLaunch):
        is_new = workflows.create(db, work.run, work.reports).id == work.run.id
        return replace(firing, run_id=work.run.id) if is_new else None
    return replace(firing, run_id=work.id) if runs.spawn(db, work).id == work.id else None


def _is_live(db: Database, firing: Firing) -> bool:
    run, workflow = db.runs.get(firing.run_id), db.workflows.get(firing.run_id)
    return (run is not None and not run.is_ended) or (workflow is not None and not workflow.run.ended_at)


def _prune(db: Database, job_id: str) -> None:
    """Remove the oldest firings over the limit, except the one whose run has not ended."""
    newest = sorted(db.cron_firings.find("job", job_id), key=lambda firing: firing.due_at, reverse=True)
    for firing in newest[MOST_FIRINGS:]:
        if not _is_live(db, firing):
            db.cron_firings.remove((job_id, firing.due_at))


def _list_firings(db: Database, job_id: str, agent: str, sender: str = "") -> list[FiringRecord]:
    found = db.cron_firings.find("job", job_id) if job_id else list(db.cron_firings)
    records: list[FiringRecord] = []
    for firing in sorted(found, key=lambda firing: (firing.fired_at, firing.due_at), reverse=True):
        job, row = db.cron_jobs[firing.job_id], db.runs.get(firing.run_id)
        if _is_of(job, agent, sender):
            run, workflow = found_runs.read(db, row) if row else None, db.workflows.get(firing.run_id)
            made = replace(workflow.run, source=workflow.run.source[:LISTED_SOURCE]) if workflow else None
            last_step = workflows.find_last_run(db, made) if made else None
            records.append(FiringRecord(firing=firing, job=_cut(job), run=run, workflow=made, last_step=last_step))
    return records


def _list_last_firings(db: Database, agent: str, sender: str) -> list[FiringRecord]:
    newest: dict[str, FiringRecord] = {}
    for record in _list_firings(db, "", agent, sender):
        known = newest.get(record.job.id)
        if known is None or known.firing.due_at < record.firing.due_at:
            newest[record.job.id] = record
    return list(newest.values())
