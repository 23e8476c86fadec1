"""The skill tools: list, view, create and import skills, and one tool for each skill of the `library`."""

import asyncio
import hashlib
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from moot.domain.ask import Binding
from moot.domain.config import SkillConfig
from moot.domain.errors import BadRequest, Conflict, Forbidden, MootError, NotFound
from moot.domain.front_matter import Broken
from moot.domain.ports.tool import RunContext, RunScript, Tool, ToolResult
from moot.domain.prompt import Safety, Sink, ToolSpec
from moot.domain.skill import (
    DESCRIPTION_LENGTH,
    NAME_LENGTH,
    SKILL_FILE,
    Skill,
    SkillParameter,
    SkillType,
    build_schema,
)
from moot.domain.text import clean, defuse
from moot.tools.files.confined_paths import ConfinedFolder
from moot.tools.files.file_text import decode_text, is_binary, render_diff
from moot.tools.files.off_limits import OffLimits
from moot.tools.skills.archive import Members, bind_skills, gather_files, split_skills
from moot.tools.skills.draft import COMPOSITE, draft_skill
from moot.tools.skills.library import SkillLibrary
from moot.tools.skills.skill_file import parse_skill

_TOOL_NAME_LENGTH = 64
_MOST_ARGUMENTS = 64
# The parameter of a skill that has none of its own.
_TOPIC = SkillParameter(name="topic", description="What you want to use it for.")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# The sandbox that runs a script in a folder.
HeldIn = Callable[[str], Awaitable[Binding]]
Sinks = frozenset[Sink]


async def _no_binding(_cwd: str) -> Binding:
    return Binding()


def tools(*, skills: SkillLibrary, off_limits: OffLimits, config: SkillConfig | None = None) -> list[Tool]:
    """Return the four tools for the library itself. Imports are read below the run's working directory."""
    return [
        ListSkills(skills),
        ViewSkill(skills),
        CreateSkill(skills),
        ImportSkill(skills, off_limits, config or SkillConfig()),
    ]


class SkillTools:
    """The tools `skill_<name>`, one for each skill, updated when the library changes."""

    def __init__(
        self, skills: SkillLibrary, run_script: RunScript, *, sinks: Sinks, held_in: HeldIn = _no_binding
    ) -> None:
        self._skills = skills
        self._run_script = run_script
        self._held_in = held_in
        self._sinks = sinks
        self._known: list[Skill] = []
        self._tools: list[Tool] = []

    def current(self) -> list[Tool]:
        """Return the current tools. Checks the folder, and rebuilds only what changed."""
        self._skills.refresh_if_changed()
        # The name, the description and the placeholders of a skill are part of every prompt, so they must be trusted.
        skills = [skill for skill in self._skills.list_offered() if not skill.taint]
        if skills != self._known:
            self._known = skills
            self._tools = [self._build_tool(skill) for skill in skills]
        return self._tools

    def _build_tool(self, skill: Skill) -> Tool:
        if skill.type is SkillType.SCRIPT:
            return ScriptSkill(skill, self._skills, self._run_script, self._held_in, self._sinks)
        return TextSkill(skill, self._skills)


class ListSkills:
    spec = ToolSpec(
        name="list_skills",
        safety=Safety.SAFE,
        group="skill",
        description="List the skills that can be used, with what each is for.",
        parameters={
            "type": "object",
            "properties": {"summary": {"type": "boolean", "description": "Names and descriptions only."}},
        },
    )

    def __init__(self, skills: SkillLibrary) -> None:
        self._skills = skills

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return await asyncio.to_thread(self._list, bool(arguments.get("summary")))

    def line(self, arguments: dict[str, Any]) -> str:
        return "list skills"

    def _list(self, summary: bool) -> ToolResult:
        self._skills.refresh_if_changed()
        skills = self._skills.list_offered()
        listed: list[dict[str, Any]] = []
        for skill in skills:
            entry: dict[str, Any] = {"name": skill.name, "description": skill.description}
            if not summary:
                entry |= {
                    "type": skill.type.value,
                    "tool": "" if skill.taint else tool_name(skill.name),
                    "files": self._skills.files(skill),
                }
            listed.append(entry)
        taint = frozenset[str]().union(*(skill.taint for skill in skills))
        answer: dict[str, Any] = {"skills": listed, "count": len(listed)}
        if self._skills.flaws:
            answer["flaws"] = [str(flaw) for flaw in self._skills.flaws]
        return ToolResult(content=_to_json(answer), taint=taint)


