"""Front matter: the YAML between two lines of --- at the beginning of a file, parsed as untrusted input. Pure."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

import yaml
from msgspec import Struct

from moot.domain.text import clean

MAX_BYTES = 262_144
MAX_FRONT_MATTER = 32_768
MAX_DEPTH = 16
MAX_ITEMS = 256
MAX_ITEM = 200

_FENCE = re.compile(r"---[ \t]*")
# The C parser, if PyYAML was built with it.
_FastLoader: Any = getattr(yaml, "CSafeLoader", None)
_PLAIN_TAG = "tag:yaml.org,2002:"
_YES = ("true", "yes", "on")
_Word = TypeVar("_Word", bound=StrEnum)


class Broken(Exception):
    """A file that cannot be used: the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        # The reason may quote the file, in which an escape can produce half a surrogate pair.
        self.reason = clean(reason)
        super().__init__(self.reason)
        self.line = line


class Field(Struct, frozen=True):
    """One key of the front matter; its value is interpreted by the reader of the key."""

    name: str
    node: yaml.Node
    line: int

    def text(self) -> str:
        return _scalar(self.name, self.node)


class Fields:
    """The keys of one file. Reading a missing key returns the default; a value of the wrong type raises Broken."""

    def __init__(self, found: Mapping[str, Field]) -> None:
        self._found = found

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def names(self) -> list[str]:
        """Return the keys in the order of the file."""
        return list(self._found)

    def line(self, name: str) -> int:
        """Return the line of the key; the first line if it is missing."""
        field = self._found.get(name)
        return field.line if field else 1

    def text(self, name: str) -> str:
        field = self._found.get(name)
        return field.text() if field else ""

    def flag(self, name: str, *, default: bool) -> bool:
        field = self._found.get(name)
        if field is None:
            return default
        if field.node.tag != f"{_PLAIN_TAG}bool":
            raise Broken(_line(field.node), f"`{name}` must be true or false")
        return str(field.node.value).lower() in _YES

    def scalar(self, name: str) -> str | bool | None:
        """Return a text, or true or false; None if the key is missing."""
        field = self._found.get(name)
        if field is None:
            return None
        if field.node.tag == f"{_PLAIN_TAG}bool":
            return str(field.node.value).lower() in _YES
        return self.text(name)

    def word(self, name: str, default: _Word) -> _Word:
        """Return a member of the enumeration that the default belongs to."""
        written = self.text(name)
        words = list(type(default))
        if not written:
            return default
        if written not in words:
            raise Broken(self.line(name), f"`{name}` must be one of {', '.join(words)}, not {ascii(written)}")
        return type(default)(written)

    def items(self, name: str, *, longest: int = MAX_ITEM) -> list[tuple[str, int]] | None:
        """Return a list of texts with their lines; a single text is a list of one. None if the key is missing."""
        field = self._found.get(name)
        if field is None or field.node.tag == f"{_PLAIN_TAG}null":
            return None
        nodes = field.node.value if isinstance(field.node, yaml.SequenceNode) else [field.node]
        if len(nodes) > MAX_ITEMS:
            raise Broken(field.line, f"`{name}` has more than {MAX_ITEMS} entries")
        return [(_item(name, node, longest), _line(node)) for node in nodes]

    def texts(self, name: str) -> list[tuple[str, int]] | None:
        """Return a list as `items` does, for keys that restrict: a number, a date or no value at all is a mistake."""
        field = self._found.get(name)
        if field is None:
            return None
        nodes = field.node.value if isinstance(field.node, yaml.SequenceNode) else [field.node]
        for node in nodes:
            if node.tag == f"{_PLAIN_TAG}null":
                raise Broken(_line(node), f"`{name}` has an empty entry; write [] for none, or leave the key out")
            if isinstance(node, yaml.ScalarNode) and node.tag != f"{_PLAIN_TAG}str":
                kind = node.tag.removeprefix(_PLAIN_TAG)
                reason = f"{ascii(node.value)} in `{name}` is of the type {kind}; write it in quotes if it is a name"
                raise Broken(_line(node), reason)
        return self.items(name)

    def words(self, name: str) -> tuple[str, ...]:
        return tuple(text for text, _ in self.items(name) or ())

    def pairs(self, name: str) -> list[tuple[str, yaml.Node]] | None:
        """Return the entries of a value that is a mapping; None if it is not one."""
        field = self._found.get(name)
        return _pairs(field.node) if field is not None else None

    def rows(self, name: str) -> list[dict[str, yaml.Node]] | None:
        """Return the entries of a value that is a list of mappings; None if it is not one."""
        field = self._found.get(name)
        nodes = field.node.value if field is not None and isinstance(field.node, yaml.SequenceNode) else []
        tables = [_pairs(node) for node in nodes]
        return [dict(table or ()) for table in tables] if tables and None not in tables else None

    def under(self, name: str) -> "Fields":
        """Return the fields nested under a key; empty if its value is not a mapping."""
        field = self._found.get(name)
        return Fields(
            _read_fields(field.node) if field is not None and isinstance(field.node, yaml.MappingNode) else {}
        )


