"""Registry of background commands by conversation. Kept in memory; they end with the daemon."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import Busy, NotFound
from moot.domain.events import CommandEnded, CommandStarted, EventBody, EventSource
from moot.domain.ports.tool import RunContext
from moot.domain.redaction import Redaction
from moot.tools.sandbox.process import Process

_REMEMBERED = 16
_PUBLISHED_TEXT = 4_000


class Job(Struct, frozen=True, kw_only=True):
    id: str
    command: str
    process: Process
    started: float
    # Removes the secrets given to the command from a text.
    redact: Redaction
    # The run that started it.
    source: EventSource
    # The taint of its output; "" for none.
    taint: str = ""

    @property
    def root(self) -> ConversationKey:
        """Return the root conversation, with which the job is stopped."""
        return self.source.root

    @property
    def start_time(self) -> str:
        return datetime.fromtimestamp(self.started, UTC).isoformat(timespec="seconds")


class Jobs:
    """Background commands by conversation. A job can only be accessed from its own conversation."""

    def __init__(self, *, most: Callable[[], int], publish: Callable[[EventSource, EventBody], object]) -> None:
        self._most = most
        self._publish = publish
        self._jobs: dict[ConversationKey, dict[str, Job]] = {}

    def running(self, key: ConversationKey) -> int:
        """Return the number of running jobs of a root conversation, including those of its teammates."""
        return sum(job.process.ending is None for each in self._tree(key) for job in self._jobs[each].values())

    def live(self) -> list[tuple[ConversationKey, Job]]:
        """Return all running jobs with their conversations, oldest first."""
        found = [(key, job) for key, jobs in self._jobs.items() for job in jobs.values() if job.process.ending is None]
        return sorted(found, key=lambda each: each[1].started)

    def check_room(self, key: ConversationKey) -> None:
        running = sum(job.process.ending is None for job in self._jobs.get(key, {}).values())
        if running >= self._most():
            raise Busy(
                f"this conversation already has {running} background commands",
                fix="Wait for one, or stop one with exec_stop.",
            )

    def add(self, key: ConversationKey, job: Job) -> Job:
        jobs = self._jobs.setdefault(key, {})
        jobs[job.id] = job
        over = [known for known, old in jobs.items() if old.process.ending is not None]
        for known in over[: max(len(jobs) - self._most() - _REMEMBERED, 0)]:
            del jobs[known]
        self._publish(job.source, CommandStarted(job.id, job.redact(job.command)[:_PUBLISHED_TEXT]))
        job.process.when_over(lambda: self._publish_end(job))
        return job

    def _publish_end(self, job: Job) -> None:
        ending = job.process.ending
        assert ending is not None
        self._publish(job.source, CommandEnded(job.id, ending.exit_code, ending.reason))

    def find(self, key: ConversationKey, job_id: str) -> Job:
        job = self._jobs.get(key, {}).get(job_id)
        if job is None:
            raise NotFound(
                f"there is no background command {job_id[:64]!r} here", fix="Use an id that exec_bg returned."
            )
        return job

    async def stop(self, key: ConversationKey, *, tree: bool = False) -> int:
        """Stop the jobs of a conversation, with `tree` also those of its teammates; return how many."""
        ended = [self._jobs.pop(each) for each in (self._tree(key) if tree else [key]) if each in self._jobs]
        running = [job for jobs in ended for job in jobs.values() if job.process.ending is None]
        for job in running:
            job.process.kill()
        for job in running:
            await job.process.end()
        return len(running)

    async def close(self) -> None:
        for key in list(self._jobs):
            await self.stop(key)

    def _tree(self, key: ConversationKey) -> list[ConversationKey]:
        return [own for own, jobs in self._jobs.items() if own == key or any(job.root == key for job in jobs.values())]


def source_of_context(context: RunContext) -> EventSource:
    """Return the event source of a command: the run that started it, also after that has ended."""
    return EventSource(
        key=context.key,
        root=context.asks_in,
        speaker=context.speaker,
        run_id=context.run_id,
        parent_id=context.parent_id,
        root_id=context.root_id or context.run_id,
    )


def make_job_id() -> str:
    return f"bg-{time.time_ns()}"
