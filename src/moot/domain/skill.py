"""A skill is a folder with instructions an agent can use: SKILL.md, and optionally scripts and references."""

import re
from enum import StrEnum

from msgspec import Struct

SKILL_FILE = "SKILL.md"
NAME_LENGTH = 64
DESCRIPTION_LENGTH = 1024
# The description of a new skill until its author writes one.
UNWRITTEN = "Say here what this does, and when to use it."
ALLOWED_NAME = "lower-case letters a-z, digits and single hyphens between them, at most 64"

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_BLANK = re.compile(r"\{\{\s*([a-z][a-z0-9_]{0,31})\s*\}\}")


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


class Skill(Struct, frozen=True, kw_only=True):
    """A skill.

    `taint` names the sources of untrusted text its author had read; `script` is a path inside the folder.
    """

    name: str
    description: str
    body: str
    type: SkillType = SkillType.INSTRUCTION
    script: str = ""
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

    def fill(self, values: dict[str, str]) -> str:
        """Return the body with its placeholders filled in. Inserted text is not expanded again."""
        return _BLANK.sub(lambda match: values.get(match[1], match[0]), self.body)


def check_name(name: str) -> str:
    """Return why this cannot be a skill's name; "" if it can."""
    if len(name) <= NAME_LENGTH and _NAME.fullmatch(name):
        return ""
    return f"the name {ascii(name[:80])} is not allowed; use {ALLOWED_NAME}"
