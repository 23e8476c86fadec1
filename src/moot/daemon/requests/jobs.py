"""Handlers for background commands: list and stop."""

from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.ports.clock import Clock
from moot.domain.text import clean
from moot.tools.exec.jobs import Job, Jobs
from moot.wire import moot_pb2 as pb

# The length of texts in a list; the approval of a command shows it complete.
_LISTED_TEXT = 4_000


class JobRequests:
    def __init__(self, jobs: Jobs, clock: Clock) -> None:
        self._jobs = jobs
        self._clock = clock

    async def list_jobs(self, _message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        self._answer(self._visible_jobs(principal), reply)

    async def stop_job(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        wanted = message.stop_job.job_id
        found = [(key, job) for key, job in self._visible_jobs(principal) if wanted and job.id.startswith(wanted)]
        exact = [(key, job) for key, job in found if job.id == wanted]
        if not found:
            raise NotFound(f"there is no background command {wanted[:64]!r}", fix="`moot ps` lists them.")
        if len(found) > 1 and not exact:
            ids = ", ".join(job.id for _, job in found)
            raise BadRequest(f"{wanted[:64]!r} is ambiguous: {ids}", fix="Give more characters of the id.")
        ((key, job),) = exact or found
        await job.process.end()
        self._answer([(key, job)], reply)

    def _visible_jobs(self, principal: Principal) -> list[tuple[ConversationKey, Job]]:
        return [(key, job) for key, job in self._jobs.live() if principal.owns(job.root.sender)]

    def _answer(self, found: list[tuple[ConversationKey, Job]], reply: Reply) -> None:
        infos = [self._info(key, job) for key, job in found]
        reply.send(pb.ServerMessage(job_list=pb.JobList(jobs=infos)))

    def _info(self, key: ConversationKey, job: Job) -> pb.JobInfo:
        command = clean(job.redact(job.command))
        more = len(command) - _LISTED_TEXT
        return pb.JobInfo(
            job_id=job.id,
            agent=key.agent,
            sender=key.sender,
            root_agent=job.root.agent,
            root_sender=job.root.sender,
            command=command if more <= 0 else f"{command[:_LISTED_TEXT]} … {more} more characters",
            started_at=job.started,
            seconds=max(0.0, self._clock.now() - job.started),
        )
