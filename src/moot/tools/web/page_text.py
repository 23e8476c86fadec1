"""Renders a tree of HTML nodes as text or Markdown, without recursion. Used by `readable`."""

import re
from collections.abc import Callable
from typing import Any

_BLOCKS = frozenset(
    {
        "p", "div", "section", "article", "main", "header", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "dt",
        "dd", "table", "tr", "blockquote", "pre", "figure", "figcaption", "address", "details", "summary", "hr", "body",
    }
)  # fmt: skip
_LINES = ("tr", "dt", "dd")
_LISTS = ("ul", "ol")
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*"}
_SPACES = re.compile(r"[ \t\r\n\f\xa0]+")
_DEEPEST_LIST = 8


class PageText:
    """Renders one page. `link` makes a link target absolute, or empty if it is not a page."""

    def __init__(self, *, markdown: bool, link: Callable[[str], str], limit: int) -> None:
        self._markdown = markdown
        self._link = link
        self._limit = limit
        self._pieces: list[str] = []
        self._written = 0
        self._lists: list[int] = []  # current number of each open ordered list; 0 for a bulleted list
        self._pre = 0
        self._cells = 0

    def render(self, root: Any) -> str:
        stack: list[tuple[Any, bool]] = [(root, True)]
        while stack and self._written < self._limit:
            node, entering = stack.pop()
            if not entering:
                self._leave(node)
                continue
            if node.is_text_node:
                self._text(node.text_content or "")
                continue
            if not node.is_element_node:
                continue
            self._enter(node)
            stack.append((node, False))
            child = node.last_child
            while child is not None:
                stack.append((child, True))
                child = child.prev
        return _collapse_blank_lines("".join(self._pieces))[: self._limit]

    def _write(self, text: str) -> None:
        self._pieces.append(text)
        self._written += len(text)

    def _text(self, text: str) -> None:
        if self._pre:
            self._write(text)
            return
        text = _SPACES.sub(" ", text)
        if text == " " and (not self._pieces or self._pieces[-1].endswith((" ", "\n"))):
            return
        self._write(text)

    def _enter(self, node: Any) -> None:
        tag = node.tag
        if tag in _BLOCKS:
            self._write(self._gap(tag))
        if tag in _LISTS:
            self._lists.append(1 if tag == "ol" else 0)
        elif tag == "br":
            self._write("\n")
        elif tag == "li":
            self._item()
        elif tag == "pre":
            self._pre += 1
            self._write("```\n" if self._markdown else "")
        elif tag in ("tr", "td", "th"):
            self._cell(tag)
        elif self._markdown:
            self._open_mark(node, tag)

    def _leave(self, node: Any) -> None:
        tag = node.tag
        if tag in _LISTS:
            self._lists.pop()
        elif tag == "pre":
            self._pre -= 1
            self._write("\n```" if self._markdown else "")
        elif self._markdown:
            self._close_mark(node, tag)
        if tag in _BLOCKS and tag not in _LINES:
            self._write(self._gap(tag))

    def _gap(self, tag: str) -> str:
        """The separator between a block and its neighbours: rows have no blank line, nested lists start with their
        item.
        """
        if tag in _LISTS and self._lists:
            return ""
        return "\n" if tag in _LINES else "\n\n"

    def _cell(self, tag: str) -> None:
        if tag == "tr":
            self._cells = 0
            return
        self._write(" | " if self._cells else "")
        self._cells += 1

    def _item(self) -> None:
        depth = min(max(len(self._lists) - 1, 0), _DEEPEST_LIST)
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        self._write("\n" + "  " * depth + (f"{number}. " if number else "- "))

    def _open_mark(self, node: Any, tag: str) -> None:
        if tag in _HEADINGS:
            self._write(_HEADINGS[tag])
        elif tag in _MARKS:
            self._write(_MARKS[tag])
        elif tag == "code" and not self._pre:
            self._write("`")
        elif tag == "blockquote":
            self._write("> ")
        elif tag == "hr":
            self._write("---")
        elif tag == "a" and self._link(node.attributes.get("href") or ""):
            self._write("[")
        elif tag == "img" and (description := (node.attributes.get("alt") or "").strip()):
            self._write(f"(picture: {description[:200]})")

    def _close_mark(self, node: Any, tag: str) -> None:
        if tag in _MARKS:
            self._write(_MARKS[tag])
        elif tag == "code" and not self._pre:
            self._write("`")
        elif tag == "a" and (target := self._link(node.attributes.get("href") or "")):
            self._write(f"]({target})")


def _collapse_blank_lines(text: str) -> str:
    """Remove trailing spaces and repeated blank lines."""
    lines = [line.rstrip() for line in text.split("\n")]
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept).strip()
