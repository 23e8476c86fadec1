"""Tasks of an agent, and their allowed changes. Pure."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.errors import BadRequest

TITLE_LENGTH = 300
DESCRIPTION_LENGTH = 16_384
# The maximum per owner.
MOST_TASKS = 1_000


class TaskStatus(StrEnum):
    TODO = "todo"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    BLOCKED = "blocked"


class Task(Struct, frozen=True, kw_only=True):
    """One task.

    `agent_id` is the agent that took it last; `taint` names the sources of untrusted text it may contain.
    """

    id: str
    title: str
    description: str = ""
    status: TaskStatus = TaskStatus.TODO
    parent_id: str = ""
    agent_id: str = ""
    taint: frozenset[str] = frozenset()
    created_at: float = 0.0
    updated_at: float = 0.0


class TaskChange(Struct, frozen=True, kw_only=True):
    """The changes of an update; empty fields stay as they are."""

    status: TaskStatus | None = None
    description: str = ""
    agent_id: str = ""
    taint: frozenset[str] = frozenset()


def status_of(name: str) -> TaskStatus:
    try:
        return TaskStatus(name)
    except ValueError:
        raise BadRequest(f"{name!r} is not a status of a task", fix=f"Statuses are: {', '.join(TaskStatus)}.") from None


def check_sizes(title: str, description: str) -> None:
    if len(title) > TITLE_LENGTH:
        raise BadRequest(f"the title has {len(title)} characters", fix=f"At most {TITLE_LENGTH} are kept.")
    if len(description) > DESCRIPTION_LENGTH:
        raise BadRequest(
            f"the description has {len(description)} characters", fix=f"Say it in {DESCRIPTION_LENGTH} or fewer."
        )
