"""The registry of agents: built-in, embedded, and from files that may change at any time."""

import os
import stat
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import Path

from moot.agents import foreign
from moot.agents.agent_md import BUILT_IN_NAMES, FILE_NAME, check_name, normalize_name, read_agent
from moot.domain.agent import ROLES, ROOT, Agent, AgentRole, AgentSource, AgentStatus, FileProblem
from moot.domain.errors import NotFound
from moot.domain.front_matter import Broken

_BUILT_IN = Path(__file__).parent / "builtin"
_EMBEDDED = Path(__file__).parent / "embedded"
# The value of `made_by` of the demo's agents.
DEMO = "moot demo"
EMBEDDED_NAMES = ("code-reviewer", "data-analyst", "translator")
_ACTIVE = AgentStatus.ACTIVE
# Identifies a version of a file without reading it.
_Stamp = tuple[int, int, int, int]


class Registry:
    """The agents by name. A file that becomes invalid keeps its last valid definition and is listed in `flaws`.

    `folder` contains a folder with an AGENT.md for each agent; `foreign_folders` contain files of other programs, in
    which only the names in `models` are accepted as models.
    """

    def __init__(
        self, folder: Path, *, foreign_folders: Sequence[Path] = (), models: Callable[[], Collection[str]] = tuple
    ) -> None:
        self.folder = folder
        self.foreign_folders = tuple(foreign_folders)
        self._models = models
        self._built_in = {name: _load_packaged(_BUILT_IN, name, AgentSource.BUILT_IN) for name in BUILT_IN_NAMES}
        self._embedded = {name: _load_packaged(_EMBEDDED, name, AgentSource.EMBEDDED) for name in EMBEDDED_NAMES}
        self._agents = dict(self._built_in)
        self._flaws: tuple[FileProblem, ...] = ()
        self._stamps: dict[str, _Stamp] = {}
        # Goes up each time the files are read.
        self.edition = 0
        self.has_coordinator = False
        self.reload()

    @property
    def flaws(self) -> tuple[FileProblem, ...]:
        return self._flaws

    def get(self, name: str) -> Agent | None:
        """Return the active agent of that name."""
        agent = self._agents.get(name)
        return agent if agent is not None and agent.status is _ACTIVE else None

    def find(self, name: str) -> Agent | None:
        """Return the agent of that name, active or not."""
        return self._agents.get(name)

    def all(self) -> list[Agent]:
        """Return all agents, also inactive ones: the root agent, the other built-in ones, then the rest by name."""
        others = sorted(name for name in self._agents if name not in BUILT_IN_NAMES)
        return [self._agents[name] for name in (ROOT, *ROLES, *others)]

    def active(self) -> list[Agent]:
        return [agent for agent in self.all() if agent.status is AgentStatus.ACTIVE]

    def problem(self, name: str) -> str:
        """Return why the agent of that name cannot be used, if its file has a problem."""
        agent = self._agents.get(name)
        if agent is not None and agent.status is not AgentStatus.ACTIVE:
            return f"{_printable_path(agent.path)}: its status is {agent.status}, not active"
        return next((str(flaw) for flaw in self._flaws if agent_name_of(Path(flaw.path)) == name), "")

    def is_gone(self, name: str) -> bool:
        """Return whether no file defines an agent of that name, and none can be out of reach for now."""
        if name in self._agents or self.problem(name) or name in self.hidden_examples:
            return False
        return all(os.access(folder, os.R_OK | os.X_OK) for folder in (self.folder, *self.foreign_folders))

    @property
    def hidden_examples(self) -> list[str]:
        """The embedded agents that are hidden because there are agents of the user."""
        if any(agent.source is AgentSource.EMBEDDED for agent in self._agents.values()):
            return []
        return [name for name in EMBEDDED_NAMES if name not in self._agents]

    def explain_hidden(self, name: str) -> NotFound | None:
        """Return the error for a hidden example, if the name is one."""
        if name not in self.hidden_examples:
            return None
        return NotFound(
            f"{name} is an example, and examples are hidden while you have agents of your own",
            fix=f"Keep it with `moot agents keep {name}`.",
        )

    def refresh_if_changed(self) -> bool:
        """Read the files again if any was added, removed or changed; return whether one was."""
        if self._stamp_files() == self._stamps:
            return False
        self.reload()
        return True

    def reload(self) -> None:
        # Stamps are taken before reading, so that a file written meanwhile is read again next time.
        stamps = self._stamp_files()
        before = {agent.path: agent for agent in self._agents.values()}
        agents = dict(self._built_in)
        flaws: list[FileProblem] = []
        for path in stamps:
            agent: Agent | None
            try:
                agent = self._read(Path(path), taken=agents)
            except Broken as broken:
                flaws.append(FileProblem(path=_printable_path(path), line=broken.line, reason=broken.reason))
                agent = before.get(path)
            if agent is not None:
                agents.setdefault(agent.name, agent)
        # For someone who has written none. A broken file is one, too: what it was meant to be is not known. The demo's
        # are nobody's.
        shown = {agent.path for agent in agents.values() if agent.made_by == DEMO}
        self._agents = agents if stamps.keys() - shown else {**self._embedded, **agents}
        self._flaws, self._stamps = tuple(flaws), stamps
        self.has_coordinator = any(agent.role is AgentRole.COORDINATOR for agent in self._agents.values())
        self.edition += 1

    def _read(self, path: Path, *, taken: dict[str, Agent]) -> Agent:
        if path.name == FILE_NAME and path.parent.parent == self.folder:
            if reason := check_name(path.parent.name):
                raise Broken(1, reason.replace("the name", "the folder's name", 1))
            agent = read_agent(path, within=self.folder)
        else:
            agent = foreign.read_foreign(path, within=path.parent, models=self._models()).agent
        if agent.name in taken:
            raise Broken(1, f"there is already an agent {normalize_name(agent.name)!r} at {taken[agent.name].path}")
        return agent

    def _stamp_files(self) -> dict[str, _Stamp]:
        """Return the stamps of all agent files, the user's own before those of other programs."""
        own = [os.path.join(self.folder, name, FILE_NAME) for name in sorted(_list_entries(self.folder))]
        others = [
            os.path.join(folder, name)
            for folder in self.foreign_folders
            for name in sorted(_list_entries(folder))
            if name.endswith(foreign.SUFFIX)
        ]
        return {path: stamp for path in (*own, *others) if (stamp := _stamp(path)) is not None}


def read_example(name: str) -> str:
    """Return the file of an example agent."""
    return (_EMBEDDED / name / FILE_NAME).read_text(encoding="utf-8")


def agent_name_of(path: Path) -> str:
    """Return the name of the agent that a file defines, derived from its path."""
    return path.parent.name if path.name == FILE_NAME else path.stem


@cache
def _load_packaged(folder: Path, name: str, source: AgentSource) -> Agent:
    return read_agent(folder / name / FILE_NAME, within=folder, source=source)


def _printable_path(path: str) -> str:
    """Return the path as printable text, because file names may contain arbitrary bytes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _list_entries(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".")]
    except OSError:
        # The folder does not exist or is not accessible; `moot doctor` reports the latter.
        return []


def _stamp(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        if not os.path.islink(path):
            return None
        status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode):
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
