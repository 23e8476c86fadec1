"""Mail on its way to other daemons, what arrived from them, and the daemons that are known. Pure.

Stored by store/outbox.py and store/known_daemons.py, sent and received by multiagent/peers/.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.errors import Conflict
from moot.domain.goal import read_goal_id
from moot.domain.inbox_message import NoticeState
from moot.domain.mail import Mail, make_mail_id
from moot.domain.uuid_text import hash_to_uuid

# How many mails that were given back are kept; one more removes the oldest.
MOST_FAILED = 1_000


class Position(Struct, frozen=True, order=True, gc=False):
    """The place of a message in the broker's stream. A broker that lost its data begins a stream with another id."""

    stream: str
    sequence: int


class OutboxItem(Struct, frozen=True, kw_only=True, gc=False):
    """A mail for a goal of another daemon, or a notice about a mail from there."""

    # In the order they were written; items for one goal are published in this order.
    number: int
    id: str
    # The mail itself, or the one that the notice is about.
    mail: Mail
    notice: NoticeState | None = None
    reason: str = ""
    # Where the broker has stored it; None if it was not published.
    position: Position | None = None

    @property
    def goal_id(self) -> str:
        return self.mail.goal_id if self.notice is None else self.mail.from_goal


class ReturnedMail(Struct, frozen=True, kw_only=True):
    """A mail that is not read, and why."""

    mail: Mail
    state: NoticeState
    reason: str


class Receipt(Struct, frozen=True, kw_only=True):
    """What arrived from the broker, to be stored in one transaction with the position up to which it was received."""

    position: Position
    mails: Sequence[Mail] = ()
    # Mail from other daemons that is given back.
    refused: Sequence[ReturnedMail] = ()
    # Mail of this store that other daemons gave back.
    returned: Sequence[ReturnedMail] = ()


class ReceiptResult(Struct, frozen=True, kw_only=True):
    """What of a receipt was new."""

    stored: Sequence[Mail] = ()
    evicted: Sequence[Mail] = ()
    refused: Sequence[ReturnedMail] = ()
    returned: Sequence[ReturnedMail] = ()


class KnownDaemon(Struct, frozen=True, kw_only=True):
    """Another daemon on the broker. Only what is signed with its key comes from it."""

    name: str
    # The public key, in base64.
    key: str
    # The number of its store, which is part of the ids of its goals.
    store: int
    first_seen: float
    last_seen: float


def make_notice_id(mail_id: str, state: NoticeState) -> str:
    """Return the id of the notice about a mail, so that the same one is not sent twice."""
    return f"notice-{hash_to_uuid(f'{mail_id}/{state}')}"


def make_resent_id(mail: Mail) -> str:
    """Return the id of a mail that is sent again after it was given back: its receiver may know the first one."""
    return make_mail_id(mail.id, "resent", mail.goal_id)


def name_again(mail: Mail, store: int) -> Mail:
    """Return evicted mail as it is delivered again in a store.

    Mail of another store may be sent again there too: it gets the same id from both daemons, so that it is shown once.
    """
    sender = read_goal_id(mail.from_goal)
    return mail if sender is None or sender[0] == store else replace(mail, id=make_resent_id(mail))


def make_gone_error(mail_id: str) -> Conflict:
    return Conflict(f"the conversation that {mail_id} was for was deleted", fix="Send a new message to another goal.")


def make_repeated_error(mail_id: str) -> Conflict:
    return Conflict(f"{mail_id} was sent again already", fix="See `moot goals`: it is unread, or was read.")
