"""Front matter: the YAML between two lines of --- at the head of a file, read as one reads a stranger's. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from moot.domain.text import clean

MAX_BYTES = 262_144
MAX_FRONT_MATTER = 32_768
MAX_DEPTH = 16

_FENCE = re.compile(r"---[ \t]*")
_PLAIN_TAG = "tag:yaml.org,2002:"


class Broken(Exception):
    """A file that cannot be used: the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        # It may quote the file, in which an escape can stand for half a character.
        self.reason = clean(reason)
        super().__init__(self.reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of the front matter; what it holds is looked at only by who knows the key."""

    key: str
    node: yaml.Node
    line: int

    def text(self) -> str:
        node = self.node
        if not isinstance(node, yaml.ScalarNode) or not node.tag.startswith(_PLAIN_TAG):
            raise Broken(_line(node), f"`{self.key}` must be text")
        text = "" if node.tag == f"{_PLAIN_TAG}null" else str(node.value).strip()
        if clean(text) != text:
            raise Broken(_line(node), f"`{self.key}` holds NUL or half of a surrogate pair; write the character itself")
        return text

    def entries(self) -> "dict[str, Entry]":
        """What is nested under this key; nothing when it holds anything but keys and values."""
        return _entries(self.node) if isinstance(self.node, yaml.MappingNode) else {}


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The keys, what follows them, and the line after which that begins."""

    entries: Mapping[str, Entry]
    body: str
    end: int

    def text(self, key: str) -> str:
        """What the key says, "" where it is not given. Raises Broken when it is no text."""
        return self.entries[key].text() if key in self.entries else ""

    def line(self, key: str) -> int:
        """Where the key stands; the first line where it does not."""
        return self.entries[key].line if key in self.entries else 1


def decode(data: bytes) -> str:
    """The bytes of a file as text. Raises Broken."""
    if len(data) > MAX_BYTES:
        raise Broken(1, f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Broken(data.count(b"\n", 0, error.start) + 1, "it is not UTF-8 text") from error
    if "\0" in text:
        raise Broken(text.count("\n", 0, text.index("\0")) + 1, "it contains a NUL character")
    return text


def split(text: str) -> FrontMatter:
    """Take the front matter off the head of a text. Raises Broken."""
    lines = text.split("\n")
    end = _end(lines)
    front_matter = "\n".join(lines[1:end])
    if len(front_matter) > MAX_FRONT_MATTER:
        raise Broken(2, f"the front matter is longer than {MAX_FRONT_MATTER // 1024} KiB")
    root = _compose(front_matter)
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise Broken(_line(root), "the front matter must be a list of `key: value` lines")
    entries = {} if root is None else _entries(root)
    return FrontMatter(entries, "\n".join(lines[end + 1 :]).strip(), end + 1)


def _end(lines: list[str]) -> int:
    if not _FENCE.fullmatch(lines[0]):
        raise Broken(1, "it must begin with --- and the front matter (name, description)")
    for number, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            return number
    raise Broken(1, "the front matter has no end; close it with a line of ---")


def _entries(mapping: yaml.MappingNode) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for key, value in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Broken(_line(key), "a key of the front matter must be a word")
        if key.value in found:
            raise Broken(_line(key), f"`{key.value}` is given twice")
        found[key.value] = Entry(key.value, value, _line(key))
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


def _line(node: yaml.Node) -> int:
    return _mark_line(node.start_mark)


def _mark_line(mark: Any) -> int:
    """The line in the file of anything that has one: one for counting from 1, one for the opening ---."""
    return int(mark.line) + 2 if mark else 2
