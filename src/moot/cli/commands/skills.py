"""`moot skills`: manages the skill files on disk. Works without a daemon; a running one notices every change."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from moot.cli import output, prompts
from moot.cli.command_group import CommandGroup
from moot.cli.connect import find_paths
from moot.cli.exits import Exit
from moot.cli.name_completion import complete_files
from moot.cli.program import hint
from moot.cli.render import sanitize, terminal
from moot.cli.stdin import read_stdin
from moot.daemon.clock import SystemClock
from moot.daemon.config.config_file import load_config
from moot.domain.agent import FileProblem
from moot.domain.errors import BadRequest, ConfigError, Conflict, MootError, NotFound
from moot.domain.front_matter import Broken
from moot.domain.shell import Level
from moot.domain.skill import SKILL_FILE, UNWRITTEN, Skill, SkillSource, SkillType
from moot.tools.files.file_text import decode_text, is_binary
from moot.tools.shell.grammar import classify_script
from moot.tools.skills.archive import Members, bind_skills, split_skills
from moot.tools.skills.draft import draft_skill
from moot.tools.skills.library import SkillLibrary, digest_files, read_skill
from moot.tools.skills.skill_sources import FoundSkill, fetch_skills, find_claude_skills
from moot.tools.skills.skill_tools import parse_name, tool_name

_NOT_OFFERED = "the description is missing, so agents are not offered the skill"
_FIX = "Correct the file; it takes effect at once."
# The template of a new skill.
_BEGUN = {
    SkillType.INSTRUCTION: "Describe here what to do, step by step, and what the result should look like.",
    SkillType.TEMPLATE: "Write about {{topic}} for {{reader}}.",
    SkillType.SCRIPT: '#!/bin/sh\n# It is called with what is in "$@"; what it prints is its answer.\necho "$@"\n',
}


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def skills(context: click.Context) -> None:
    """Manage skills for agents: list, show, new, add, validate, trust, remove, restore."""
    if context.invoked_subcommand is None:
        _list()


@skills.command("list")
@output.json_option
def list_skills() -> None:
    """List the skills. Broken files are listed with line and reason."""
    _list()


def _list() -> None:
    shelf = _open_library()
    others = [each for each in find_claude_skills(os.getcwd()) if not _is_added(shelf, each)]
    found = [_skill_data(skill) for skill in shelf.all()] + [_broken_data(flaw) for flaw in shelf.flaws]
    found += [_skill_data(each.skill) | {"source": "found", "tool": "", "folder": each.folder} for each in others]

    def render(_: Any) -> str:
        rows = [[skill.name, skill.type.value, _render_origin(skill), skill.description] for skill in shelf.all()]
        rows += [
            [
                each.skill.name,
                each.skill.type.value,
                f"{'changed' if shelf.get(each.skill.name) else 'not added'} ({hint('moot skills add')} {each.folder})",
                each.skill.description,
            ]
            for each in others
        ]
        return terminal.render_table(["NAME", "TYPE", "SOURCE", "DESCRIPTION"], rows) or hint(
            "No skills; create one with `moot skills new`."
        )

    output.emit(found, render=render)
    _print_flaws(shelf.flaws, [flaw for skill in shelf.all() for flaw in _find_unfinished(shelf.folder, skill.name)])


@skills.command()
@click.argument("name")
@output.json_option
def show(name: str) -> None:
    """Show skill NAME with its instructions and its files.

    Exits with 6 if it does not exist, and with 78 if its file is broken.
    """
    shelf = _open_library()
    skill = shelf.get(name)
    if skill is None:
        flaw = next((flaw for flaw in shelf.flaws if Path(flaw.path).parent.name == name), None)
        if flaw is not None:
            raise ConfigError(str(flaw), fix=_FIX)
        raise NotFound(f"there is no skill {name!r}", fix="`moot skills` lists them.")
    files = shelf.files(skill)

    def render(_: Any) -> str:
        facts = [("type", skill.type.value), ("source", _render_origin(skill)), ("tool", tool_name(skill.name))]
        facts += [("folder", skill.folder), ("files", ", ".join(files))]
        lines = [terminal.paint(sanitize.name(skill.name), bold=True) + f"  {sanitize.line(skill.description)}"]
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
    help="What a call does: return its text, fill in a template, or run its script.",
)
@click.option("--from", "source", type=click.Path(path_type=Path), help="A file with its text or script; - is stdin.")
@output.json_option
def new(name: str, description: str, kind: str, source: Path | None) -> None:
    """Create skill NAME from a file or a template. Never overwrites a skill.

    Exits with 1 if it exists already, and with 2 if the name or the text is invalid.
    """
    definition = _BEGUN[SkillType(kind)] if source is None else _read_source(source)
    members = draft_skill(
        {"name": name, "description": description or UNWRITTEN, "type": kind, "definition": definition}
    )
    skill = _open_library().add(members, source=SkillSource.PERSON)
    path = f"{skill.folder}/{SKILL_FILE}"

    def render(_: Any) -> str:
        if not skill.is_described:
            return (
                f"Created {path}. Describe there what it does and when to use it; until then agents are not offered it."
            )
        return f"Created {path}. Edit it; agents can use {tool_name(skill.name)} from their next turn on."

    output.emit({**_skill_data(skill), "path": path}, render=render)


@skills.command()
@click.argument("source", shell_complete=complete_files)
@click.option("--name", default="", help="Add only the skill of this name.")
@click.option("--digest", default="", help="Add without being asked, if the files have this digest.")
@output.json_option
def add(source: str, name: str, digest: str) -> None:
    """Add the skills in SOURCE: a folder, an archive, or the https address of an archive or of a .git repository.

    All files are shown first. A copy is added; it is offered to agents while its files are those that you approved.
    Nothing of it is run now. A skill that was added before is replaced by the files as they are now; `moot skills
    remove` and `restore` bring the former ones back. Exits with 1 if another skill has that name.
    """
    config, shelf = load_config(find_paths().config)[0], _open_library()
    found = list(split_skills(fetch_skills(source, config.tools, SystemClock())).values())
    named = [(shelf.check(members, over=True), members) for members in found if name in ("", parse_name(members))]
    if not named:
        raise NotFound(f"there is no skill{f' {name!r}' if name else ''} in {source}", fix="A skill has a SKILL.md.")
    shown = bind_skills(members for _, members in named).seen
    if digest and digest != shown:
        raise Conflict("the files do not match the digest", fix="Look at them again without --digest.")
    if not digest:
        output.print_note("\n".join(_render_members(members) for _, members in named))
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest(
                f"nothing was added: there is no terminal to confirm on; the digest of the files is {shown}",
                fix=f"Read them, then add --digest {shown}",
            )
        if again := [skill.name for skill, _ in named if shelf.get(skill.name)]:
            output.print_note(f"Replaces what was added before: {', '.join(map(sanitize.name, again))}.")
        prompts.require_confirmation(f"Offer {', '.join(sanitize.name(skill.name) for skill, _ in named)} to agents?")
    added = [shelf.add(members, source=SkillSource.OUTSIDE, agreed=True, over=True) for _, members in named]
    output.emit(
        [_skill_data(skill) for skill in added],
        render=lambda _: "\n".join(f"Added {sanitize.name(skill.name)}: {tool_name(skill.name)}." for skill in added),
    )


def _is_added(shelf: SkillLibrary, found: FoundSkill) -> bool:
    """Whether the skill is on the shelf with the same files."""
    known = shelf.get(found.skill.name)
    try:
        return known is not None and digest_files(known.folder) == digest_files(found.folder)
    except OSError:
        return False


def _render_members(members: Members) -> str:
    """Return all files, with a mark before each line so that none can pass for one of Moot."""
    lines: list[str] = []
    for path in sorted(members, key=lambda path: (path != SKILL_FILE, path)):
        data = members[path].data
        text = f"({len(data)} bytes that are not text)" if is_binary(data) else sanitize.exact(decode_text(data))
        lines += [sanitize.exact_line(path), *(f"  | {line}" for line in text.split("\n"))]
    return "\n".join(lines)


@skills.command()
@click.argument("path", type=click.Path(path_type=Path), required=False)
@output.json_option
def validate(path: Path | None) -> int:
    """Check the skills, or those at PATH: a SKILL.md, the folder of a skill, or a folder of skills.

    A missing description is a warning. Exits with 78 if one is broken, and with 6 if there is
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
    text = f", {len(warnings)} with warnings" if warnings else ""
    output.emit(data, render=lambda _: f"{len(places)} checked, {len(flaws)} broken{text}.", error=error)
    if not output.wants_json():
        _print_flaws(flaws, warnings)
    return int(Exit.BAD_CONFIG if flaws else Exit.OK)


