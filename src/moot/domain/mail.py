"""Mail between agents: a stored message, and the text a receiver reads. Pure.

Stored by store/mail.py, sent by multiagent/peers/, shown by engine/loop.py.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape, unescape
from uuid import UUID

from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.domain.ids import read_milliseconds
from moot.domain.text import clean, defuse
from moot.domain.uuid_text import hash_to_ordered_uuid, hash_to_uuid

MIN_BODY_CHARS = 1
MAX_BODY_BYTES = 64 * 1024
# How many unread messages a goal keeps; one more evicts the oldest.
INBOX_CAPACITY = 64
# The author of a history entry that contains mail. No agent can have this name.
MAIL_AUTHOR = "@peers"
# The source of the taint of mail whose sender is not known.
UNVERIFIED_TAINT = "unverified mail"

_TITLE = "# PEER MESSAGES\n\n"
_BLOCK = re.compile(
    r'<peer-message from="([^"<>]*+)" sent_at="([^"<>]*+)"(?: correlation_id="([^"<>]*+)")?>\n'
    r"([^<>]*+)</peer-message>\n"
)


class Mail(Struct, frozen=True, kw_only=True, gc=False):
    """A message for one goal, as it is stored. It is read once an entry of the goal's history shows it."""

    # Unique among all daemons: a message that arrives twice is stored once.
    id: str
    goal_id: str
    from_agent: str
    from_goal: str
    to_agent: str
    body: str
    sent_at: float
    correlation_id: str = ""
    # What caused it: the run of a person's turn, or what caused the mail that woke the sender. Wakes are counted by it.
    thread: str = ""
    # How many mails in a row led to this one, each sent by an agent that the previous one woke.
    hops: int = 0
    # The sources of untrusted text its sender had seen.
    taint: frozenset[str] = frozenset()


class DeadMail(Struct, frozen=True, kw_only=True):
    """A mail that was evicted unread, or that another daemon gave back."""

    mail: Mail
    evicted_at: float
    # Why another daemon gave it back.
    reason: str = ""


def make_mail_id(run_id: str, call_id: str, goal_id: str) -> str:
    """Return the id of the mail that a call sends to a goal. The same call, repeated, sends the same mail.

    It begins with the time of the run, if its id has one: an index of random ids would have a page written for each.
    """
    name, time = f"{run_id}/{call_id}/{goal_id}", read_milliseconds(run_id)
    return f"mail-{hash_to_uuid(name) if time is None else hash_to_ordered_uuid(time, name)}"


def check_body(body: str) -> None:
    """Raise BadRequest for a body that cannot be sent."""
    size = len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))
    if len(body) < MIN_BODY_CHARS:
        raise BadRequest("`message` is empty", fix="Write what the peer should know.")
    if size > MAX_BODY_BYTES:
        raise BadRequest(f"`message` is {size} bytes, max {MAX_BODY_BYTES}", fix="Send less, or a file's path.")


def parse_uuid(text: str) -> str | None:
    """Return the usual form of a UUID; None if the text is none."""
    try:
        return str(UUID(text)) if len(text) in (32, 36) else None
    except ValueError:
        return None


def render_mail(mails: Sequence[Mail]) -> str:
    """Return the text that shows these messages. Nothing in a body or a name can end its block or begin another."""
    return _TITLE + "".join(map(_render_block, mails))


def _render_block(mail: Mail) -> str:
    sent_at = datetime.fromtimestamp(mail.sent_at, UTC).isoformat()
    about = f' correlation_id="{_escape(mail.correlation_id)}"' if mail.correlation_id else ""
    body = _escape(mail.body)
    return f'<peer-message from="{_escape(mail.from_agent)}" sent_at="{sent_at}"{about}>\n{body}\n</peer-message>\n'


def _escape(text: str) -> str:
    # Escaping first leaves only brackets that look like those of a tag; they are defused where they would be one.
    return defuse(escape(clean(text)))


def join_taint(mails: Sequence[Mail]) -> frozenset[str]:
    return frozenset[str]().union(*(mail.taint for mail in mails))


def is_mail_text(text: str) -> bool:
    """Whether a text is exactly as `render_mail` writes it. An imported text may pretend to be."""
    if not text.startswith(_TITLE):
        return False
    at = len(_TITLE)
    while match := _BLOCK.match(text, at):
        *attributes, body = match.groups("")
        if not body.endswith("\n") or any(_escape(unescape(part)) != part for part in (*attributes, body)):
            return False
        at = match.end()
    return at == len(text) > len(_TITLE)


def list_mail_in(text: str) -> list[tuple[str, str]]:
    """Return sender and body of each message in a text made by `render_mail`."""
    return [(unescape(match[1]), unescape(match[4]).removesuffix("\n")) for match in _BLOCK.finditer(text)]


def describe_request(content: str, author: str) -> str:
    """Return what a run was asked, for a person: the content of its message, without the blocks of mail."""
    mails = list_mail_in(content) if author == MAIL_AUTHOR else []
    return "\n".join(f"mail from {sender}: {body}" for sender, body in mails) or content
