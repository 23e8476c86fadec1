"""`moot help`: shows the pages of the documentation in the terminal."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from moot.cli import output
from moot.cli.program import hint
from moot.cli.render import terminal
from moot.domain.errors import NotFound
from moot.domain.near_names import suggest_name

_PACKAGE = Path(__file__).parents[2]


_HEADING = re.compile(r"(#{2,4}) (.+)")
_PAGE_LINK = re.compile(r"\[([^\]\n]+)\]\((?![a-z]+:)[^)\s]*\)")
_LEAD = re.compile(r"\*\*([^*]+?)\.?\*\*")


def _complete_topics(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [name for name in _find_pages() if name.startswith(incomplete)]
    except NotFound:
        return []


@click.command("help")
@click.argument("topic", default="", shell_complete=_complete_topics)
@output.json_option
def help_(topic: str) -> None:
    """Show the page or section TOPIC of the documentation, or list the pages.

    `moot COMMAND --help` describes a command.
    """
    pages = _find_pages()
    if not topic:
        rows = [[name, _read_title(path)] for name, path in pages.items()]
        data = [{"topic": name, "title": title} for name, title in rows]
        output.emit(data, render=lambda _: terminal.render_table(["TOPIC", "TITLE"], rows))
        return
    path = pages.get(topic.lower())
    text = path.read_text(encoding="utf-8") if path is not None else _find_sections(topic, pages)
    if not text:
        fix = f"{suggest_name(topic, pages)}`moot help` lists the topics."
        if _is_command(topic):
            fix = f"It is a command: `moot {topic} --help` describes it. `moot help` lists the topics."
        raise NotFound(f"there is no page called {topic!r}", fix=fix)
    if output.wants_json() or not sys.stdout.isatty():
        output.emit({"topic": topic.lower(), "text": text}, render=lambda _: text)
    else:
        click.echo_via_pager(_render(text))


def _render(text: str) -> str:
    from moot.cli.markdown.page import render_page  # noqa: PLC0415 - only a terminal needs it

    # A reader cannot follow a link to a file; its text is the topic, or next to it.
    plain = _PAGE_LINK.sub(r"\1", text)
    return render_page(plain, terminal.row_width(sys.stdout), colours=terminal.has_colours(sys.stdout))


def _find_sections(topic: str, pages: Mapping[str, Path]) -> str:
    """Return the sections of all pages that are called TOPIC, each with its page; empty if there are none."""
    if _is_command(topic):
        # The section would be that of the list of commands, which --help shows.
        pages = {name: path for name, path in pages.items() if name != "cli"}
    wanted, found = _fold_heading(topic), []
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        source = hint(f"(from the page {name}: `moot help {name}`)")
        found += [f"{part.rstrip()}\n\n{source}\n" for part in (*_cut(text, wanted), *_find_paragraphs(text, wanted))]
    return "\n".join(found)


def _cut(text: str, wanted: str) -> Iterator[str]:
    """Yield the sections with this heading, each up to the next heading of the same level or above."""
    lines = text.splitlines()
    heads = [(number, found) for number, line in enumerate(lines) if (found := _HEADING.fullmatch(line))]
    for at, (start, head) in enumerate(heads):
        if _fold_heading(head[2]) == wanted:
            ends = (number for number, other in heads[at + 1 :] if len(other[1]) <= len(head[1]))
            yield "\n".join(lines[start : next(ends, None)])


def _find_paragraphs(text: str, wanted: str) -> list[str]:
    """Return the paragraphs that begin with these words in bold."""
    paragraphs = ((_LEAD.match(each), each) for each in text.split("\n\n"))
    return [each for lead, each in paragraphs if lead and _fold_heading(lead[1]) == wanted]


def _fold_heading(text: str) -> str:
    """Return a heading for comparing: without case, marks and the ending of a plural."""
    return text.casefold().replace("`", "").replace("-", " ").strip().removesuffix("s")


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
