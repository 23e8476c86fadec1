"""Parses emphasis, code and links within a line with markdown-it, and breaks styled text into rows.

Used by markdown_text.py. No I/O.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from moot.cli.markdown.styles import ESCAPE, Line
from moot.cli.render import sanitize

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_INLINE_CODE = "class:inline-code"
_LINK = "underline"
# Everything that may be part of an escape sequence's address; a longer one is only shown.
_ADDRESS = re.compile(r"(?:https?://|mailto:)[!-~]{1,1500}", re.IGNORECASE)
# Characters of scripts that are written without spaces: a row may end after each.
_WIDE = "\u2e80-\u303f\u3040-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff01-\uff60"
_WORDS = re.compile(rf"\n| +|[{_WIDE}]|[^ \n{_WIDE}]+")
_UNJOINED = re.compile(rf"[ \n{_WIDE}]")


class Span(NamedTuple):
    """Text in one style; `address` is the target of the link it belongs to."""

    style: str
    text: str
    address: str = ""


@cache
def parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - imported when the first text arrives

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def parse_inline(text: str, *, links: bool) -> list[Span]:
    """Parse the text of one block. `links` says whether the terminal shows addresses of links itself."""
    (block,) = parser().parseInline(text)
    return read_tokens(block.children or [], links=links)


def read_tokens(tokens: Iterable["Token"], *, links: bool) -> list[Span]:
    """The styled text of the tokens of one block. A line break is a span `\\n`."""
    found: list[Span] = []
    styles: list[str] = []
    opened: list[tuple[str, int]] = []
    for token in tokens:
        kind, _, edge = token.type.rpartition("_")
        if token.type == "link_open":
            opened.append((str(token.attrs.get("href", "")), len(found)))
        elif token.type == "link_close" and opened:
            address, begin = opened.pop()
            found[begin:] = _link(found[begin:], address, links=links)
        elif edge == "open" and kind in _STYLES:
            styles.append(_STYLES[kind])
        elif edge == "close" and kind in _STYLES:
            styles.pop()
        else:
            found += _read_leaf(token, " ".join(styles), links=links)
    return found


def _read_leaf(token: "Token", style: str, *, links: bool) -> list[Span]:
    if token.type in ("softbreak", "hardbreak"):
        return [Span("", "\n")]
    if token.type == "image":
        label = Span(style, _flat(token.content) or "image")
        return _link([label], str(token.attrs.get("src", "")), links=links)
    code = _INLINE_CODE if token.type == "code_inline" else ""
    return [Span(f"{style} {code}".strip(), _flat(token.content))] if token.content else []


def _link(label: Sequence[Span], address: str, *, links: bool) -> list[Span]:
    """A link. Its text comes from a model and may name another place, so the place it leads to is always visible."""
    shown = "".join(span.text for span in label)
    is_allowed = _ADDRESS.fullmatch(address) is not None
    target = address if links and is_allowed else ""
    styled = [Span(f"{span.style} {_LINK}".strip(), span.text, target) for span in label]
    if shown.rstrip("/") == address.removeprefix("mailto:").rstrip("/"):
        return styled
    place = _place(address) if target else address
    return [*styled, Span("class:dim", f" ({_flat(place)})")] if place else styled


def _place(address: str) -> str:
    """Where a link leads, in short: the host as the terminal's browser will read it."""
    try:
        parts = urlsplit(address)
        return parts.hostname or parts.path
    except ValueError:
        return address


def _flat(text: str) -> str:
    """Sanitize what the parser returns: entities such as `&#10;` become characters."""
    return sanitize.clean(text).replace("\n", " ").expandtabs(4)


# ---- rows ----


def wrap_spans(spans: Sequence[Span], width: int, lead: int) -> list[list[Span]]:
    """Break at word boundaries into rows of `width` columns, the first with `lead` less."""
    rows: list[list[Span]] = [[]]
    used = lead
    gap: list[Span] = []
    for word in _split_words(spans):
        text = "".join(span.text for span in word)
        if text == "\n":
            rows.append([])
            used, gap = 0, []
            continue
        if text.isspace():
            gap = word if rows[-1] else []
            continue
        wide = sanitize.columns(text)
        room = sum(sanitize.columns(span.text) for span in gap)
        if rows[-1] and used + room + wide > width:
            rows.append([])
            used, gap, room = 0, [], 0
        rows[-1] += [*gap, *word]
        used += room + wide
        gap = []
    return rows


def _split_words(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Words, gaps and line ends. A word may consist of several styles."""
    word: list[Span] = []
    for span in spans:
        for piece in _WORDS.findall(span.text):
            part = span._replace(text=piece)
            if not _UNJOINED.match(piece):
                word.append(part)
                continue
            if word:
                yield word
                word = []
            yield [part]
    if word:
        yield word


def as_line(spans: Iterable[Span]) -> Line:
    """The spans of one row as a line, with the escape sequences of its links."""
    line: Line = []
    address = ""
    for span in spans:
        if span.address != address:
            line.append((ESCAPE, f"\x1b]8;;{span.address}\x1b\\"))
            address = span.address
        line.append((span.style, span.text))
    return [*line, (ESCAPE, "\x1b]8;;\x1b\\")] if address else line
