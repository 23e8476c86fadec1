"""All agents that can be talked to: the built-in one, and a folder of AGENT.md files that may change."""

import os
import stat
from pathlib import Path

from moot.agents.agent_md import BUILT_IN_NAME, FILE_NAME, Broken, check_name, normal_name, read_agent
from moot.domain.agent import Agent, AgentSource, Flaw

_BUILT_IN = Path(__file__).parent / "builtin"
# What tells one version of a file from another without reading it.
_Stamp = tuple[int, int, int, int]


class Registry:
    """A file that becomes broken keeps its last good definition and is listed in `flaws`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built_in = read_agent(
            _BUILT_IN / BUILT_IN_NAME / FILE_NAME, within=_BUILT_IN, source=AgentSource.BUILT_IN
        )
        self._agents = {BUILT_IN_NAME: self._built_in}
        self._flaws: tuple[Flaw, ...] = ()
        self._stamps: dict[str, _Stamp] = {}
        self.reload()

    @property
    def flaws(self) -> tuple[Flaw, ...]:
        return self._flaws

    def get(self, name: str) -> Agent | None:
        return self._agents.get(name)

    def all(self) -> list[Agent]:
        """The built-in agent first, then by name."""
        return [self._built_in] + [self._agents[name] for name in sorted(self._agents) if name != BUILT_IN_NAME]

    def refresh_if_changed(self) -> bool:
        """Read the folder again if any file in it is new, gone or different; say whether it was."""
        if _stamps(self._folder) == self._stamps:
            return False
        self.reload()
        return True

    def reload(self) -> None:
        # The stamps come first: a file written while we read is then seen again next time.
        stamps = _stamps(self._folder)
        before = {agent.path: agent for agent in self._agents.values()}
        agents = {BUILT_IN_NAME: self._built_in}
        flaws: list[Flaw] = []
        for entry in sorted(stamps):
            path = self._folder / entry / FILE_NAME
            agent: Agent | None
            try:
                agent = self._read(path, taken=agents)
            except Broken as broken:
                flaws.append(Flaw(path=_shown(path), line=broken.line, reason=broken.reason))
                agent = before.get(str(path))
            if agent is not None:
                agents.setdefault(agent.name, agent)
        self._agents, self._flaws, self._stamps = agents, tuple(flaws), stamps

    def _read(self, path: Path, *, taken: dict[str, Agent]) -> Agent:
        if reason := check_name(path.parent.name):
            raise Broken(1, reason.replace("the name", "the folder's name", 1))
        agent = read_agent(path, within=self._folder)
        if agent.name in taken:
            raise Broken(1, f"there is already an agent {normal_name(agent.name)!r} at {taken[agent.name].path}")
        return agent


def _shown(path: Path) -> str:
    """The path as text that can be sent and printed: a name on disk is bytes of any kind."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _stamps(folder: Path) -> dict[str, _Stamp]:
    """One stamp for each folder that has an AGENT.md, or a broken link in its place."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError:
        # A folder we may not enter has no agents; the doctor says why.
        return {}
    found: dict[str, _Stamp] = {}
    for name in names:
        path = os.path.join(folder, name, FILE_NAME)
        try:
            status = os.stat(path)
        except OSError:
            if not os.path.islink(path):
                continue
            status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            found[name] = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    return found
