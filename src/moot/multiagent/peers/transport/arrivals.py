"""Checks of a message that arrived from the broker: who sent it, and who may read it. Used by receiver.py.

Everything that arrives may be hostile.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from moot.domain.agent import Agent
from moot.domain.errors import BadRequest
from moot.domain.goal import MailTarget, make_goal_id, read_goal_id
from moot.domain.inbox_message import (
    ABOUT,
    INBOX_SUBJECT,
    SIGNATURE,
    InboxMessage,
    MailHeaders,
    NoticeState,
    is_mail_id,
    list_signed_bytes,
    make_mail,
    parse_partially,
    read_headers,
    read_message,
    read_notice,
    read_subject,
)
from moot.domain.mail import UNVERIFIED_TAINT, Mail
from moot.domain.outbox import KnownDaemon, Position, Receipt, ReturnedMail
from moot.domain.peer_address import PERSON, is_allowed, join_address
from moot.domain.ports.broker import Arrival, BrokerMessage
from moot.domain.token import Token
from moot.domain.uuid_text import hash_to_uuid
from moot.multiagent.peers.daemons.batch_signatures import verify_message
from moot.multiagent.peers.daemons.remote_directory import RemoteDirectory
from moot.multiagent.peers.directory import explain_not_accepted, find_principal

logger = logging.getLogger(__name__)

_UNVERIFIED = " (unverified)"
_SENDER = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,63}}|{PERSON}.+", re.DOTALL)


class Rejection(Exception):
    """A message is not accepted. `kind` is counted, `reason` is what a person or the sender reads."""

    def __init__(self, kind: str, reason: str, mail: Mail | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.mail = mail


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """A mail, or a notice about a mail of this store, whose sender is checked. `daemon` is None if it is unverified."""

    goal_id: str
    daemon: KnownDaemon | None
    mail: Mail | None = None
    returned: ReturnedMail | None = None


def read_arrival(arrival: Arrival, directory: RemoteDirectory, *, store: int, accepts_unsigned: bool) -> Message:
    """Read what arrived, and find out who sent it. Raise Rejection if that is not certain, or if it is malformed."""
    broker_message = arrival.message
    found = read_subject(broker_message.subject)
    if found is None or found[2] != store:
        raise Rejection("subject", f"the subject {broker_message.subject[:128]!r} is not that of a goal")
    kind, goal_id, _ = found
    try:
        headers, daemon = _find_daemon(arrival, directory)
    except Rejection:
        if not accepts_unsigned or kind != INBOX_SUBJECT:
            raise
        return Message(goal_id=goal_id, daemon=None, mail=_read_unverified(arrival, goal_id))
    if kind == INBOX_SUBJECT:
        return Message(goal_id=goal_id, daemon=daemon, mail=_read_mail(broker_message, goal_id, headers, daemon))
    return Message(goal_id=goal_id, daemon=daemon, returned=_read_returned(broker_message, goal_id, headers, daemon))


def _store_of(goal_id: str) -> int | None:
    numbers = read_goal_id(goal_id)
    return None if numbers is None else numbers[0]


def _find_daemon(arrival: Arrival, directory: RemoteDirectory) -> tuple[MailHeaders, KnownDaemon]:
    broker_message, message_id = arrival.message, arrival.message_id
    given = broker_message.headers
    if not given.get(SIGNATURE):
        raise Rejection("unsigned", "it has no signature")
    try:
        headers = read_headers(message_id, given)
    except BadRequest as error:
        raise Rejection("malformed", error.message) from None
    daemon = directory.find_daemon(headers.daemon)
    if daemon is None:
        raise Rejection("unknown daemon", f"daemon `{headers.daemon}` is not known")
    signed = list_signed_bytes(broker_message.subject, message_id, given[ABOUT], broker_message.payload)
    if not verify_message(daemon.key, headers.signature, headers.proof, signed):
        raise Rejection("signature", f"the signature is not that of daemon `{headers.daemon}`")
    return headers, daemon


def _read_mail(broker_message: BrokerMessage, goal_id: str, headers: MailHeaders, daemon: KnownDaemon) -> Mail:
    try:
        message = read_message(broker_message.payload)
    except BadRequest as error:
        raise Rejection(
            "malformed", error.message, _parse_partially(broker_message, goal_id, headers, daemon)
        ) from None
    sender = message.from_agent_id
    mail = make_mail(
        message, mail_id=headers.id, goal_id=goal_id, headers=headers, from_agent=join_address(sender, daemon.name)
    )
    if not _is_sender(sender) or _store_of(mail.from_goal) != daemon.store:
        reason = f"the sender {sender!r} is not one of daemon `{daemon.name}`"
        raise Rejection("sender", reason, _parse_partially(broker_message, goal_id, headers, daemon))
    return mail


@lru_cache(maxsize=1024)
def _is_sender(name: str) -> bool:
    # Most senders send more than once.
    return _SENDER.fullmatch(name) is not None


def _parse_partially(
    broker_message: BrokerMessage, goal_id: str, headers: MailHeaders, daemon: KnownDaemon
) -> Mail | None:
    """Return what can be read of a message that a daemon has signed, so that it is told what became of it."""
    if not is_mail_id(headers.id):
        return None
    nobody = make_goal_id(daemon.store, 0)
    message = parse_partially(broker_message.payload, nobody)
    mail = make_mail(message, mail_id=headers.id, goal_id=goal_id, headers=headers)
    is_person = mail.from_agent.startswith(PERSON)
    is_sender = _is_sender(mail.from_agent) and is_person == (mail.from_goal == nobody)
    if not is_sender or _store_of(mail.from_goal) != daemon.store:
        # The notice is for the daemon, not for one of its goals.
        mail = replace(mail, from_goal=nobody, from_agent=PERSON)
    return replace(mail, from_agent=join_address(mail.from_agent, daemon.name))


def _read_message(payload: bytes) -> InboxMessage:
    try:
        return read_message(payload)
    except BadRequest as error:
        raise Rejection("malformed", error.message) from None


def _read_unverified(arrival: Arrival, goal_id: str) -> Mail:
    """Read mail of an unknown sender. It can be given back to nobody, and no agent can have the name it gets."""
    broker_message = arrival.message
    message = _read_message(broker_message.payload)
    given = arrival.message_id or f"{arrival.position.stream}/{arrival.position.sequence}"
    mail_id = f"mail-{hash_to_uuid(f'unverified/{broker_message.subject}/{given}')}"
    headers = MailHeaders(id=mail_id, thread=mail_id, taint=frozenset({UNVERIFIED_TAINT}))
    mail = make_mail(message, mail_id=mail_id, goal_id=goal_id, headers=headers)
    return replace(mail, from_agent=f"{message.from_agent_id}{_UNVERIFIED}", from_goal="")


def _read_returned(
    broker_message: BrokerMessage, goal_id: str, headers: MailHeaders, daemon: KnownDaemon
) -> ReturnedMail:
    try:
        notice = read_notice(broker_message.payload)
    except BadRequest as error:
        raise Rejection("malformed", error.message) from None
    if str(notice.message.from_goal_id) != goal_id or _store_of(notice.goal_id) != daemon.store:
        raise Rejection("sender", f"the notice is not about mail from goal {goal_id} to daemon `{daemon.name}`")
    mail = make_mail(notice.message, mail_id=notice.mail_id, goal_id=notice.goal_id, headers=headers)
    mail = replace(mail, to_agent=join_address(mail.to_agent, daemon.name))
    return ReturnedMail(mail=mail, state=notice.state, reason=notice.reason)


def check_mail(
    mail: Mail, goal: MailTarget | None, agent: Agent | None, tokens: Sequence[Token], *, is_verified: bool
) -> None:
    """Raise Rejection if the goal may not be sent this mail. `agent` is the one it is for."""
    if goal is None or goal.has_ended or find_principal(goal.root.sender, tokens):
        # Goals of the holders of tokens do not exist for other daemons.
        raise Rejection("goal", f"no live goal `{mail.goal_id}`", mail)
    if mail.to_agent != goal.agent:
        raise Rejection("agent", f"goal `{mail.goal_id}` is not one of agent `{mail.to_agent}`", mail)
    if agent is None:
        raise Rejection("goal", f"no live goal `{mail.goal_id}`", mail)
    if is_verified and mail.from_agent.startswith(PERSON):
        # The owner of all daemons on the broker.
        return
    accepts = agent.accept_delegates_from
    # Who allows unsigned mail allows it for every agent that has no list.
    accepted = is_allowed(accepts, mail.from_agent) if is_verified else accepts is None or "*" in accepts
    if not accepted:
        raise Rejection("not accepted", explain_not_accepted(agent.name, mail.from_agent, accepts), mail)


def check_returned(returned: ReturnedMail, goal: MailTarget | None) -> None:
    """Raise Rejection for a notice about mail that nobody of this store can have sent. `goal` is that of the sender."""
    mail = returned.mail
    is_person = mail.from_agent.startswith(PERSON)
    numbers = read_goal_id(mail.from_goal)
    is_known = is_person if numbers is not None and not numbers[1] else goal is not None
    if not is_known or (goal is not None and not is_person and goal.agent != mail.from_agent):
        raise Rejection("sender", f"no goal `{mail.from_goal}` of {mail.from_agent!r} has sent {mail.id}")


def give_back(rejection: Rejection) -> ReturnedMail | None:
    """Return what its sender is told; None if that is not known."""
    if rejection.mail is None or not rejection.mail.from_goal:
        return None
    return ReturnedMail(mail=rejection.mail, state=NoticeState.REFUSED, reason=rejection.reason)


class Verdict:
    """What becomes of the messages of a batch. Filled in the thread that stores them, or before."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.returned: list[ReturnedMail] = []
        self.rejected: list[tuple[Arrival, Rejection]] = []

    def judge_all(
        self,
        read: Sequence[tuple[Arrival, Message | Rejection]],
        goals: Mapping[str, MailTarget],
        tokens: Sequence[Token],
        find_agent: Callable[[str], Agent | None],
    ) -> None:
        """Accept or reject messages. `goals` and `tokens` are those that there are now."""
        for arrival, message in read:
            if isinstance(message, Rejection):
                self.rejected.append((arrival, message))
                continue
            try:
                _check(message, goals.get(message.goal_id), tokens, find_agent)
            except Rejection as rejection:
                self.rejected.append((arrival, rejection))
            except Exception:
                logger.exception("a message on %.128r could not be read", arrival.message.subject)
                self.rejected.append((arrival, Rejection("error", "it could not be read")))
            else:
                self._accept(message)

    def _accept(self, message: Message) -> None:
        if message.mail is not None:
            self.mails.append(message.mail)
        if message.returned is not None:
            self.returned.append(message.returned)

    def reject(self, arrival: Arrival, rejection: Rejection) -> None:
        self.rejected.append((arrival, rejection))

    def has_rejected(self, arrival: Arrival) -> bool:
        """Whether the message that was judged last is this one, and was rejected."""
        return bool(self.rejected) and self.rejected[-1][0] is arrival

    def make_receipt(self, position: Position) -> Receipt:
        refused = [back for _, rejection in self.rejected if (back := give_back(rejection)) is not None]
        return Receipt(position=position, mails=self.mails, refused=refused, returned=self.returned)


def _check(
    message: Message, goal: MailTarget | None, tokens: Sequence[Token], find_agent: Callable[[str], Agent | None]
) -> None:
    if message.returned is not None:
        check_returned(message.returned, goal)
    elif message.mail is not None:
        agent = find_agent(goal.agent) if goal is not None else None
        check_mail(message.mail, goal, agent, tokens, is_verified=message.daemon is not None)
