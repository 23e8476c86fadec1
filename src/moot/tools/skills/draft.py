"""Builds the files of a new skill from its description. Pure."""

import re
from typing import Any

from moot.domain.errors import BadRequest
from moot.domain.skill import SKILL_FILE, Skill, SkillType, check_name, parse_parameters
from moot.domain.text import clean
from moot.tools.skills.archive import Member, Members
from moot.tools.skills.skill_file import write_skill

_MOST_DEFINITION = 131_072
_SHEBANG = re.compile(r"#![^\n]*\b(python|node|ruby|perl)")
_ENDINGS = {"python": ".py", "node": ".js", "ruby": ".rb", "perl": ".pl"}
# What instructions are called elsewhere.
COMPOSITE = "composite"


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
    kind = _parse_type(arguments["type"])
    given = str(arguments.get("parameters") or "")
    parameters = parse_parameters(clean(given)) if given else ()
    description = " ".join(clean(arguments["description"]).split())
    if kind is not SkillType.SCRIPT:
        skill = Skill(name=name, description=description, body=definition, type=kind, parameters=parameters)
        _check_blanks(skill)
        return {SKILL_FILE: Member(write_skill(skill))}
    text = definition if definition.startswith("#!") else f"#!/bin/sh\n{definition}"
    language = _SHEBANG.match(text)
    script = f"scripts/run{_ENDINGS[language[1]] if language else '.sh'}"
    body = f"Runs `{script}`."
    skill = Skill(name=name, description=description, body=body, type=kind, script=script, parameters=parameters)
    return {SKILL_FILE: Member(write_skill(skill)), script: Member(text.encode(), executable=True)}


def _parse_type(name: str) -> SkillType:
    try:
        return SkillType.INSTRUCTION if name == COMPOSITE else SkillType(name)
    except ValueError:
        raise BadRequest(f"type is one of {', '.join(SkillType)}", fix="Choose one of them.") from None


def _check_blanks(skill: Skill) -> None:
    """Raise BadRequest if a template would ignore one of its parameters."""
    blanks = skill.blanks()
    ignored = [each.name for each in skill.parameters if each.name not in blanks]
    if skill.type is SkillType.TEMPLATE and ignored:
        raise BadRequest(f"the template has no {{{{{ignored[0]}}}}}", fix="Add it, or leave the parameter out.")
