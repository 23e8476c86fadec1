"""Handlers for what agents keep for a person: tasks and memories. Only those of the principal's own senders."""

import json
from random import Random

from moot.daemon.principal import Principal
from moot.daemon.requests.masking import Redact, mask_fields
from moot.daemon.requests.pages import PAGE_BYTES
from moot.daemon.requests.reply import Reply
from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.ids import make_id
from moot.domain.memory import Memory
from moot.domain.ports.agent_data import Memories, MemoryPlace, Tasks
from moot.domain.ports.clock import Clock
from moot.domain.task import Task, TaskChange, TaskStatus, check_sizes, status_of
from moot.domain.text import clean
from moot.engine.request_factory import RequestFactory
from moot.wire import moot_pb2 as pb

_BATCH = 500
_FIX = "`moot tasks` lists them."


class AgentDataRequests:
    def __init__(
        self, *, tasks: Tasks, memories: Memories, requests: RequestFactory, clock: Clock, rng: Random, redact: Redact
    ) -> None:
        self._redact = redact
        self._tasks = tasks
        self._memories = memories
        self._requests = requests
        self._clock = clock
        self._rng = rng

    # ---- tasks ----

    async def list_tasks(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_tasks
        wanted = status_of(request.status) if request.status else None
        found = [
            _task_info(key, task)
            for key, task in await self._tasks.list_everywhere(agent=request.agent, sender=request.sender)
            if principal.owns(key.sender)
            and (task.status is wanted if wanted else request.all or task.status is not TaskStatus.DONE)
        ]
        reply.send(pb.ServerMessage(task_list=pb.TaskList(tasks=found)))

    async def add_task(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.add_task
        mask_fields(request, ("title", "description"), self._redact)
        key = ConversationKey(self._requests.resolve_agent(request.agent).name, principal.sender(request.sender))
        title, description = " ".join(clean(request.title).split()), clean(request.description)
        if not title:
            raise BadRequest("the title is empty", fix="Describe the task in a few words.")
        check_sizes(title, description)
        now = self._clock.now()
        made = Task(
            id=make_id("task", now=now, rng=self._rng),
            title=title,
            description=description,
            created_at=now,
            updated_at=now,
        )
        added = await self._tasks.create(key, made)
        reply.send(pb.ServerMessage(task_list=pb.TaskList(tasks=[_task_info(key, added)])))

    async def change_task(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.change_task
        key, task = await self._find_task(request.task_id, principal)
        change = TaskChange(status=status_of(request.status))
        changed = await self._tasks.update(key, task.id, change, now=self._clock.now())
        if changed is None:
            raise NotFound(f"there is no task {request.task_id!r}", fix=_FIX)
        reply.send(pb.ServerMessage(task_list=pb.TaskList(tasks=[_task_info(key, changed)])))

    async def _find_task(self, task_id: str, principal: Principal) -> tuple[ConversationKey, Task]:
        """Return the principal's task with this id, or with an id that begins so."""
        theirs = [each for each in await self._tasks.list_everywhere() if principal.owns(each[0].sender)]
        found = [each for each in theirs if task_id and each[1].id.startswith(task_id)]
        exact = [each for each in found if each[1].id == task_id]
        if not found:
            raise NotFound(f"there is no task {task_id!r}", fix=_FIX)
        if len(found) > 1 and not exact:
            named = ", ".join(task.id for _, task in found[:5])
            raise BadRequest(f"{task_id!r} is ambiguous: {named}", fix="Give more characters of the id.")
        return (exact or found)[0]

    # ---- memories ----

    async def list_memories(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.list_memories
        words = request.query.casefold().split()
        after = _decode_cursor(request.cursor) if request.cursor else None
        answer, room = pb.MemoryList(), PAGE_BYTES
        while True:
            batch = await self._memories.list_everywhere(
                agent=request.agent, sender=request.sender, after=after, limit=_BATCH
            )
            for key, memory in batch:
                if principal.owns(key.sender) and _contains(memory, words):
                    info = _memory_info(key, memory)
                    room -= info.ByteSize()
                    if room < 0 and answer.memories and after is not None:
                        answer.next_cursor = _encode_cursor(after)
                        break
                    answer.memories.append(info)
                after = (*key, memory.key)
            if len(batch) < _BATCH or answer.next_cursor:
                break
        reply.send(pb.ServerMessage(memory_list=answer))

    async def forget_memory(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.forget_memory
        key = ConversationKey(request.agent, principal.sender(request.sender))
        if not await self._memories.forget(key, request.key):
            raise NotFound(f"{key.agent} has no memory {request.key!r}", fix="`moot memory` lists them.")
        reply.send(pb.ServerMessage(pong=pb.Pong()))


def _contains(memory: Memory, words: list[str]) -> bool:
    text = f"{memory.key} {memory.content} {' '.join(memory.tags)}".casefold() if words else ""
    return all(word in text for word in words)


def _encode_cursor(place: MemoryPlace) -> str:
    return json.dumps(place, ensure_ascii=False)


def _decode_cursor(cursor: str) -> MemoryPlace:
    try:
        agent, sender, key = json.loads(cursor)
    except (ValueError, TypeError):
        agent = sender = key = None
    if not all(isinstance(part, str) for part in (agent, sender, key)):
        raise BadRequest(
            "the cursor does not belong to this list", fix="Send `next_cursor` of the previous answer, or none."
        )
    return agent, sender, key


def _task_info(key: ConversationKey, task: Task) -> pb.TaskInfo:
    return pb.TaskInfo(
        task_id=task.id,
        agent=key.agent,
        sender=key.sender,
        title=task.title,
        description=task.description,
        status=task.status.value,
        parent_id=task.parent_id,
        taken_by=task.agent_id,
        created_at=task.created_at,
        updated_at=task.updated_at,
        taint=",".join(sorted(task.taint)),
    )


def _memory_info(key: ConversationKey, memory: Memory) -> pb.MemoryInfo:
    return pb.MemoryInfo(
        agent=key.agent,
        sender=key.sender,
        key=memory.key,
        content=memory.content,
        kind=memory.kind.value,
        tags=memory.tags,
        confidence=memory.confidence,
        uses=memory.uses,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        taint=",".join(sorted(memory.taint)),
    )
