"""AGENT.md: front matter with name, description and perhaps a model; the body is the instruction."""

import os
import re
import stat
import unicodedata
from pathlib import Path
from typing import Any

import yaml

from moot.domain.agent import Agent, AgentSource
from moot.domain.text import clean

FILE_NAME = "AGENT.md"
BUILT_IN_NAME = "moot"
MAX_BYTES = 262_144
MAX_FRONT_MATTER = 32_768
MAX_DEPTH = 16
ALLOWED_NAME = "lower-case letters a-z, digits, - and _, at most 64, beginning with a letter or digit"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_FENCE = re.compile(r"---[ \t]*")
_PLAIN_TAG = "tag:yaml.org,2002:"
# Characters that are drawn like another one; enough for the letters of the built-in name.
_LOOK_ALIKES = str.maketrans(
    {"0": "o", "о": "o", "ο": "o", "օ": "o", "ᴏ": "o", "м": "m", "ᴍ": "m", "μ": "m", "т": "t", "τ": "t", "ᴛ": "t"}
)


class Broken(Exception):
    """An AGENT.md that cannot be used: the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        # It may quote the file, in which an escape can stand for half a character.
        self.reason = clean(reason)
        super().__init__(self.reason)
        self.line = line


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
        raise Broken(_line_of_key(text, "name"), f"the name {agent.name!r} must equal its folder's, {folder!r}")
    return agent


def parse_agent(text: str, *, path: str = "", source: AgentSource = AgentSource.USER) -> Agent:
    lines = text.split("\n")
    end = _front_matter_end(lines)
    fields = _fields("\n".join(lines[1:end]))
    name, line = fields.get("name", ("", 1))
    if not name:
        raise Broken(line, "the front matter has no `name`; add `name: " + ascii(Path(path).parent.name)[1:-1] + "`")
    if source is AgentSource.USER and (reason := check_name(name)):
        raise Broken(line, reason)
    description, line = fields.get("description", ("", 1))
    if not description:
        raise Broken(line, "the front matter has no `description`; say in one line what the agent is for")
    instruction = "\n".join(lines[end + 1 :]).strip()
    if not instruction:
        raise Broken(end + 1, "there is no instruction; write it below the second ---")
    return Agent(
        name=normal_name(name),
        description=description,
        instruction=instruction,
        model=fields.get("model", ("", 1))[0],
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
    if len(data) > MAX_BYTES:
        raise Broken(1, f"it is larger than {MAX_BYTES // 1024} KiB")
    return _decode(data)


def _lies_within(path: Path, within: Path) -> bool:
    try:
        return path.resolve().is_relative_to(within.resolve())
    except (OSError, RuntimeError):  # a loop of links is a RuntimeError in Python 3.11
        return False


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Broken(data.count(b"\n", 0, error.start) + 1, "it is not UTF-8 text") from error
    if "\0" in text:
        raise Broken(text.count("\n", 0, text.index("\0")) + 1, "it contains a NUL character")
    return text


def _front_matter_end(lines: list[str]) -> int:
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise Broken(1, "it must begin with --- and the front matter (name, description)")
    for number, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            return number
    raise Broken(1, "the front matter has no end; close it with a line of ---")


def _fields(front_matter: str) -> dict[str, tuple[str, int]]:
    """The text and line of name, description and model. Other keys are left to those who know them."""
    if len(front_matter) > MAX_FRONT_MATTER:
        raise Broken(2, f"the front matter is longer than {MAX_FRONT_MATTER // 1024} KiB")
    root = _compose(front_matter)
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise Broken(_line(root), "the front matter must be a list of `key: value` lines")
    found: dict[str, tuple[str, int]] = {}
    for key, value in root.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Broken(_line(key), "a key of the front matter must be a word")
        if key.value in found:
            raise Broken(_line(key), f"`{key.value}` is given twice")
        known = key.value in ("name", "description", "model")
        found[key.value] = (_scalar(key.value, value) if known else "", _line(key))
    return found


def _compose(front_matter: str) -> yaml.Node | None:
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(front_matter)
        _check_events(loader)
        node: yaml.Node | None = yaml.compose(front_matter, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Broken(_mark_line(mark), f"the front matter is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise Broken(2, "the front matter contains a character that YAML does not allow") from error
    except (ValueError, OverflowError) as error:
        # The reader of YAML makes characters and numbers of whatever digits there are.
        raise Broken(_mark_line(loader), "the front matter holds a number or an escape beyond all bounds") from error
    return node


def _check_events(loader: yaml.SafeLoader) -> None:
    """Refuse what makes YAML slow or large: aliases, and deep nesting. Stops at the first of them."""
    depth = 0
    while loader.check_event():
        event = loader.get_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise Broken(_mark_line(event.start_mark), f"aliases such as *{event.anchor} are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Broken(_mark_line(event.start_mark), "the front matter is nested too deeply")


def _scalar(key: str, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.tag.startswith(_PLAIN_TAG):
        raise Broken(_line(node), f"`{key}` must be text")
    text = "" if node.tag == f"{_PLAIN_TAG}null" else str(node.value).strip()
    if clean(text) != text:
        raise Broken(_line(node), f"`{key}` holds NUL or half of a surrogate pair; write the character itself")
    return text


def _line(node: yaml.Node) -> int:
    return _mark_line(node.start_mark)


def _mark_line(mark: Any) -> int:
    """The line in the file of anything that has one: one for counting from 1, one for the opening ---."""
    return int(mark.line) + 2 if mark else 2


def _line_of_key(text: str, key: str) -> int:
    lines = text.split("\n")
    return _fields("\n".join(lines[1 : _front_matter_end(lines)])).get(key, ("", 1))[1]
