"""Parses a typed message into its guest and content, and writes one as it would be typed. Pure."""

import re
from uuid import uuid4

from msgspec import Struct, field

_MENTION = re.compile(r"@([\w][\w.-]*)[ \t\n]+(.*)", re.DOTALL)


class Outgoing(Struct, frozen=True, kw_only=True):
    """`typed` is what the person wrote and sees; `content` is what the agents read."""

    typed: str
    content: str
    guest: str = ""
    # The same id on a second try makes it the same turn.
    id: str = field(default_factory=lambda: f"chat-{uuid4().hex}")


def parse_outgoing(typed: str, *, primary: str, guest: str = "") -> Outgoing:
    """Read `@name words` as words for that agent; the primary's own name, or no name, is nobody's guest."""
    mention = _MENTION.fullmatch(typed.strip())
    if mention is None:
        return Outgoing(typed=typed, content=typed, guest=guest)
    name = mention[1]
    return Outgoing(typed=typed, content=mention[2], guest="" if name == primary else name)


def format_typed(content: str, *, speaker: str, primary: str, guest: str = "") -> str:
    """What a person types so that the content is put to the speaker; `guest` answers where nobody is named."""
    outgoing = parse_outgoing(content, primary=primary, guest=guest)
    is_same = (outgoing.content, outgoing.guest or primary) == (content, speaker)
    return content if is_same else f"@{speaker} {content}"
