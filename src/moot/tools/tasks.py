"""The task tools of an agent: create, get, list, update."""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.ids import make_id
from moot.domain.ports.agent_data import Tasks
from moot.domain.ports.clock import Clock
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.task import TITLE_LENGTH, Task, TaskChange, TaskStatus, check_sizes, status_of
from moot.domain.text import clean

_STATUS = {"type": "string", "enum": list(TaskStatus)}
_TASK_ID = {"type": "string", "description": "The id that task_create returned."}

Owner = Callable[[RunContext], ConversationKey]


def own_conversation(context: RunContext) -> ConversationKey:
    return context.key


def tools(*, tasks: Tasks, clock: Clock, rng: Random, owner: Owner = own_conversation) -> list[Tool]:
    """Build the task tools. `owner` returns the root conversation whose tasks a run uses; by default its own."""
    return [
        TaskCreate(tasks, owner, clock, rng),
        TaskGet(tasks, owner),
        TaskList(tasks, owner),
        TaskUpdate(tasks, owner, clock),
    ]


class TaskCreate:
    spec = ToolSpec(
        name="task_create",
        safety=Safety.SAFE,
        group="tasks",
        description="Add a task to the task list.",
        parameters={
            "type": "object",
            "properties": {
                "title": {
                    "type": "string",
                    "description": f"What is to be done, in {TITLE_LENGTH} characters at most.",
                },
                "description": {"type": "string", "description": "Details needed to do it."},
                "parent_id": {"type": "string", "description": "The task this one is a part of."},
            },
            "required": ["title"],
        },
    )

    def __init__(self, tasks: Tasks, owner: Owner, clock: Clock, rng: Random) -> None:
        self._tasks = tasks
        self._owner = owner
        self._clock = clock
        self._rng = rng

    def line(self, arguments: dict[str, Any]) -> str:
        return f"new task: {arguments.get('title', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        title = " ".join(clean(str(arguments["title"])).split())
        description = clean(str(arguments.get("description") or ""))
        if not title:
            raise BadRequest("the title is empty", fix="Describe the task in a few words.")
        check_sizes(title, description)
        now = self._clock.now()
        task = Task(
            id=make_id("task", now=now, rng=self._rng),
            title=title,
            description=description,
            parent_id=str(arguments.get("parent_id") or ""),
            taint=context.taint,
            created_at=now,
            updated_at=now,
        )
        created = await self._tasks.create(self._owner(context), task)
        return _to_json({"task_id": created.id, "status": created.status})


class TaskGet:
    spec = ToolSpec(
        name="task_get",
        safety=Safety.SAFE,
        group="tasks",
        description="Show one task in full.",
        parameters={"type": "object", "properties": {"task_id": _TASK_ID}, "required": ["task_id"]},
    )

    def __init__(self, tasks: Tasks, owner: Owner) -> None:
        self._tasks = tasks
        self._owner = owner

    def line(self, arguments: dict[str, Any]) -> str:
        return f"read task {arguments.get('task_id', '')}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        task_id = str(arguments["task_id"])
        task = await self._tasks.get(self._owner(context), task_id)
        if task is None:
            raise _missing_error(task_id)
        return ToolResult(content=_to_json(_task_data(task)), taint=task.taint)


class TaskList:
    spec = ToolSpec(
        name="task_list",
        safety=Safety.SAFE,
        group="tasks",
        description="List the tasks in the order in which they were created.",
        parameters={
            "type": "object",
            "properties": {
                "status": {**_STATUS, "description": "Only tasks with this status."},
                "parent_id": {"type": "string", "description": "Only subtasks of this task."},
            },
        },
    )

    def __init__(self, tasks: Tasks, owner: Owner) -> None:
        self._tasks = tasks
        self._owner = owner

    def line(self, arguments: dict[str, Any]) -> str:
        return f"list the tasks {arguments.get('status') or ''}".strip()

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        status = str(arguments.get("status") or "")
        found = await self._tasks.list_all(
            self._owner(context),
            status=status_of(status) if status else None,
            parent_id=str(arguments.get("parent_id") or ""),
        )
        content = _to_json({"tasks": [_task_data(task) for task in found], "count": len(found)})
        return ToolResult(content=content, taint=frozenset().union(*(task.taint for task in found)))


class TaskUpdate:
    spec = ToolSpec(
        name="task_update",
        safety=Safety.SAFE,
        group="tasks",
        description="Change a task's status or description. Omitted fields are not changed.",
        parameters={
            "type": "object",
            "properties": {
                "task_id": _TASK_ID,
                "status": {**_STATUS, "description": "The new status."},
                "description": {"type": "string", "description": "Replaces the description."},
            },
            "required": ["task_id"],
        },
    )

    def __init__(self, tasks: Tasks, owner: Owner, clock: Clock) -> None:
        self._tasks = tasks
        self._owner = owner
        self._clock = clock

    def line(self, arguments: dict[str, Any]) -> str:
        return f"task {arguments.get('task_id', '')}: {arguments.get('status') or 'new description'}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        task_id = str(arguments["task_id"])
        status = status_of(str(arguments["status"])) if arguments.get("status") else None
        description = clean(str(arguments.get("description") or ""))
        check_sizes("", description)
        change = TaskChange(
            status=status,
            description=description,
            agent_id=context.speaker if status is TaskStatus.IN_PROGRESS else "",
            # Also for a status alone: whoever reads it is told something by a run that follows untrusted text.
            taint=context.taint,
        )
        task = await self._tasks.update(self._owner(context), task_id, change, now=self._clock.now())
        if task is None:
            raise _missing_error(task_id)
        return ToolResult(content=_to_json(_task_data(task)), taint=task.taint)


def _missing_error(task_id: str) -> NotFound:
    # Small models confuse a teammate's run with a task.
    fix = "That is a teammate: agent_wait fetches its result." if task_id.startswith("arun-") else "See task_list."
    return NotFound(f"there is no task {task_id!r}", fix=fix)


def _task_data(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "agent_id": task.agent_id,
        "parent_id": task.parent_id,
        "description": task.description,
        "created_at": datetime.fromtimestamp(task.created_at, UTC).isoformat(timespec="seconds"),
        "updated_at": datetime.fromtimestamp(task.updated_at, UTC).isoformat(timespec="seconds"),
    }


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
