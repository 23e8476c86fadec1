"""Parses and writes SKILL.md in the open Agent Skills format."""

import re
from typing import Any

import msgspec
import yaml

from moot.domain.errors import BadRequest
from moot.domain.front_matter import Broken, Fields, decode, split
from moot.domain.skill import (
    DESCRIPTION_LENGTH,
    Skill,
    SkillParameter,
    SkillType,
    build_schema,
    check_name,
    parse_parameters,
)

_SCRIPT = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*")


def parse_skill(data: bytes, *, folder_name: str = "") -> Skill:
    """Parse a SKILL.md. Its name must equal the folder's, if that is given. Raises Broken."""
    front = split(decode(data))
    fields = front.fields
    name, line = fields.text("name"), fields.line("name")
    if not name:
        raise Broken(line, "the front matter has no `name`; give it the folder's")
    if reason := check_name(name):
        raise Broken(line, reason)
    if folder_name and name != folder_name:
        raise Broken(line, f"the name {name!r} must equal its folder's, {ascii(folder_name)}")
    description, line = fields.text("description"), fields.line("description")
    if not description:
        raise Broken(line, "the front matter has no `description`; say what the skill does and when to use it")
    if len(description) > DESCRIPTION_LENGTH:
        raise Broken(
            line, f"the description has {len(description)} characters; at most {DESCRIPTION_LENGTH} are allowed"
        )
    more = fields.under("metadata")
    kind, script = _parse_kind(more)
    if not front.body and kind is not SkillType.SCRIPT:
        raise Broken(front.end, "there are no instructions; write them below the second ---")
    parameters = _parse_parameters(more.text("parameters"))
    return Skill(name=name, description=description, body=front.body, type=kind, script=script, parameters=parameters)


def write_skill(skill: Skill) -> bytes:
    """Render a SKILL.md."""
    front: dict[str, Any] = {"name": skill.name, "description": skill.description}
    more: dict[str, str] = {}
    if skill.type is not SkillType.INSTRUCTION:
        more = {"type": skill.type.value} | ({"script": skill.script} if skill.script else {})
    if skill.parameters:
        # The format has only texts there.
        more["parameters"] = msgspec.json.encode(build_schema(list(skill.parameters))).decode()
    if more:
        front["metadata"] = more
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=4096)
    return f"---\n{head}---\n\n{skill.body.strip()}\n".encode()


def _parse_parameters(text: str) -> tuple[SkillParameter, ...]:
    try:
        return parse_parameters(text) if text else ()
    except BadRequest:
        # Somebody else's key, like the type.
        return ()


def _parse_kind(more: Fields) -> tuple[SkillType, str]:
    script = more.text("script")
    try:
        kind = SkillType(more.text("type") or SkillType.INSTRUCTION)
    except ValueError:
        # The key is free text in the open format: a word of somebody else's is no mistake.
        kind = SkillType.INSTRUCTION
    if kind is not SkillType.SCRIPT:
        return kind, ""
    if not _SCRIPT.fullmatch(script) or len(script) > 255:
        line = more.line("script" if "script" in more else "type")
        raise Broken(line, "a script skill names its script: `metadata: {type: script, script: scripts/…}`")
    return kind, script
