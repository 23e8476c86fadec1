"""LostMail: mail that nobody will read, as its sender and its receiver are told of it. Pure.

Derived by store/lost_mail.py from mail that was evicted or given back; shown by engine/injection.py. What is told is
no mail: it takes no place in a mailbox, evicts nothing, and starts no run.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from moot.domain.bridge import DAEMON, is_bridge
from moot.domain.mail import INBOX_CAPACITY, Mail
from moot.domain.senders import is_reserved

# How much lost mail of a conversation is looked at: the newest.
MOST_LOST = 256
# How much of a message is repeated to its sender, and of how many messages.
EXCERPT_CHARS = 200
_MOST_DESCRIBED = 10
_MOST_NAMES = 5
_LINE_CHARS = 80

# In the table of deliveries, before the id of a mail: its sender or its receiver was told that it is lost.
TOLD_SENDER, TOLD_RECEIVER = "told-sender:", "told-receiver:"

_TOO_MANY = "it had too many unread messages"
_ENDED_OR_TOO_MANY = "its run has ended, or it had too many unread messages"


class LostMail(Struct, frozen=True, kw_only=True):
    """A mail that was evicted or given back, and of which its sender or its receiver was not told."""

    mail_id: str
    # Whether the one to be told has sent it.
    is_sent: bool
    # The agent that has sent it or was to receive it: the other one.
    agent: str
    # The goal it was for.
    goal_id: str
    sent_at: float
    lost_at: float
    reason: str
    # The beginning of its text, for its sender.
    excerpt: str = ""
    taint: frozenset[str] = frozenset()

    @property
    def told_id(self) -> str:
        """The id of the delivery that tells of it."""
        return (TOLD_SENDER if self.is_sent else TOLD_RECEIVER) + self.mail_id


def make_missed(mail: Mail, evicted_at: float) -> LostMail:
    """Return what the receiver is told of an evicted mail."""
    return LostMail(
        mail_id=mail.id,
        is_sent=False,
        agent=mail.from_agent,
        goal_id=mail.goal_id,
        sent_at=mail.sent_at,
        lost_at=evicted_at,
        reason="",
    )


def make_evicted(mail: Mail, receiver: str, evicted_at: float) -> LostMail:
    """Return what the sender is told of a mail that was evicted here; `receiver` is the sender of its conversation."""
    return _make_sent(mail, explain_eviction(receiver), evicted_at)


def explain_eviction(receiver: str) -> str:
    """Return why a mail was evicted; `receiver` is the sender of the conversation that it was for."""
    return _ENDED_OR_TOO_MANY if is_reserved(receiver) else _TOO_MANY


def make_returned(mail: Mail, reason: str, failed_at: float) -> LostMail | None:
    """Return what is told of a mail that another daemon gave back; None for a bridge message, which gets an answer."""
    return None if is_bridge(mail.body) else _make_sent(mail, reason, failed_at)


def _make_sent(mail: Mail, reason: str, lost_at: float) -> LostMail:
    return LostMail(
        mail_id=mail.id,
        is_sent=True,
        agent=mail.to_agent,
        goal_id=mail.goal_id,
        sent_at=mail.sent_at,
        lost_at=lost_at,
        reason=reason,
        excerpt=mail.body[:EXCERPT_CHARS],
        taint=mail.taint,
    )


def describe_lost(lost: Sequence[LostMail]) -> list[Mail]:
    """Return what an agent is shown of lost mail, as messages of the daemon: of what it sent, and of what it missed."""
    sent = [each for each in lost if each.is_sent]
    missed = [each for each in lost if not each.is_sent]
    described = [_make_message(missed, _describe_missed(missed))] if missed else []
    return described + ([_make_message(sent, _describe_sent(sent))] if sent else [])


def _make_message(lost: Sequence[LostMail], body: str) -> Mail:
    taint = frozenset[str]().union(*(each.taint for each in lost))
    return Mail(
        id="",
        goal_id="",
        from_agent=DAEMON,
        from_goal="",
        to_agent="",
        body=body,
        sent_at=max(each.lost_at for each in lost),
        taint=taint,
    )


def _describe_missed(lost: Sequence[LostMail]) -> str:
    # The names of others are not certain, or are texts of persons.
    names = sorted({each.agent for each in lost if each.agent and " " not in each.agent and each.agent[0] != "@"})
    more = ", …" if len(names) > _MOST_NAMES else ""
    by = f" (from {', '.join(names[:_MOST_NAMES])}{more})" if names else ""
    messages = "1 message for you was" if len(lost) == 1 else f"{_count(lost)} messages for you were"
    return (
        f"{messages} evicted unread{by}: more than {INBOX_CAPACITY} were waiting, or your run had ended. The owner can"
        " list them with `moot peers dead` and deliver them again with `moot peers resend`."
    )


def _describe_sent(lost: Sequence[LostMail]) -> str:
    first = "1 message from you was" if len(lost) == 1 else f"{_count(lost)} messages from you were"
    lines = [f"{first} not read. Send again what still matters.", *map(_describe_one, lost[:_MOST_DESCRIBED])]
    if len(lost) > _MOST_DESCRIBED:
        lines.append(f"- and {len(lost) - _MOST_DESCRIBED} more; the owner can list them with `moot peers dead`")
    return "\n".join(lines)


def _describe_one(lost: LostMail) -> str:
    sent_at = datetime.fromtimestamp(lost.sent_at, UTC).isoformat(timespec="seconds")
    line = " ".join(lost.excerpt.split())
    excerpt = line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"
    return f'- to {lost.agent} (goal {lost.goal_id}), sent {sent_at}, "{excerpt}": {lost.reason}'


def _count(lost: Sequence[LostMail]) -> str:
    return f"{len(lost)} or more" if len(lost) >= MOST_LOST else str(len(lost))
