"""Parses a typed message into guest and content with paths, and formats one as it would be typed. Pure."""

import re
from collections.abc import Callable, Container
from uuid import uuid4

from msgspec import Struct, field

_PATH = re.compile(r'(?:^|(?<=\s))@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))')
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


def parse_outgoing(
    typed: str,
    *,
    primary: str,
    guest: str = "",
    steer: bool = False,
    agents: Container[str] = (),
    is_path: Callable[[str], bool] = lambda _: False,
) -> Outgoing:
    """Parse `@name text` as a message to that guest; the primary's name, or none, means no guest.

    `@path` of something that exists stands for the path itself, also at the start if no agent has that name.
    """
    mention = _MENTION.fullmatch(typed.strip())
    if mention is not None and (mention[1] in agents or not is_path(mention[1])):
        name, content = mention[1], mention[2]
        guest = "" if name == primary else name
    else:
        content = typed
    return Outgoing(typed=typed, content=_name_paths(content, is_path), guest=guest, steer=steer)


def _name_paths(content: str, is_path: Callable[[str], bool]) -> str:
    """Replace each `@path` by the path, which the agent's file tools take."""

    def name(found: re.Match[str]) -> str:
        path = found["quoted"] or found["plain"]
        if is_path(path):
            return f'"{path}"' if found["quoted"] else path
        # A sentence may end after it.
        bare = path.rstrip(".,;:!?)")
        return bare + path[len(bare) :] if bare and not found["quoted"] and is_path(bare) else found[0]

    return _PATH.sub(name, content)


def quote_path(path: str) -> str:
    """A path as it is typed after @."""
    return f'"{path}"' if " " in path else path


def format_typed(content: str, *, speaker: str, primary: str, guest: str = "") -> str:
    """The input that would send this content to the speaker; `guest` answers if none is named."""
    outgoing = parse_outgoing(content, primary=primary, guest=guest)
    is_same = (outgoing.content, outgoing.guest or primary) == (content, speaker)
    return content if is_same else f"@{speaker} {content}"
