"""Extracts the main content of a web page as text, Markdown or plain HTML. Called by `page_reader` in its child
process.
"""

import re
from typing import Any
from urllib.parse import urljoin

from msgspec import Struct

from moot.domain.errors import Unavailable
from moot.tools.web.page_text import PageText
from moot.tools.web.result_page import extract_results

TITLE_LENGTH = 300
# More than a tool result can hold; the rest of a page is not rendered.
MAX_TEXT = 1_000_000

_NOISE = (
    "script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed", "audio", "video", "form",
    "button", "select", "input", "textarea", "nav", "aside", "footer", "dialog", "link", "meta",
)  # fmt: skip
# Hidden text is left out: it is a common way to inject instructions.
_UNSEEN = (
    "[hidden]", '[aria-hidden="true"]', '[style*="display:none"]', '[style*="display: none"]',
    '[style*="visibility:hidden"]', '[style*="visibility: hidden"]', '[style*="font-size:0"]', '[style*="opacity:0"]',
    '[role="navigation"]', '[role="banner"]', '[role="contentinfo"]', '[role="complementary"]', '[role="search"]',
    '[role="dialog"]',
)  # fmt: skip
_MAIN = ("article", "main", '[role="main"]')
_ENOUGH = 200
_PARAGRAPHS = "p, pre, blockquote, td, li"
_MAX_PARAGRAPHS = 20_000

_META_CHARSET = re.compile(rb"<meta[^>]{0,256}charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# The web's encodings only: some of Python's others can be made to take very long.
_ENCODING = re.compile(
    r"utf-?8|utf-?16(-?[lb]e)?|us-ascii|ascii|latin-?1|iso-?8859-?\d{1,2}|windows-?\d{3,4}|cp125\d|koi8-?[ru]"
    r"|gbk|gb2312|gb18030|big5|euc-?jp|iso-2022-jp|shift[-_]?jis|euc-?kr|ibm866|macintosh"
)


class Readable(Struct, frozen=True, kw_only=True):
    title: str
    content: str


def extract_readable(html: str, *, url: str, mode: str) -> Readable:
    """Return the title and content of a page; `mode` is text, markdown, html, or results (a search result page).

    A hostile page can make this run for hours, so it is only called in the child process of page_reader.py.
    """
    tree = _parse(html)
    title = _find_title(tree)
    if mode == "results":
        return Readable(title=title, content=extract_results(tree))
    tree.strip_tags(list(_NOISE), recursive=True)
    for selector in _UNSEEN:
        for node in tree.css(selector):
            if node.tag not in ("html", "body"):
                node.decompose()
    main = _find_main(tree)
    if main is None:
        return Readable(title=title, content="")
    if mode == "html":
        return Readable(title=title, content=_plain_html(main)[:MAX_TEXT])
    text = PageText(markdown=mode == "markdown", link=lambda target: _absolute_link(url, target), limit=MAX_TEXT)
    return Readable(title=title, content=text.render(main))


def decode(body: bytes, *, charset: str = "") -> str:
    """Decode a body by its byte order mark, its header, the page's own declaration, or as UTF-8."""
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    declared = _META_CHARSET.search(body, 0, 4096)
    for name in (charset, declared[1].decode() if declared else ""):
        encoding = name.strip().lower()
        if _ENCODING.fullmatch(encoding):
            # On the web, Latin-1 means Windows-1252.
            encoding = "cp1252" if encoding in ("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii") else encoding
            try:
                return body.decode(encoding, "replace")
            except LookupError:
                continue
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        # A truncated body may end inside a character.
        return body.decode("utf-8" if error.start > len(body) - 4 else "cp1252", "replace")


def _parse(html: str) -> Any:
    try:
        from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415  an extra
    except ImportError as error:
        raise Unavailable("reading web pages needs an optional package", fix="Run: pip install 'moot[web]'") from error
    return LexborHTMLParser(html)


def _find_title(tree: Any) -> str:
    for selector in ("title", "h1"):
        node = tree.css_first(selector)
        if node is not None and (text := " ".join(node.text().split())):
            return text[:TITLE_LENGTH]
    return ""


def _find_main(tree: Any) -> Any:
    """The node with the main content, or the whole body."""
    body = tree.body
    if body is None:
        return tree.root
    whole = _text_length(body)
    for selector in _MAIN:
        found = tree.css(selector)
        # A single article is the main content; several are a list.
        if len(found) == 1 and _text_length(found[0]) >= min(_ENOUGH, whole / 2):
            return found[0]
    best = _find_densest(tree)
    return best if best is not None and _text_length(best) >= whole / 3 else body


def _find_densest(tree: Any) -> Any:
    """The node whose paragraphs have the most text, not counting links."""
    scores: dict[int, float] = {}
    nodes: dict[int, Any] = {}
    for paragraph in tree.css(_PARAGRAPHS)[:_MAX_PARAGRAPHS]:
        text = paragraph.text()
        if len(text) < 25:
            continue
        linked = sum(len(link.text()) for link in paragraph.css("a"))
        points = (1 + text.count(",") + min(len(text) / 100, 3)) * (1 - min(linked / len(text), 1))
        holder = paragraph.parent
        for share in (1.0, 0.5):
            if holder is None or holder.tag in ("html", "-undef"):
                break
            nodes[holder.mem_id] = holder
            scores[holder.mem_id] = scores.get(holder.mem_id, 0.0) + points * share
            holder = holder.parent
    if not scores:
        return None
    return nodes[max(scores, key=lambda key: scores[key])]


def _plain_html(main: Any) -> str:
    for node in main.css("*"):
        for name in [name for name in node.attributes if name not in ("href", "src", "alt", "title", "colspan")]:
            del node.attrs[name]
    return main.html or ""


def _absolute_link(url: str, target: str) -> str:
    """The absolute link target, or empty if it is not a page."""
    try:
        found = urljoin(url, target.strip())
    except ValueError:
        return ""
    return found if found.startswith(("http://", "https://")) and len(found) <= 2048 else ""


def _text_length(node: Any) -> int:
    return len(node.text())
