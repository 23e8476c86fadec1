"""`moot help`: shows the pages of the documentation in the terminal."""

import sys
from pathlib import Path

import click

from moot.cli import output
from moot.cli.render import terminal
from moot.domain.errors import NotFound
from moot.domain.near_names import suggest_name

_PACKAGE = Path(__file__).parents[2]


def _complete_topics(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [name for name in _find_pages() if name.startswith(incomplete)]
    except NotFound:
        return []


@click.command("help")
@click.argument("topic", default="", shell_complete=_complete_topics)
@output.json_option
def help_(topic: str) -> None:
    """Show the page TOPIC of the documentation, or list the topics. `moot COMMAND --help` describes a command."""
    pages = _find_pages()
    if not topic:
        rows = [[name, _read_title(path)] for name, path in pages.items()]
        data = [{"topic": name, "title": title} for name, title in rows]
        output.emit(data, render=lambda _: terminal.render_table(["TOPIC", "TITLE"], rows))
        return
    path = pages.get(topic.lower())
    if path is None:
        fix = f"{suggest_name(topic, pages)}`moot help` lists the topics."
        if _is_command(topic):
            fix = f"It is a command: `moot {topic} --help` describes it. `moot help` lists the topics."
        raise NotFound(f"there is no page called {topic!r}", fix=fix)
    text = path.read_text(encoding="utf-8")
    if output.wants_json() or not sys.stdout.isatty():
        output.emit({"topic": path.stem, "text": text}, render=lambda _: text)
    else:
        click.echo_via_pager(text)


def _is_command(name: str) -> bool:
    root = click.get_current_context().find_root()
    return isinstance(root.command, click.Group) and name in root.command.list_commands(root)


def _find_pages() -> dict[str, Path]:
    """The pages by name: beside the package in an installation, in `docs` of a checkout."""
    folders = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")
    folder = next((each for each in folders if (each / "quickstart.md").is_file()), None)
    if folder is None:
        raise NotFound("the documentation is not part of this installation", fix="Install Moot again.")
    return {path.stem: path for path in sorted(folder.glob("*.md")) if path.stem != "README"}


def _read_title(path: Path) -> str:
    with path.open(encoding="utf-8") as page:
        return page.readline().lstrip("# ").strip()
