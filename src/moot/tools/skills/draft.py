"""Builds the files of a new skill from its description. Pure."""

import re
from typing import Any

from moot.domain.errors import BadRequest
from moot.domain.skill import SKILL_FILE, Skill, SkillType, check_name
from moot.domain.text import clean
from moot.tools.skills.archive import Member, Members
from moot.tools.skills.skill_file import write_skill

_MOST_DEFINITION = 131_072
_SHEBANG = re.compile(r"#![^\n]*\b(python|node|ruby|perl)")
_ENDINGS = {"python": ".py", "node": ".js", "ruby": ".rb", "perl": ".pl"}


def draft_skill(arguments: dict[str, Any]) -> Members:
    """The files of a skill as its author describes it."""
    name, definition = arguments["name"], clean(arguments["definition"])
    if reason := check_name(name):
        raise BadRequest(reason, fix="Choose a name such as release-notes.")
    if len(definition) > _MOST_DEFINITION:
        raise BadRequest(
            f"the definition has {len(definition)} characters; at most {_MOST_DEFINITION} are allowed",
            fix="Put long parts into other files of the skill.",
        )
    try:
        kind = SkillType(arguments["type"])
    except ValueError:
        raise BadRequest(f"type is one of {', '.join(SkillType)}", fix="Choose one of them.") from None
    description = " ".join(clean(arguments["description"]).split())
    if kind is not SkillType.SCRIPT:
        skill = Skill(name=name, description=description, body=definition, type=kind)
        return {SKILL_FILE: Member(write_skill(skill))}
    text = definition if definition.startswith("#!") else f"#!/bin/sh\n{definition}"
    language = _SHEBANG.match(text)
    script = f"scripts/run{_ENDINGS[language[1]] if language else '.sh'}"
    body = f"Runs `{script}`."
    skill = Skill(name=name, description=description, body=body, type=kind, script=script)
    return {SKILL_FILE: Member(write_skill(skill)), script: Member(text.encode(), executable=True)}