@skills.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Remove without asking.")
@output.json_option
def remove(name: str, yes: bool) -> None:
    """Remove skill NAME, broken or not. Asks for confirmation; `moot skills restore NAME` undoes it.

    Exits with 6 if it does not exist.
    """
    shelf = _open_library()
    if name not in shelf.names():
        raise NotFound(f"there is no skill {name!r}", fix="`moot skills` lists them.")
    if not yes:
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest("nothing was removed: there is no terminal to confirm on", fix="Add --yes.")
        prompts.require_confirmation(f"Remove the skill {sanitize.name(name)}?")
    shelf.remove(name)
    output.emit(
        {"name": name, "removed": True},
        render=lambda _: hint(
            f"Removed {sanitize.name(name)}. `moot skills restore {sanitize.name(name)}` brings it back."
        ),
    )


@skills.command()
@click.argument("name")
@output.json_option
def restore(name: str) -> None:
    """Restore the skill that `moot skills remove NAME` removed last.

    Exits with 6 if there is nothing to restore, and with 1 if a skill of that name exists.
    """
    _open_library().restore(name)
    output.emit({"name": name, "restored": True}, render=lambda _: f"Restored {sanitize.name(name)}.")


@skills.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Trust without asking.")
@output.json_option
def trust(name: str, yes: bool) -> None:
    """Trust skill NAME, which an agent made, so that it is offered to agents.

    It is shown first. Exits with 6 if it does not exist.
    """
    shelf = _open_library()
    skill = shelf.get(name)
    if skill is None:
        raise NotFound(f"there is no skill {name!r}", fix="`moot skills` lists them.")
    digest = digest_files(skill.folder)
    if not yes:
        if output.wants_json() or not sys.stdin.isatty():
            raise BadRequest("nothing was trusted: there is no terminal to confirm on", fix="Add --yes.")
        output.print_note(_render_whole(shelf, skill))
        prompts.require_confirmation(f"Offer the skill {sanitize.name(name)} to agents?")
    agreed = shelf.trust(name, digest)
    output.emit({**_skill_data(agreed), "trusted": True}, render=lambda _: f"{sanitize.name(name)} is now trusted.")


