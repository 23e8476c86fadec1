"""Extracts the text of HTML files as Markdown, and from which line of the file each line of it is."""

from moot.retrieval.reading.pieces import Section
from moot.tools.web.readable import extract_readable

# How far behind the line before a line is looked for, and by how many of its characters.
_WINDOW = 20_000
_PROBE = 24
_MARKS = "#*->`|0123456789. \t"


def extract_html(html: str) -> tuple[str, list[Section]]:
    page = extract_readable(html, url="", mode="markdown")
    return page.title, [Section(text=page.content, origins=_find_origins(page.content, html))]


def _find_origins(text: str, html: str) -> tuple[int, ...]:
    """Return the line of each line of the text; that of the line before where it is not found."""
    found: list[int] = []
    at, line = 0, 1
    for each in text.split("\n"):
        probe = each.strip(_MARKS)[:_PROBE].split("[")[0].split("*")[0].rstrip()
        place = html.find(probe, at, at + _WINDOW) if probe else -1
        if place >= 0:
            line += html.count("\n", at, place)
            at = place
        found.append(line)
    return tuple(found)
