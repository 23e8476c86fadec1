"""Parses a typed message into guest and content, and formats one as it would be typed. Pure."""

import re
from uuid import uuid4

from msgspec import Struct, field

_MENTION = re.compile(r"@([\w][\w.-]*)[ \t\n]+(.*)", re.DOTALL)


class Outgoing(Struct, frozen=True, kw_only=True):
    """`typed` is the input as displayed; `content` is what the agents receive."""

    typed: str
    content: str
    guest: str = ""
    # Whether it is shown to the active run instead of being answered after it.
    steer: bool = False
    # Sending again with the same id does not start another turn.
    id: str = field(default_factory=lambda: f"chat-{uuid4().hex}")


def parse_outgoing(typed: str, *, primary: str, guest: str = "", steer: bool = False) -> Outgoing:
    """Parse `@name text` as a message to that guest; the primary's name, or none, means no guest."""
    mention = _MENTION.fullmatch(typed.strip())
    if mention is None:
        return Outgoing(typed=typed, content=typed, guest=guest, steer=steer)
    name = mention[1]
    return Outgoing(typed=typed, content=mention[2], guest="" if name == primary else name, steer=steer)


def format_typed(content: str, *, speaker: str, primary: str, guest: str = "") -> str:
    """The input that would send this content to the speaker; `guest` answers if none is named."""
    outgoing = parse_outgoing(content, primary=primary, guest=guest)
    is_same = (outgoing.content, outgoing.guest or primary) == (content, speaker)
    return content if is_same else f"@{speaker} {content}"
