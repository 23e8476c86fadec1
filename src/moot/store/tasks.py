"""The table of tasks. An owner can only access its own tasks."""

import apsw

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest, NotFound
from moot.domain.task import MOST_TASKS, Task, TaskChange, TaskStatus
from moot.store import dialect, rows
from moot.store.sqlite import SqliteStore

_COLUMNS = "id, title, description, status, parent_id, agent_id, taint, created_at, updated_at"


class SqliteTasks:
    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def create(self, owner: ConversationKey, task: Task) -> Task:
        return await self._store.write(lambda db: _create(db, owner, task), "task")

    async def get(self, owner: ConversationKey, task_id: str) -> Task | None:
        return await self._store.read(lambda db: _get(db, owner, task_id))

    async def list_all(
        self, owner: ConversationKey, *, status: TaskStatus | None = None, parent_id: str = ""
    ) -> list[Task]:
        return await self._store.read(lambda db: _list_tasks(db, owner, status, parent_id))

    async def list_everywhere(self, *, agent: str = "", sender: str = "") -> list[tuple[ConversationKey, Task]]:
        return await self._store.read(lambda db: _list_everywhere(db, agent, sender))

    async def update(self, owner: ConversationKey, task_id: str, change: TaskChange, *, now: float) -> Task | None:
        return await self._store.write(lambda db: _update(db, owner, task_id, change, now), "task")


def _create(db: apsw.Connection, owner: ConversationKey, task: Task) -> Task:
    if task.parent_id and _get(db, owner, task.parent_id) is None:
        raise NotFound(f"there is no task {task.parent_id!r} to be part of", fix="List them with task_list.")
    if db.execute("SELECT count(*) FROM tasks WHERE agent = ? AND sender = ?", owner).get >= MOST_TASKS:
        raise BadRequest(
            f"there are {MOST_TASKS} tasks already", fix="Go on with one of them, or under another sender."
        )
    db.execute(
        f"INSERT INTO tasks (agent, sender, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *owner,
            task.id,
            task.title,
            task.description,
            task.status.value,
            task.parent_id,
            task.agent_id,
            rows.encode_taint(task.taint),
            task.created_at,
            task.updated_at,
        ),
    )
    return task


def _get(db: apsw.Connection, owner: ConversationKey, task_id: str) -> Task | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM tasks WHERE id = ? AND agent = ? AND sender = ?", (task_id, *owner)
    ).fetchone()
    return None if row is None else _task(row)


def _list_tasks(db: apsw.Connection, owner: ConversationKey, status: TaskStatus | None, parent_id: str) -> list[Task]:
    found = db.execute(
        f"SELECT {_COLUMNS} FROM tasks WHERE agent = ?1 AND sender = ?2 AND (?3 = '' OR status = ?3)"
        f" AND (?4 = '' OR parent_id = ?4) ORDER BY created_at, {dialect.ROW}",
        (*owner, status.value if status else "", parent_id),
    )
    return [_task(row) for row in found]


def _list_everywhere(db: apsw.Connection, agent: str, sender: str) -> list[tuple[ConversationKey, Task]]:
    found = db.execute(
        f"SELECT agent, sender, {_COLUMNS} FROM tasks WHERE (?1 = '' OR agent = ?1) AND (?2 = '' OR sender = ?2)"
        f" ORDER BY created_at, {dialect.ROW}",
        (agent, sender),
    )
    return [(ConversationKey(row[0], row[1]), _task(row[2:])) for row in found]


def _update(db: apsw.Connection, owner: ConversationKey, task_id: str, change: TaskChange, now: float) -> Task | None:
    task = _get(db, owner, task_id)
    if task is None:
        return None
    db.execute(
        "UPDATE tasks SET status = ?, description = ?, agent_id = ?, taint = ?, updated_at = ? WHERE id = ?",
        (
            (change.status or task.status).value,
            change.description or task.description,
            change.agent_id or task.agent_id,
            # The title is kept, so its taint is kept too.
            rows.encode_taint(task.taint | change.taint),
            now,
            task_id,
        ),
    )
    return _get(db, owner, task_id)


def _task(row: rows.Row) -> Task:
    number, title, description, status, parent_id, agent_id, taint, created_at, updated_at = row
    return Task(
        id=number,
        title=title,
        description=description,
        status=TaskStatus(status),
        parent_id=parent_id,
        agent_id=agent_id,
        taint=rows.decode_taint(taint),
        created_at=created_at,
        updated_at=updated_at,
    )