class ViewSkill:
    spec = ToolSpec(
        name="view_skill",
        safety=Safety.SAFE,
        group="skill",
        description="Read a skill: its SKILL.md, or one of the files beside it.",
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The skill's name."},
                "path": {"type": "string", "description": f"A file in the skill's folder; {SKILL_FILE} if not given."},
            },
            "required": ["name"],
        },
    )

    def __init__(self, skills: SkillLibrary) -> None:
        self._skills = skills

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        return await asyncio.to_thread(self._view, arguments["name"], arguments.get("path") or SKILL_FILE)

    def line(self, arguments: dict[str, Any]) -> str:
        path = arguments.get("path")
        return f"view skill {arguments.get('name', '')}" + (f", {path}" if path else "")

    def _view(self, name: str, path: str) -> ToolResult:
        self._skills.refresh_if_changed()
        skill = self._skills.get(name)
        if skill is None:
            raise NotFound(f"there is no skill {name!r}", fix="list_skills lists them.")
        data = self._skills.read(skill, path)
        if is_binary(data):
            raise BadRequest(f"{path} is not text ({len(data)} bytes)")
        answer: dict[str, Any] = {"name": name, "path": path, "content": decode_text(data)}
        if path == SKILL_FILE:
            answer["files"] = self._skills.files(skill)
        return ToolResult(content=_to_json(answer), taint=skill.taint | self._skills.current_taint(skill))


class CreateSkill:
    spec = ToolSpec(
        name="create_skill",
        safety=Safety.DANGEROUS,
        group="skill",
        description="Store something you learned to do as a skill: instructions to follow, a template with "
        "{{blanks}} to fill in, or a script to run.",
        parameters={
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": f"Lower-case letters, digits and hyphens, at most {NAME_LENGTH}.",
                },
                "description": {
                    "type": "string",
                    "description": f"What it does and when to use it, at most {DESCRIPTION_LENGTH} characters.",
                },
                "type": {
                    "type": "string",
                    "enum": [*(kind.value for kind in SkillType), COMPOSITE],
                    "description": f"{COMPOSITE} is the same as {SkillType.INSTRUCTION}.",
                },
                "definition": {
                    "type": "string",
                    "description": "The instructions, the template, or the script with its #! line.",
                },
                "parameters": {
                    "type": "string",
                    "description": "A JSON schema of its parameters. A script gets them as --name=value.",
                },
            },
            "required": ["name", "description", "type", "definition"],
        },
        fine=frozenset({"parameters"}),
    )

    def __init__(self, skills: SkillLibrary) -> None:
        self._skills = skills

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        members = draft_skill(arguments)
        skill = await asyncio.to_thread(self._skills.add, members, taint=context.taint, agreed=context.granted)
        return _to_json({"status": "active", "name": skill.name, "message": _describe_new(skill)})

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        try:
            members = draft_skill(arguments)
            await asyncio.to_thread(self._skills.check, members)
        except MootError as error:
            return f"This will fail: {error.message}."
        return _render_files(members)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"create {arguments.get('type', '')} skill {arguments.get('name', '')}"


