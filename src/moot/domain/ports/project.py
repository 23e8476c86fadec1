"""The ReadProject port: how a run learns what is in its working directory. Implemented in tools/files."""

from typing import Protocol

from moot.domain.project import Project


class ReadProject(Protocol):
    async def __call__(self, cwd: str, *, with_files: bool) -> Project:
        """Return what is known of the project; without its instruction files unless asked for. Never raises."""
        ...


async def read_nothing(cwd: str, *, with_files: bool) -> Project:
    """Read nothing, for simulations: the machine they run on is none of their input."""
    return Project()
