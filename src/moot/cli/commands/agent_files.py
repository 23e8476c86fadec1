"""`moot agents new`, `validate` and `import`: agent files on disk. Works without a daemon."""

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, field
from msgspec.structs import replace

from moot.agents import foreign
from moot.agents.agent_md import FILE_NAME, check_name, parse_agent, read_agent, render_agent
from moot.agents.file_text import read_text
from moot.agents.registry import EMBEDDED_NAMES, Registry, read_example
from moot.cli import exits, output
from moot.cli.connect import find_paths
from moot.cli.name_completion import complete_files
from moot.cli.render import sanitize
from moot.daemon.config.agent_keys import find_agents_folder, find_foreign_folders
from moot.daemon.config.config_file import load_config
from moot.daemon.paths import make_folder
from moot.domain.agent import AgentSource, FileProblem
from moot.domain.config import Config
from moot.domain.errors import BadRequest, ConfigError, Conflict, NotFound
from moot.domain.front_matter import Broken, split

_TEMPLATE = """---
name: {name}
description: {description}
# The tools it may use, by name or pattern. Without this line it has every tool when you talk to it, and none as a
# teammate. [] means no tools.
# prefixes: [fs_read, fs_list, "review_*"]
# Keywords and capabilities by which requests are routed to it.
# keywords: [review, code quality]
# capabilities: [code-review]
# A [models.NAME] of config.toml. Default: the default model.
# model: claude
---
You are {name}.

Describe here what you are for, how you work, and what you do not do. End with text that can be read on its own.
"""


@click.command()
@click.argument("name")
@click.option("--description", default="", help="Its purpose in one line.")
@output.json_option
def new(name: str, description: str) -> None:
    """Create agent NAME: an AGENT.md template in your agents folder."""
    if reason := check_name(name):
        raise BadRequest(reason, fix="Use `moot agents new NAME`, for example `moot agents new code-critic`.")
    line = " ".join(description.split()) or f"Describe {name} in one line."
    text = _TEMPLATE.format(name=name, description=_quote_yaml(line))
    embedded = _list_embedded()
    path = _write(name, text)
    output.emit(
        {"name": name, "path": str(path), "gone": embedded},
        render=lambda _: output.wrap_prose(
            f"Created {sanitize.line(str(path))}. Edit it, then run `moot chat {name}`.", sys.stdout
        ),
    )
    _note_hidden_agents(embedded)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@output.json_option
def keep(names: tuple[str, ...]) -> None:
    """Keep the example agents NAME, or all of them, as agents of your own.

    They are hidden as soon as you have an agent of your own. Their files are copied to your agents folder, where you
    can change them.
    """
    if unknown := sorted(set(names) - set(EMBEDDED_NAMES)):
        raise NotFound(
            f"there is no example {unknown[0]!r}",
            fix=f"The examples are {', '.join(EMBEDDED_NAMES)}; name some of them.",
        )
    folder = find_agents_folder(_load_config(), find_paths())
    wanted = [name for name in names or EMBEDDED_NAMES if names or not (folder / name / FILE_NAME).exists()]
    kept = {name: str(_write(name, read_example(name))) for name in wanted}

    def render(_: Any) -> str:
        text = f"Kept {', '.join(kept)} in {folder}." if kept else "You have all of them."
        return output.wrap_prose(sanitize.line(text), sys.stdout)

    output.emit({"kept": kept}, render=render)


@click.command()
@click.argument("path", nargs=-1, shell_complete=complete_files)
@output.json_option
def validate(path: tuple[str, ...]) -> int:
    """Check agent files: each PATH (file, folder or agent name), or all of yours. Exits with 78 if one is broken."""
    config = _load_config()
    folder = find_agents_folder(config, find_paths())
    found = [file for each in path for file in _find_files(each, folder)] or (
        [] if path else _list_agent_files(folder, find_foreign_folders(config))
    )
    results = [_check_file(file, config.models) for file in found]
    flaws = [each.flaw for each in results if each.flaw]
    shape = [
        {
            "path": each.path,
            "name": each.name,
            "ok": not each.flaw,
            "flaw": each.flaw or None,
            "warnings": each.warnings,
        }
        for each in results
    ]
    broken = ConfigError("\n".join(flaws), fix="Correct that line and validate again.") if flaws else None

    def render(_: Any) -> str:
        lines = [line for each in results for line in each.lines()]
        return "\n".join(lines) or f"There are no agent files in {sanitize.line(str(folder))}."

    output.emit(shape, render=render, error=broken)
    return int(exits.exit_for_error(broken)) if broken else 0


