"""Chooses how the text of agents is shown: as Markdown, or unchanged. Used by the chat and follow/markdown_answer."""

import os
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from moot.cli.markdown.markdown_text import MarkdownText
from moot.cli.markdown.plain_text import PlainText
from moot.cli.markdown.styles import Line

_LINK_TERMINALS = ("iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "rio", "Tabby")
_LINK_TERMS = ("xterm-kitty", "alacritty", "foot", "xterm-ghostty", "contour", "wezterm")
# The first version of the library behind GNOME Terminal and others that shows links.
_VTE_VERSION = 5000


class MessageText(Protocol):
    """The text of one message while it arrives."""

    def feed(self, text: str) -> list[Line]: ...
    def finish(self) -> list[Line]: ...
    def tail(self) -> list[Line]: ...


class TextFormat(Struct, frozen=True):
    """The window's width in columns, and what the terminal can show."""

    width: Callable[[], int] = lambda: 100
    markdown: bool = False
    links: bool = False
    # Whether text that an assistant does not send is shown.
    shows_private: Callable[[], bool] = lambda: False

    def open_message(self, lead: int) -> MessageText:
        """Begin a message whose first row has `lead` columns before its text."""
        if self.markdown:
            return MarkdownText(self.width, lead, links=self.links)
        return PlainText(self.width, lead)


def has_links(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal is known to show OSC 8 links; FORCE_HYPERLINK=1 or 0 overrides it."""
    forced = environment.get("FORCE_HYPERLINK", "")
    if forced:
        return forced != "0"
    if environment.get("TMUX") or environment.get("STY"):
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in _LINK_TERMINALS
        or environment.get("TERM") in _LINK_TERMS
        or bool(environment.get("WT_SESSION") or environment.get("KONSOLE_VERSION") or environment.get("DOMTERM"))
        or (vte.isdecimal() and int(vte) >= _VTE_VERSION)
    )
