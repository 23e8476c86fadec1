"""A skill is a folder with instructions an agent can use: SKILL.md, and optionally scripts and references."""

import re
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.domain.text import clean, defuse

SKILL_FILE = "SKILL.md"
NAME_LENGTH = 64
DESCRIPTION_LENGTH = 1024
# The description of a new skill until its author writes one.
UNWRITTEN = "Say here what this does, and when to use it."
ALLOWED_NAME = "lower-case letters a-z, digits and single hyphens between them, at most 64"

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_BLANK = re.compile(r"\{\{\s*([a-z][a-z0-9_]{0,31})\s*\}\}")
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PARAMETER_TYPES = ("string", "integer", "number", "boolean")
_MOST_PARAMETERS = 32
_PARAMETER_DESCRIPTION = 300


class SkillType(StrEnum):
    """What calling a skill does: return its body, fill in its body, or run its script."""

    INSTRUCTION = "instruction"
    TEMPLATE = "template"
    SCRIPT = "script"


class SkillSource(StrEnum):
    """Who added a skill: a person who wrote it, an agent that made or imported it, or a person from outside."""

    PERSON = "person"
    AGENT = "agent"
    OUTSIDE = "outside"


class SkillParameter(Struct, frozen=True, kw_only=True):
    """A parameter of the tool of a skill."""

    name: str
    type: str = "string"
    description: str = ""
    is_required: bool = False


class Skill(Struct, frozen=True, kw_only=True):
    """A skill.

    `taint` names the sources of untrusted text its author had read; `script` is a path inside the folder.
    """

    name: str
    description: str
    body: str
    type: SkillType = SkillType.INSTRUCTION
    script: str = ""
    # What its author has said about its parameters. A placeholder that is not among them is a required text.
    parameters: tuple[SkillParameter, ...] = ()
    folder: str = ""
    source: SkillSource = SkillSource.PERSON
    taint: frozenset[str] = frozenset()

    @property
    def is_described(self) -> bool:
        """Whether it has a description; without one a model cannot know when to use it."""
        return self.description != UNWRITTEN

    def blanks(self) -> list[str]:
        """Return the names of a template's placeholders, in order."""
        return list(dict.fromkeys(_BLANK.findall(self.body))) if self.type is SkillType.TEMPLATE else []

    def list_parameters(self) -> list[SkillParameter]:
        """Return the parameters of its tool: those that were declared, then the other placeholders."""
        declared = {each.name for each in self.parameters}
        others = [SkillParameter(name=name, is_required=True) for name in self.blanks() if name not in declared]
        return [*self.parameters, *others]

    def fill(self, values: dict[str, str]) -> str:
        """Return the body with its placeholders filled in, also with nothing. Inserted text is not expanded again."""
        optional = {each.name: "" for each in self.parameters if not each.is_required}
        return _BLANK.sub(lambda match: values.get(match[1], optional.get(match[1], match[0])), self.body)


def check_name(name: str) -> str:
    """Return why this cannot be a skill's name; "" if it can."""
    if len(name) <= NAME_LENGTH and _NAME.fullmatch(name):
        return ""
    return f"the name {ascii(name[:80])} is not allowed; use {ALLOWED_NAME}"


class _ParameterSchema(Struct, forbid_unknown_fields=True):
    type: str = "string"
    description: str = ""


class _ParametersSchema(Struct, forbid_unknown_fields=True):
    properties: dict[str, _ParameterSchema]
    type: str = "object"
    required: list[str] = []


def parse_parameters(text: str) -> tuple[SkillParameter, ...]:
    """Return the parameters that a JSON schema declares; raises BadRequest if it is not one."""
    fix = 'Such as {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}.'
    try:
        schema = msgspec.json.decode(text, type=_ParametersSchema)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadRequest(f"the parameters are not a JSON schema of an object: {error}", fix=fix) from None
    unknown = [name for name in schema.required if name not in schema.properties]
    wrong = [name for name in schema.properties if not _PARAMETER.fullmatch(name)]
    untyped = [name for name, each in schema.properties.items() if each.type not in _PARAMETER_TYPES]
    if schema.type != "object" or len(schema.properties) > _MOST_PARAMETERS:
        raise BadRequest(f"the parameters are not an object with at most {_MOST_PARAMETERS} properties", fix=fix)
    if wrong:
        raise BadRequest(f"{ascii(wrong[0][:80])} cannot be the name of a parameter", fix="Use letters a-z, 0-9 and _.")
    if unknown:
        raise BadRequest(f"{ascii(unknown[0][:80])} is required and not a property", fix="Add it to the properties.")
    if untyped:
        raise BadRequest(
            f"the type of {untyped[0]} is not one of {', '.join(_PARAMETER_TYPES)}", fix="Use one of them."
        )
    return tuple(
        SkillParameter(
            name=name,
            type=each.type,
            description=" ".join(defuse(clean(each.description)).split())[:_PARAMETER_DESCRIPTION],
            is_required=name in schema.required,
        )
        for name, each in schema.properties.items()
    )


def build_schema(parameters: list[SkillParameter]) -> dict[str, Any]:
    """Return the JSON schema of parameters."""
    properties = {
        each.name: {"type": each.type, **({"description": each.description} if each.description else {})}
        for each in parameters
    }
    required = [each.name for each in parameters if each.is_required]
    return {"type": "object", "properties": properties, "required": required}