class ImportSkill:
    spec = ToolSpec(
        name="import_skill",
        safety=Safety.DANGEROUS,
        group="skill",
        description="Import the skills in a folder or an archive (.zip, .tar.gz) of the working directory. "
        "Their scripts are not run.",
        parameters={
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "Path of the folder or archive."},
                "skill_name": {"type": "string", "description": "Import only the skill of this name."},
            },
            "required": ["url"],
        },
    )

    def __init__(self, skills: SkillLibrary, off_limits: OffLimits, config: SkillConfig) -> None:
        self._skills = skills
        self._off_limits = off_limits
        self._config = config

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> str:
        if not self._config.allow_import:
            raise Forbidden("importing skills is disabled", fix="The owner can set skills.allow_import.")
        wanted = str(arguments.get("skill_name") or "")
        found = await asyncio.to_thread(self._find_skills, arguments["url"], context.cwd, wanted)
        if context.agreed is not None and bind_skills(found) != context.agreed:
            raise _changed_error(str(arguments["url"]))
        return await asyncio.to_thread(self._take, found, context)

    async def bind(self, arguments: dict[str, Any], context: RunContext) -> Binding:
        wanted = str(arguments.get("skill_name") or "")
        try:
            return bind_skills(await asyncio.to_thread(self._find_skills, arguments["url"], context.cwd, wanted))
        except MootError as error:
            return Binding(seen=f"it fails: {error.message}")

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        wanted = str(arguments.get("skill_name") or "")
        try:
            found = await asyncio.to_thread(self._find_skills, arguments["url"], context.cwd, wanted)
        except MootError as error:
            return f"This will fail: {error.message}."
        return "\n".join(_render_files(members) for members in found)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"import skills from {arguments.get('url', '')}"

    def _find_skills(self, url: str, cwd: str, wanted: str) -> list[Members]:
        path = url.removeprefix("file://")
        if _URL.match(path):
            raise BadRequest("skills are imported from a path, not from the network", fix="Download it first.")
        with ConfinedFolder(cwd, self._off_limits) as ground:
            skills = split_skills(gather_files(ground, ground.spot(path), self._config))
        found = [members for members in skills.values() if not wanted or parse_name(members) == wanted]
        if not found:
            raise NotFound(
                f"there is no skill{f' {wanted!r}' if wanted else ''} in {path}", fix="A skill has a SKILL.md."
            )
        return found

    def _take(self, found: Sequence[Members], context: RunContext) -> str:
        imported: list[str] = []
        skipped: list[str] = []
        refused: MootError | None = None
        for members in found:
            try:
                taken = self._skills.add(members, taint=context.taint, agreed=context.granted)
                imported.append(taken.name)
            except MootError as error:
                refused = error
                skipped.append(error.message)
        if refused is not None and not imported:
            raise refused
        return _to_json({"status": "imported", "skills": imported, "count": len(imported), "skipped": skipped})


class TextSkill:
    """A skill that is read: its body, with the placeholders of a template filled in."""

    def __init__(self, skill: Skill, skills: SkillLibrary) -> None:
        self._skill = skill
        self._skills = skills
        declared = skill.list_parameters() or [_TOPIC]
        self.spec = _skill_spec(skill, Safety.SAFE, build_schema(declared))

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        skill = self._skill
        values = _list_values(skill, arguments)
        content = skill.fill(values) if skill.blanks() else skill.body
        if values and not skill.blanks():
            content = "\n".join([content, "", "Given:", *(f"- {name}: {value}" for name, value in values.items())])
        files = await asyncio.to_thread(self._skills.files, skill)
        if files:
            content = f"{content}\n\nOther files in {skill.folder}, readable with view_skill: {', '.join(files)}"
        return ToolResult(content=content, taint=skill.taint)

    def line(self, arguments: dict[str, Any]) -> str:
        return f"use the skill {self._skill.name}"