@click.command("import")
@click.argument("path", shell_complete=complete_files)
@click.option("--name", default="", help="Name of the imported agent.")
@output.json_option
def import_(path: str, name: str) -> None:
    """Import an agent file of another program (.claude/agents, .opencode/agent) as an AGENT.md.

    The file is not changed. Tool names are mapped to Moot's; tools without a counterpart are reported and left out.
    """
    file = Path(path).expanduser()
    try:
        adopted = foreign.read_foreign(file, within=file.parent, models=_load_config().models)
    except Broken as broken:
        fix = "Correct the file, or create an agent with `moot agents new`."
        raise ConfigError(str(FileProblem(path=path, line=broken.line, reason=broken.reason)), fix=fix) from broken
    agent = replace(adopted.agent, name=name or adopted.agent.name)
    if reason := check_name(agent.name):
        raise BadRequest(reason, fix="Give it another name with --name.")
    embedded = _list_embedded()
    target = _write(agent.name, render_agent(agent))
    became = {name: list(tools) for name, tools in adopted.became}
    data = {
        "name": agent.name,
        "path": str(target),
        "from": str(file),
        "tools": list(agent.prefixes or ()),
        "denied": list(agent.denied),
        "became": became,
        "left_out": list(adopted.left_out),
        "gone": embedded,
    }
    output.emit(data, render=lambda _: _render_imported(data))
    _note_hidden_agents(embedded)


def _render_imported(data: dict[str, Any]) -> str:
    lines = [f"Imported {data['name']} as {data['path']}."]
    if data["became"]:
        lines += [f"{name} became {', '.join(tools)}." for name, tools in data["became"].items()]
    else:
        lines.append(f"It may use: {', '.join(data['tools']) or 'no tools'}.")
    lines += [f"It may not use: {', '.join(data['denied'])}."] if data["denied"] else []
    lines += [f"Left out: {', '.join(data['left_out'])}."] if data["left_out"] else []
    first, *rest = map(sanitize.line, lines)
    return "\n".join([first, *(output.wrap_prose(f"  {line}", sys.stdout, indent="    ") for line in rest)])


def _list_embedded() -> list[str]:
    """The embedded agents, which are available only while the user has no agents."""
    config = _load_config()
    registry = Registry(find_agents_folder(config, find_paths()), foreign_folders=find_foreign_folders(config))
    return [agent.name for agent in registry.all() if agent.source is AgentSource.EMBEDDED]


def _note_hidden_agents(names: Sequence[str]) -> None:
    if names and not output.wants_json():
        text = f"Now that you have an agent of your own, the examples {', '.join(names)} are hidden."
        output.print_note(output.wrap_prose(f"{text} Keep them: moot agents keep"))


def _write(name: str, text: str) -> Path:
    """Write a new AGENT.md. Never overwrites an existing file."""
    try:
        parse_agent(text)
    except Broken as broken:
        raise BadRequest(broken.reason, fix="Remove the control characters.") from broken
    path = find_agents_folder(_load_config(), find_paths()) / name / FILE_NAME
    make_folder(path.parent)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Conflict(f"there is already an agent at {path}", fix="Edit that file, or choose another name.") from error
    return path


def _load_config() -> Config:
    return load_config(find_paths().config)[0]


def _quote_yaml(line: str) -> str:
    """Quote a line of text for YAML."""
    return "'" + line.replace("'", "''") + "'"


def _find_files(written: str, folder: Path) -> list[Path]:
    path = Path(written).expanduser()
    if not path.exists() and os.sep not in written:
        path = folder / written
    if not os.path.lexists(path):
        raise NotFound(f"there is no {written}", fix="Give the path of an agent's file or folder, or an agent's name.")
    if not path.is_dir():
        return [path]
    own = path / FILE_NAME
    return [own] if own.exists() else _list_agent_files(path, [path])


def _list_agent_files(folder: Path, others: Iterable[Path]) -> list[Path]:
    own = sorted(folder.glob(f"*/{FILE_NAME}"))
    return own + [file for other in others for file in sorted(other.glob(f"*{foreign.SUFFIX}"))]


class _CheckedFile(Struct, frozen=True, kw_only=True):
    """The result of checking one file: the agent's name or the error, and warnings."""

    path: str
    name: str = ""
    flaw: str = ""
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The result as lines for a terminal."""
        first = f"bad   {sanitize.line(self.flaw)}" if self.flaw else f"good  {sanitize.name(self.path)}"
        return [first, *(f"warn  {sanitize.line(warning)}" for warning in self.warnings)]


def _check_file(path: Path, models: Collection[str]) -> _CheckedFile:
    try:
        if path.name == FILE_NAME:
            agent = read_agent(path, within=path.parent)
        else:
            agent = foreign.read_foreign(path, within=path.parent, models=models).agent
        if agent.model and agent.model not in models:
            line = split(read_text(path, path.parent)).fields.line("model")
            raise Broken(line, f"there is no model {agent.model!r}; there are {', '.join(sorted(models))}")
    except Broken as broken:
        flaw = FileProblem(path=str(path), line=broken.line, reason=broken.reason)
        return _CheckedFile(path=str(path), flaw=str(flaw))
    return _CheckedFile(path=str(path), name=agent.name, warnings=list(map(str, agent.warnings)))
