"""Tasks an agent keeps track of: what one is, and what may become of it. Pure."""

from enum import StrEnum

from msgspec import Struct

from moot.domain.errors import BadRequest

TITLE_LENGTH = 300
DESCRIPTION_LENGTH = 16_384
# Of one owner: more is no longer a list of tasks.
MOST_TASKS = 1_000


class TaskStatus(StrEnum):
    TODO = "todo"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    BLOCKED = "blocked"


class Task(Struct, frozen=True, kw_only=True):
    """One task. `agent_id` is who took it up last; `taint` names the strangers whose words it may hold."""

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
    """What an update changes; what is empty stays as it was."""

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
