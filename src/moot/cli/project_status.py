"""The instruction files of the project in a folder, as runs are told them. Used by `moot project` and the chat."""

import shlex

from moot.cli.connect import find_paths
from moot.cli.program import hint
from moot.cli.render import sanitize
from moot.daemon.config.config_file import load_config
from moot.daemon.paths import Paths
from moot.domain.errors import ConfigError
from moot.domain.project import Project
from moot.tools.files.off_limits import OffLimits
from moot.tools.files.private_places import private_places
from moot.tools.files.project_approvals import ProjectApprovals
from moot.tools.files.project_files import ProjectReader

OFF_IN_CONFIG = "project instructions are off: `instructions = false` under [project] in config.toml"


def are_instructions_on() -> bool:
    """Return whether [project] in config.toml lets agents get instruction files."""
    return _read_settings(find_paths())[0]


def describe_off(agent: str, sender: str) -> str:
    """Return that instruction files are left out of a conversation, and the command that includes them again."""
    who, whose = sanitize.name(agent), sanitize.name(sender)
    command = f"moot project on {shlex.quote(who)} --as {shlex.quote(whose)}"
    return hint(f"project instructions are off for {who} as {whose}; `{command}` turns them on")


def describe_off_for_agent(agent: str) -> str:
    """Return that an agent never gets instruction files, and what says so."""
    return f"project instructions are off for {sanitize.name(agent)}: `project_instructions: false` in its AGENT.md"


def read_project(cwd: str, *, whole: bool = False) -> Project:
    """Read the project around a folder. With `whole`, the whole texts, whatever a run is told of them."""
    paths = find_paths()
    is_used, most = _read_settings(paths)
    reader = ProjectReader(
        off_limits=lambda: OffLimits(
            places=[str(place) for place in paths.own], workspaces=str(paths.workspaces), private=private_places()
        ),
        approvals=ProjectApprovals(paths.project_approvals),
        max_bytes=lambda: 1 << 30 if whole else most,
    )
    return reader.read(cwd, with_files=whole or is_used)


def render_files(project: Project) -> str:
    """One line for the chat that names the files in use; empty if there are none."""
    if not project.files:
        return ""
    waiting = [file for file in project.files if not file.is_approved]
    named = ", ".join(sanitize.line(file.path) for file in project.files)
    state = " (not approved, so commands need your approval: /project shows them)" if waiting else ""
    return f"Instructions: {named}{state}"


def _read_settings(paths: Paths) -> tuple[bool, int]:
    try:
        project = load_config(paths.config)[0].tools.project
    except ConfigError:
        # The commands that need the configuration report it.
        return True, 0
    return project.instructions, project.max_bytes
