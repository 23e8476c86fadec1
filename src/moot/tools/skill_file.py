"""SKILL.md, in the open Agent Skills format: front matter with name and description; the body is the instruction."""

import re
from typing import Any

import yaml

from moot.domain.skill import DESCRIPTION_LENGTH, SKILL_FILE, Skill, SkillType, check_name

MAX_BYTES = 262_144
MAX_FRONT_MATTER = 32_768
MAX_DEPTH = 16

_FENCE = re.compile(r"---[ \t]*")
_PLAIN_TAG = "tag:yaml.org,2002:"
_SCRIPT = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*")
# Each front matter key as its text and its line in the file.
_Fields = dict[str, tuple[str, int]]


class Broken(Exception):
    """A SKILL.md that cannot be used: the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def parse_skill(data: bytes, *, folder_name: str = "") -> Skill:
    """Read the bytes of a SKILL.md. Its name must be its folder's, where that is given. Raises Broken."""
    lines = _text(data).split("\n")
    end = _front_matter_end(lines)
    fields = _fields("\n".join(lines[1:end]))
    name, line = fields.get("name", ("", 1))
    if not name:
        raise Broken(line, "the front matter has no `name`; give it the folder's")
    if reason := check_name(name):
        raise Broken(line, reason)
    if folder_name and name != folder_name:
        raise Broken(line, f"the name {name!r} must equal its folder's, {ascii(folder_name)}")
    description, line = fields.get("description", ("", 1))
    if not description:
        raise Broken(line, "the front matter has no `description`; say what the skill does and when to use it")
    if len(description) > DESCRIPTION_LENGTH:
        raise Broken(line, f"the description has {len(description)} characters; at most {DESCRIPTION_LENGTH} are taken")
    body = "\n".join(lines[end + 1 :]).strip()
    kind, script = _kind(fields)
    if not body and kind is not SkillType.SCRIPT:
        raise Broken(end + 1, "there are no instructions; write them below the second ---")
    return Skill(name=name, description=description, body=body, type=kind, script=script)


def write_skill(skill: Skill) -> bytes:
    """The bytes of a SKILL.md that says this."""
    front: dict[str, Any] = {"name": skill.name, "description": skill.description}
    if skill.type is not SkillType.INSTRUCTION:
        front["metadata"] = {"type": skill.type.value} | ({"script": skill.script} if skill.script else {})
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=4096)
    return f"---\n{head}---\n\n{skill.body.strip()}\n".encode()


def _kind(fields: _Fields) -> tuple[SkillType, str]:
    given, line = fields.get("metadata.type", ("", 1))
    script, script_line = fields.get("metadata.script", ("", 1))
    try:
        kind = SkillType(given or SkillType.INSTRUCTION)
    except ValueError:
        # The key is free text in the open format: a word of somebody else's is no mistake.
        kind = SkillType.INSTRUCTION
    if kind is not SkillType.SCRIPT:
        return kind, ""
    if not _SCRIPT.fullmatch(script) or len(script) > 255:
        raise Broken(
            script_line or line, "a script skill names its script: `metadata: {type: script, script: scripts/…}`"
        )
    return kind, script


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise Broken(1, f"it is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Broken(data.count(b"\n", 0, error.start) + 1, "it is not UTF-8 text") from error
    if "\0" in text:
        raise Broken(text.count("\n", 0, text.index("\0")) + 1, "it contains a NUL character")
    return text


def _front_matter_end(lines: list[str]) -> int:
    if not _FENCE.fullmatch(lines[0]):
        raise Broken(1, f"{SKILL_FILE} must begin with --- and the front matter (name, description)")
    for number, line in enumerate(lines[1:], 1):
        if _FENCE.fullmatch(line):
            return number
    raise Broken(1, "the front matter has no end; close it with a line of ---")


def _fields(front_matter: str) -> _Fields:
    if len(front_matter) > MAX_FRONT_MATTER:
        raise Broken(2, f"the front matter is longer than {MAX_FRONT_MATTER // 1024} KiB")
    root = _compose(front_matter)
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise Broken(_line(root), "the front matter must be a list of `key: value` lines")
    found: _Fields = {}
    for key, value in _pairs(root):
        if key in found:
            raise Broken(_line(value), f"`{key}` is given twice")
        if key == "metadata" and isinstance(value, yaml.MappingNode):
            inner = ((name, node) for name, node in _pairs(value) if name in ("type", "script"))
            found.update({f"metadata.{name}": (_scalar(name, node), _line(node)) for name, node in inner})
        known = key in ("name", "description")
        found[key] = (_scalar(key, value) if known else "", _line(value))
    return found


def _pairs(node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Broken(_line(key), "a key of the front matter must be a word")
    return [(str(key.value), value) for key, value in node.value]


def _compose(front_matter: str) -> yaml.Node | None:
    try:
        _check_events(front_matter)
        node: yaml.Node | None = yaml.compose(front_matter, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise Broken(_mark_line(error.problem_mark), f"the front matter is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise Broken(2, "the front matter contains a character that YAML does not allow") from error
    return node


def _check_events(front_matter: str) -> None:
    """Refuse what makes YAML slow or large: aliases, and deep nesting. Stops at the first of them."""
    depth = 0
    for event in yaml.parse(front_matter, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise Broken(_mark_line(event.start_mark), f"aliases such as *{event.anchor} are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise Broken(_mark_line(event.start_mark), "the front matter is nested too deeply")


def _scalar(key: str, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.tag.startswith(_PLAIN_TAG):
        raise Broken(_line(node), f"`{key}` must be text")
    return "" if node.tag == f"{_PLAIN_TAG}null" else str(node.value).strip()


def _line(node: yaml.Node) -> int:
    return _mark_line(node.start_mark)


def _mark_line(mark: Any) -> int:
    """The line in the file: one for counting from 1, one for the opening ---."""
    return int(mark.line) + 2 if mark else 2
