"""AGENT.md: front matter with name, description and perhaps a model; the body is the instruction."""

import os
import re
import stat
import unicodedata
from pathlib import Path

from moot.domain.agent import Agent, AgentSource
from moot.domain.front_matter import MAX_BYTES, Broken, decode, split

__all__ = ["BUILT_IN_NAME", "FILE_NAME", "Broken", "check_name", "normal_name", "read_agent"]

FILE_NAME = "AGENT.md"
BUILT_IN_NAME = "moot"
ALLOWED_NAME = "lower-case letters a-z, digits, - and _, at most 64, beginning with a letter or digit"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# Characters that are drawn like another one; enough for the letters of the built-in name.
_LOOK_ALIKES = str.maketrans(
    {"0": "o", "о": "o", "ο": "o", "օ": "o", "ᴏ": "o", "м": "m", "ᴍ": "m", "μ": "m", "т": "t", "τ": "t", "ᴛ": "t"}
)


def normal_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def imitates_built_in(name: str) -> bool:
    """Whether a reader could take this name for the built-in agent's."""
    return normal_name(name).casefold().translate(_LOOK_ALIKES).replace("rn", "m") == BUILT_IN_NAME


def check_name(name: str) -> str:
    """Why this cannot be an agent's name; empty when it can."""
    shown = ascii(name)
    if imitates_built_in(name):
        return f"the name {shown} belongs to the built-in agent {BUILT_IN_NAME!r}, or looks like it; choose another"
    if not _NAME.fullmatch(normal_name(name)):
        return f"the name {shown} is not allowed; use {ALLOWED_NAME}"
    return ""


def read_agent(path: Path, *, within: Path, source: AgentSource = AgentSource.USER) -> Agent:
    """Read one file, which must really lie inside `within`. Raises Broken."""
    text = _read_text(path, within)
    agent = parse_agent(text, path=str(path), source=source)
    folder = normal_name(path.parent.name)
    if agent.name != folder:
        raise Broken(split(text).line("name"), f"the name {agent.name!r} must equal its folder's, {folder!r}")
    return agent


def parse_agent(text: str, *, path: str = "", source: AgentSource = AgentSource.USER) -> Agent:
    front = split(text)
    name, line = front.text("name"), front.line("name")
    if not name:
        raise Broken(line, "the front matter has no `name`; add `name: " + ascii(Path(path).parent.name)[1:-1] + "`")
    if source is AgentSource.USER and (reason := check_name(name)):
        raise Broken(line, reason)
    description = front.text("description")
    if not description:
        raise Broken(
            front.line("description"), "the front matter has no `description`; say in one line what the agent is for"
        )
    if not front.body:
        raise Broken(front.end, "there is no instruction; write it below the second ---")
    return Agent(
        name=normal_name(name),
        description=description,
        instruction=front.body,
        model=front.text("model"),
        source=source,
        path=path,
    )


def _read_text(path: Path, within: Path) -> str:
    if not _lies_within(path, within):
        raise Broken(1, f"it is a link that leads out of {within}; put the file itself there")
    try:
        # Not blocking, so that a named pipe cannot hold the daemon.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Broken(1, "it is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Broken(1, f"it cannot be read: {error.strerror}") from error
    return decode(data)


def _lies_within(path: Path, within: Path) -> bool:
    try:
        return path.resolve().is_relative_to(within.resolve())
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError in Python 3.11
        return False