def _render_whole(shelf: SkillLibrary, skill: Skill) -> str:
    """Return all files of a skill, with a mark before each line so that none can pass for one of Moot."""
    lines: list[str] = []
    for path in (SKILL_FILE, *shelf.files(skill, all_of_them=True)):
        lines.append(sanitize.exact_line(path))
        lines += [f"  | {line}" for line in _read_exactly(shelf, skill, path).split("\n")]
    return "\n".join(lines)


def _read_exactly(shelf: SkillLibrary, skill: Skill, path: str) -> str:
    try:
        data = shelf.read(skill, path)
    except MootError as error:
        return f"({error.message})"
    return f"({len(data)} bytes that are not text)" if is_binary(data) else sanitize.exact(decode_text(data))


def _print_flaws(flaws: Iterable[FileProblem], warnings: Iterable[FileProblem]) -> None:
    for word, colour, messages in (("error: ", "red", flaws), ("warning: ", "yellow", warnings)):
        for flaw in messages:
            output.print_note(terminal.paint(word, sys.stderr, fg=colour) + sanitize.clean(str(flaw)))


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
    """The skills at a path, each as (parent folder, skill folder)."""
    if path.name == SKILL_FILE:
        path = path.parent
    if (path / SKILL_FILE).exists():
        return [(path.parent, path.name)]
    found = [(path, name) for name in SkillLibrary(path).names()]
    if not found:
        raise NotFound(f"there is no {SKILL_FILE} at {path}", fix="Give a SKILL.md, or a folder that has one.")
    return found


def _find_flaws(shelf: Path, name: str) -> Iterator[FileProblem]:
    try:
        skill = read_skill(shelf, name)
    except Broken as broken:
        yield FileProblem(path=str(shelf / name / SKILL_FILE), line=broken.line, reason=broken.reason)
        return
    if skill.type is SkillType.SCRIPT:
        path = Path(skill.folder) / skill.script
        verdict = classify_script(path.read_text(encoding="utf-8", errors="replace"))
        if verdict.level is Level.DANGEROUS:
            yield FileProblem(path=str(path), line=1, reason=f"it would be refused: {verdict.reason}")


def _find_unfinished(shelf: Path, name: str) -> Iterator[FileProblem]:
    """Why a skill without errors is not offered to agents."""
    try:
        skill = read_skill(shelf, name)
    except Broken:
        return
    if not skill.is_described:
        path = shelf / name / SKILL_FILE
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        line = next((number for number, text in enumerate(lines, 1) if text.startswith("description")), 1)
        yield FileProblem(path=str(path), line=line, reason=_NOT_OFFERED)


def _render_origin(skill: Skill) -> str:
    """The origin of a skill, for display."""
    if skill.taint == {"skill"}:
        return hint("an agent, not trusted yet (moot skills trust)")
    if skill.taint:
        return f"an agent, with untrusted content ({', '.join(sorted(skill.taint))})"
    return {SkillSource.AGENT: "an agent", SkillSource.OUTSIDE: "added by you"}.get(skill.source, "you")


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


def _broken_data(flaw: FileProblem) -> dict[str, Any]:
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
