"""Letter: a message to be sent, its checks, and the report of where it went.

Used by peer_tools.py, mail_sender.py and remote_sender.py.
"""

from collections.abc import Callable

from msgspec import Struct

from moot.domain.conversation import ConversationKey
from moot.domain.errors import BadRequest
from moot.domain.events import EventBody
from moot.domain.mail import Mail, check_body, make_mail_id, parse_uuid

# Stands for all agents that the sender may write to.
EVERYONE = "*"


class Letter(Struct, frozen=True, kw_only=True):
    """What is to be sent. The daemon fills in who sends it; nothing of that comes from a model or a client."""

    # Makes the ids of its mails: the run and its call.
    origin: tuple[str, str]
    from_agent: str
    from_goal: str
    # The root conversation of the sender. Only goals of its principal are reached.
    root: ConversationKey
    to: str
    body: str
    # One goal instead of all goals of the agent.
    goal_id: str = ""
    correlation_id: str = ""
    thread: str = ""
    hops: int = 0
    taint: frozenset[str] = frozenset()
    # Publishes the events of the sender.
    emit: Callable[[EventBody], object]


class DeliveryReport(Struct, frozen=True, kw_only=True, gc=False):
    """Which goals a message reached, and why it did not reach others."""

    delivered_to: tuple[str, ...] = ()
    unreachable_reasons: tuple[str, ...] = ()
    # Goals of other daemons for which it waits in the outbox; the reasons name them as well.
    queued_for: tuple[str, ...] = ()
    # What the report tells its sender of earlier mail that is lost (LostMail.told_id).
    reported: tuple[str, ...] = ()


def check_letter(letter: Letter) -> None:
    """Raise BadRequest for a letter that cannot be sent, whoever it is for."""
    check_address(letter.to, letter.from_agent)
    check_body(letter.body)
    if letter.goal_id and letter.to == EVERYONE:
        raise BadRequest("`goal_id` is one goal, `*` is all", fix="Name the agent of the goal, or leave the goal out.")
    if letter.correlation_id and parse_uuid(letter.correlation_id) is None:
        raise BadRequest("`correlation_id` is not a UUID", fix="Leave it out, or send the one you are answering.")


def check_address(to: str, from_agent: str) -> None:
    """Raise BadRequest for an address that is empty or that of the sender."""
    if not to:
        raise BadRequest("`to` cannot be empty", fix="Name an agent; list_peers shows them.")
    if to == from_agent:
        raise BadRequest(f"cannot send to self (`{to}`)", fix="Name another agent; list_peers shows them.")


def make_mail_of(letter: Letter, goal_id: str, to_agent: str, now: float, no_goal: str = "") -> Mail:
    """Return the mail of a letter for one goal. `no_goal` is the goal of a sender that has none."""
    return Mail(
        id=make_mail_id(*letter.origin, goal_id),
        goal_id=goal_id,
        from_agent=letter.from_agent,
        from_goal=letter.from_goal or no_goal,
        to_agent=to_agent,
        body=letter.body,
        sent_at=now,
        correlation_id=(parse_uuid(letter.correlation_id) or "") if letter.correlation_id else "",
        thread=letter.thread or letter.origin[0],
        hops=letter.hops,
        taint=letter.taint,
    )


def join_reports(*reports: DeliveryReport) -> DeliveryReport:
    if len(reports) == 1:
        return reports[0]
    return DeliveryReport(
        delivered_to=tuple(goal_id for report in reports for goal_id in report.delivered_to),
        unreachable_reasons=tuple(reason for report in reports for reason in report.unreachable_reasons),
        queued_for=tuple(goal_id for report in reports for goal_id in report.queued_for),
        reported=tuple(told_id for report in reports for told_id in report.reported),
    )