class FrontMatter(Struct, frozen=True):
    """The keys, the body after them, and the line after which the body begins."""

    fields: Fields
    body: str
    end: int


def decode(data: bytes) -> str:
    """Decode the bytes of a file. Raises Broken."""
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
    """Split the front matter from the body of a text. Raises Broken."""
    lines = text.split("\n")
    end = _end(lines)
    front_matter = "\n".join(lines[1:end])
    if len(front_matter) > MAX_FRONT_MATTER:
        raise Broken(2, f"the front matter is longer than {MAX_FRONT_MATTER // 1024} KiB")
    root = _compose(front_matter)
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise Broken(_line(root), "the front matter must be a list of `key: value` lines")
    fields = Fields({} if root is None else _read_fields(root))
    return FrontMatter(fields, "\n".join(lines[end + 1 :]).strip(), end + 1)


def leaves(node: yaml.Node) -> Iterable[str]:
    """Return every string in a value, at any depth."""
    if isinstance(node, yaml.ScalarNode):
        yield str(node.value)
    for child in node.value if isinstance(node, yaml.SequenceNode) else ():
        yield from leaves(child)
    for _, child in _pairs(node) or ():
        yield from leaves(child)


def _pairs(node: yaml.Node) -> list[tuple[str, yaml.Node]] | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return [(str(key.value), value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _scalar(name: str, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.tag.startswith(_PLAIN_TAG):
        raise Broken(_line(node), f"`{name}` must be text")
    text = "" if node.tag == f"{_PLAIN_TAG}null" else str(node.value).strip()
    if clean(text) != text:
        raise Broken(_line(node), f"`{name}` holds NUL or half of a surrogate pair; write the character itself")
    return text


def _item(name: str, node: yaml.Node, longest: int) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise Broken(_line(node), f"`{name}` must be a list of texts")
    text = " ".join(_scalar(name, node).split())
    if not text or len(text) > longest:
        raise Broken(_line(node), f"an entry of `{name}` must have 1 to {longest} characters")
    return text


def _end(lines: list[str]) -> int:
    if not _FENCE.fullmatch(lines[0]):
        raise Broken(1, "it must begin with --- and the front matter (name, description)")
    for number, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            return number
    raise Broken(1, "the front matter has no end; close it with a line of ---")


def _read_fields(mapping: yaml.MappingNode) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for key, value in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Broken(_line(key), "a key of the front matter must be a word")
        if key.value in found:
            raise Broken(_line(key), f"`{key.value}` is given twice")
        found[key.value] = Field(key.value, value, _line(key))
    return found


def _compose(front_matter: str) -> yaml.Node | None:
    if _FastLoader is not None:
        # Ten times as fast. Input that it refuses is parsed again below, which gives a better error message.
        with suppress(yaml.YAMLError, ValueError, OverflowError, Broken):
            _check_events(_FastLoader(front_matter))
            fast: yaml.Node | None = yaml.compose(front_matter, Loader=_FastLoader)
            return fast
    return _compose_slowly(front_matter)


def _compose_slowly(front_matter: str) -> yaml.Node | None:
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
        # The YAML parser converts any digits to characters and numbers, so out-of-range values raise here.
        raise Broken(_mark_line(loader), "the front matter holds a number or an escape beyond all bounds") from error
    return node


def _check_events(loader: Any) -> None:
    """Refuse what makes YAML slow or large, aliases and deep nesting, and stop at the first occurrence."""
    depth = 0
    while loader.check_event():
        event = loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            raise Broken(_mark_line(event.start_mark), f"aliases such as *{event.anchor} are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Broken(_mark_line(event.start_mark), "the front matter is nested too deeply")


def _line(node: yaml.Node) -> int:
    return _mark_line(node.start_mark)


def _mark_line(mark: Any) -> int:
    """Return the line in the file of a YAML mark: plus one to count from 1, plus one for the opening ---."""
    return int(mark.line) + 2 if mark else 2