class ScriptSkill:
    """A skill whose script is run in the sandbox."""

    def __init__(
        self, skill: Skill, skills: SkillLibrary, run_script: RunScript, held_in: HeldIn, sinks: Sinks
    ) -> None:
        self._skill = skill
        self._skills = skills
        self._run_script = run_script
        self._held_in = held_in
        arguments = {"type": "array", "items": {"type": "string"}, "description": "The arguments of the script."}
        parameters = {"type": "object", "properties": {"args": arguments}, "required": []}
        if skill.parameters:
            parameters = build_schema(list(skill.parameters))
        self.spec = _skill_spec(skill, Safety.DANGEROUS, parameters, sinks)

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        path = f"{self._skill.folder}/{self._skill.script}"
        if context.agreed is not None and await self.bind(arguments, context) != context.agreed:
            raise _changed_error(f"the skill {self._skill.name}")
        result = await self._run_script(path, self._list_arguments(arguments), context)
        if isinstance(result, str):
            return ToolResult(content=result, taint=self._skill.taint)
        return ToolResult(content=result.content, is_error=result.is_error, taint=result.taint | self._skill.taint)

    def _list_arguments(self, arguments: dict[str, Any]) -> list[str]:
        """Return the arguments of the script: its parameters as options, or texts if it has none."""
        if not self._skill.parameters:
            return _parse_strings(arguments.get("args"))
        values = _list_values(self._skill, arguments)
        return _parse_strings([f"--{name}={value}" for name, value in values.items()])

    async def script(self) -> str:
        data = await asyncio.to_thread(self._skills.read, self._skill, self._skill.script)
        return data.decode(errors="replace")

    async def bind(self, _arguments: dict[str, Any], context: RunContext) -> Binding:
        try:
            found = await asyncio.to_thread(self._skills.digest, self._skill)
        except OSError as error:
            raise NotFound(f"the skill {self._skill.name} cannot be read: {error.strerror}") from error
        box = await self._held_in(context.cwd)
        what = ", ".join(filter(None, (f"with its files as they are (sha256 {found[:32]})", box.what)))
        return Binding(what=what, place=box.place, seen=f"{found} {box.seen}")

    async def preview(self, arguments: dict[str, Any], context: RunContext) -> str:
        data = await asyncio.to_thread(self._skills.read, self._skill, self._skill.script)
        box = (await self._held_in(context.cwd)).what
        where = f"\nin {context.cwd}, {box}" if box else ""
        return f"{self.line(arguments)}{where}\n{render_diff(self._skill.script, None, data)}"

    def line(self, arguments: dict[str, Any]) -> str:
        values = _list_values(self._skill, arguments)
        options = [f"--{name}={value}" for name, value in values.items()]
        given = options if self._skill.parameters else arguments.get("args")
        shown = shlex.join(map(str, given)) if isinstance(given, list) else ""
        return f"run the skill {self._skill.name} {shown}".rstrip()


def tool_name(skill: str) -> str:
    """Return the name of a skill's tool. A name that is too long for providers is cut and ends in its digest."""
    name = f"skill_{skill}"
    if len(name) <= _TOOL_NAME_LENGTH:
        return name
    digest = hashlib.sha256(skill.encode()).hexdigest()[:8]
    return f"{name[: _TOOL_NAME_LENGTH - 9]}-{digest}"


def _skill_spec(skill: Skill, safety: Safety, parameters: dict[str, Any], sinks: Sinks = frozenset()) -> ToolSpec:
    return ToolSpec(
        name=tool_name(skill.name),
        description=defuse(clean(skill.description)),
        parameters=parameters,
        safety=safety,
        sinks=sinks,
        group="skill",
        added=True,
    )


def _describe_new(skill: Skill) -> str:
    if skill.taint:
        return f"The skill is stored. It becomes a tool once its owner has run `moot skills trust {skill.name}`."
    return f"The skill is stored. From the next turn on it is the tool {tool_name(skill.name)}."


def _render_files(members: Members) -> str:
    """Return the files of a skill for a person to review, the instructions first."""
    paths = sorted(members, key=lambda path: (path != SKILL_FILE, path))
    # The names come first, so that no file is overlooked if the text is cut.
    listed = [f"{len(paths)} files: {', '.join(paths)}"] if len(paths) > 1 else []
    return "\n".join([*listed, *(render_diff(path, None, members[path].data) for path in paths)])


def _changed_error(what: str) -> Conflict:
    return Conflict(f"{what} changed since it was approved", fix="Look at it again, then make the call again.")


def parse_name(members: Members) -> str:
    try:
        return parse_skill(members[SKILL_FILE].data).name
    except Broken:
        return ""


def _list_values(skill: Skill, arguments: dict[str, Any]) -> dict[str, str]:
    """Return what was given for the parameters of a skill, as text."""
    given = {each.name: arguments.get(each.name) for each in skill.list_parameters()}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None
    }


def _parse_strings(given: Any) -> list[str]:
    given = given or []
    if len(given) > _MOST_ARGUMENTS or not all(isinstance(value, str) and "\0" not in value for value in given):
        raise BadRequest(f"args must be at most {_MOST_ARGUMENTS} texts")
    return list(given)


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()
