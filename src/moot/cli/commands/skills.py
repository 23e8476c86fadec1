"""moot skills: the skills on the shelf, as files. No daemon is needed; one that runs sees every change by itself."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.connect import find_paths
from moot.cli.exits import Exit
from moot.cli.render import sanitize
from moot.cli.stdin import read_stdin
from moot.domain.agent import Flaw
from moot.domain.errors import BadRequest, ConfigError, NotFound
from moot.domain.front_matter import Broken
from moot.domain.shell import Level
from moot.domain.skill import SKILL_FILE, UNWRITTEN, Skill, SkillSource, SkillType
from moot.tools.shell.grammar import classify_script
from moot.tools.skills.draft import draft_skill
from moot.tools.skills.library import SkillLibrary, read_skill
from moot.tools.skills.skill_tools import tool_name

_NOT_OFFERED = "the description is not written yet, and agents are not offered the skill before it is"
_FIX = "Mend the file; it counts from then on."
# What a new skill says until its author says something better.
_BEGUN = {
    SkillType.INSTRUCTION: "Say here what to do, step by step, and what the result should look like.",
    SkillType.TEMPLATE: "Write about {{topic}} for {{reader}}.",
    SkillType.SCRIPT: '#!/bin/sh\n# It is called with what is in "$@"; what it prints is its answer.\necho "$@"\n',
}


@click.group(invoke_without_command=True)
@output.json_option
@click.pass_context
def skills(context: click.Context) -> None:
    """Skills that agents can take up: list, show, new, validate, trust, remove, restore."""
    if context.invoked_subcommand is None:
        _list()


@skills.command("list")
@output.json_option
def list_skills() -> None:
    """List the skills; a file that could not be read is named with the line and the reason."""
    _list()


def _list() -> None:
    shelf = _open_library()
    found = [_skill_data(skill) for skill in shelf.all()] + [_broken_data(flaw) for flaw in shelf.flaws]

    def render(_: Any) -> str:
        rows = [[skill.name, skill.type.value, _render_origin(skill), skill.description] for skill in shelf.all()]
        return (
            output.render_table(["NAME", "TYPE", "SOURCE", "DESCRIPTION"], rows)
            or "No skill yet; see `moot skills new`."
        )

    output.emit(found, render=render)
    _print_flaws(shelf.flaws, [flaw for skill in shelf.all() for flaw in _find_unfinished(shelf.folder, skill.name)])


@skills.command()
@click.argument("name")
@output.json_option
def show(name: str) -> None:
    """Show skill NAME with its instructions and its files.

    Exits with 6 when there is none of that name, and with 78 when its file is broken.
    """
    shelf = _open_library()
    skill = shelf.get(name)
    if skill is None:
        flaw = next((flaw for flaw in shelf.flaws if Path(flaw.path).parent.name == name), None)
        if flaw is not None:
            raise ConfigError(str(flaw), fix=_FIX)
        raise NotFound(f"there is no skill {name!r}", fix="`moot skills` shows those there are.")
    files = shelf.files(skill)

    def render(_: Any) -> str:
        facts = [("type", skill.type.value), ("source", _render_origin(skill)), ("tool", tool_name(skill.name))]
        facts += [("folder", skill.folder), ("files", ", ".join(files))]
        lines = [output.paint(sanitize.line(skill.name), bold=True) + f"  {sanitize.line(skill.description)}"]
        lines += [f"{key:7} {sanitize.line(value)}" for key, value in facts if value]
        return "\n".join([*lines, "", sanitize.clean(skill.body)])

    output.emit({**_skill_data(skill), "body": skill.body, "files": files}, render=render)


@skills.command()
@click.argument("name")
@click.option("--description", default="", help="What it does and when to use it.")
@click.option(
    "--type",
    "kind",
    type=click.Choice([kind.value for kind in SkillType]),
    default=SkillType.INSTRUCTION.value,
    show_default=True,
    help="What calling it does: give its text, fill it in, or run its script.",
)
@click.option("--from", "source", type=click.Path(path_type=Path), help="A file with its text or script; - is stdin.")
@output.json_option
def new(name: str, description: str, kind: str, source: Path | None) -> None:
    """Begin skill NAME: from a file, or with a text for you to write over. Nothing is replaced.

    Exits with 1 when there is one of that name, and with 2 when the name or the text will not do.
    """
    definition = _BEGUN[SkillType(kind)] if source is None else _read_source(source)
    members = draft_skill(
        {"name": name, "description": description or UNWRITTEN, "type": kind, "definition": definition}
    )
    skill = _open_library().add(members, source=SkillSource.PERSON)
    path = f"{skill.folder}/{SKILL_FILE}"

    def render(_: Any) -> str:
        if not skill.is_described:
            return f"Made {path}. Say there what it does and when to use it; agents are not offered it before."
        return f"Made {path}. Edit it; agents can use {tool_name(skill.name)} from their next turn on."

    output.emit({**_skill_data(skill), "path": path}, render=render)


@skills.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@output.json_option
def validate(path: Path | None) -> int:
    """Check the skills, or those at PATH: a SKILL.md, the folder of a skill, or a folder of skills.

    A description that nobody has written yet is a warning. Exits with 78 when one is broken, and with 6 when there is
    none at PATH.
    """
    places = (
        [(find_paths().skills, name) for name in _open_library().names()]
        if path is None
        else _find_skill_folders(path.resolve())
    )
    flaws = [flaw for shelf, name in places for flaw in _find_flaws(shelf, name)]
    warnings = [flaw for shelf, name in places for flaw in _find_unfinished(shelf, name)]
    error = ConfigError("\n".join(map(str, flaws)), fix=_FIX) if flaws else None
    data = {
        "valid": not flaws,
        "skills": [str(shelf / name) for shelf, name in places],
        "flaws": [{"path": flaw.path, "line": flaw.line, "reason": flaw.reason} for flaw in flaws],
        "warnings": [{"path": flaw.path, "line": flaw.line, "reason": flaw.reason} for flaw in warnings],
    }
    seen = f", {len(warnings)} to look at" if warnings else ""
    output.emit(data, render=lambda _: f"{len(places)} checked, {len(flaws)} to mend{seen}.", error=error)
    if not output.wants_json():
        _print_flaws(flaws, warnings)
    return int(Exit.BAD_CONFIG if flaws else Exit.OK)


@skills.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Remove without asking.")
@output.json_option
def remove(name: str, yes: bool) -> None:
    """Take skill NAME off the shelf, broken or not. Asks first; `moot skills restore NAME` brings it back.

    Exits with 6 when there is none of that name.
    """
    shelf = _open_library()
    if name not in shelf.names():
        raise NotFound(f"there is no skill {name!r}", fix="`moot skills` shows those there are.")
    if not yes:
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest("nothing was removed: there is no terminal to ask on", fix="Add --yes.")
        prompts.require_confirmation(f"Remove the skill {sanitize.line(name)}?")
    shelf.remove(name)
    output.emit(
        {"name": name, "removed": True},
        render=lambda _: f"Removed {sanitize.line(name)}. `moot skills restore {sanitize.line(name)}` brings it back.",
    )


@skills.command()
@click.argument("name")
@output.json_option
def restore(name: str) -> None:
    """Bring back what `moot skills remove NAME` took off the shelf last.

    Exits with 6 when nothing of that name was removed, and with 1 when there is a skill of that name again.
    """
    _open_library().restore(name)
    output.emit({"name": name, "restored": True}, render=lambda _: f"{sanitize.line(name)} is back.")


@skills.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Agree without being asked.")
@output.json_option
def trust(name: str, yes: bool) -> None:
    """Agree to skill NAME, which an agent made: from now on its description stands in what agents are told.

    It is shown first. Exits with 6 when there is none of that name.
    """
    shelf = _open_library()
    skill = shelf.get(name)
    if skill is None:
        raise NotFound(f"there is no skill {name!r}", fix="`moot skills` shows those there are.")
    if not yes:
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest("nothing was agreed to: there is no terminal to ask on", fix="Add --yes.")
        output.print_note(
            "\n".join([sanitize.exact(skill.description), "", sanitize.exact(skill.body), *shelf.files(skill)])
        )
        prompts.require_confirmation(f"Let agents be told of the skill {sanitize.line(name)}?")
    agreed = shelf.trust(name)
    output.emit({**_skill_data(agreed), "trusted": True}, render=lambda _: f"{sanitize.line(name)} is agreed to.")


def _print_flaws(flaws: Iterable[Flaw], warnings: Iterable[Flaw]) -> None:
    for word, colour, told in (("flaw: ", "red", flaws), ("warning: ", "yellow", warnings)):
        for flaw in told:
            output.print_note(output.paint(word, sys.stderr, fg=colour) + sanitize.clean(str(flaw)))


def _open_library() -> SkillLibrary:
    return SkillLibrary(find_paths().skills)


def _read_source(source: Path) -> str:
    if str(source) == "-":
        return read_stdin()
    try:
        return source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{source} cannot be read: {error}", fix="Give a file of UTF-8 text.") from error


def _find_skill_folders(path: Path) -> list[tuple[Path, str]]:
    """The skills at a path, each by the folder it stands in and its own."""
    if path.name == SKILL_FILE:
        path = path.parent
    if (path / SKILL_FILE).exists():
        return [(path.parent, path.name)]
    found = [(path, name) for name in SkillLibrary(path).names()]
    if not found:
        raise NotFound(f"there is no {SKILL_FILE} at {path}", fix="Give a SKILL.md, or a folder that has one.")
    return found


def _find_flaws(shelf: Path, name: str) -> Iterator[Flaw]:
    try:
        skill = read_skill(shelf, name)
    except Broken as broken:
        yield Flaw(path=str(shelf / name / SKILL_FILE), line=broken.line, reason=broken.reason)
        return
    if skill.type is SkillType.SCRIPT:
        path = Path(skill.folder) / skill.script
        verdict = classify_script(path.read_text(encoding="utf-8", errors="replace"))
        if verdict.level is Level.DANGEROUS:
            yield Flaw(path=str(path), line=1, reason=f"it would be refused: {verdict.reason}")


def _find_unfinished(shelf: Path, name: str) -> Iterator[Flaw]:
    """What keeps a skill that is not broken from being offered."""
    try:
        skill = read_skill(shelf, name)
    except Broken:
        return
    if not skill.is_described:
        path = shelf / name / SKILL_FILE
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        line = next((number for number, text in enumerate(lines, 1) if text.startswith("description")), 1)
        yield Flaw(path=str(path), line=line, reason=_NOT_OFFERED)


def _render_origin(skill: Skill) -> str:
    """Where it comes from, for a person."""
    if skill.taint == {"skill"}:
        return "an agent, and you have not agreed to it (moot skills trust)"
    if skill.taint:
        return f"an agent, after strangers' words ({', '.join(sorted(skill.taint))})"
    return "an agent" if skill.source is SkillSource.AGENT else "you"


def _skill_data(skill: Skill) -> dict[str, Any]:
    return {
        "name": skill.name,
        "description": skill.description,
        "type": skill.type.value,
        "source": skill.source.value,
        "taint": sorted(skill.taint),
        "tool": tool_name(skill.name),
        "folder": skill.folder,
        "flaw": "",
    }


def _broken_data(flaw: Flaw) -> dict[str, Any]:
    folder = Path(flaw.path).parent
    return {
        "name": folder.name,
        "description": "",
        "type": "",
        "source": "",
        "taint": [],
        "tool": "",
        "folder": str(folder),
        "flaw": str(flaw),
    }
