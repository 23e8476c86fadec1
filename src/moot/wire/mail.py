"""Mail between agents as protocol messages. Used by events.py and daemon/requests/peers.py. No I/O."""

from moot.domain.mail import Mail
from moot.domain.text import clean
from moot.wire import moot_pb2 as pb


def mail_info(mail: Mail, reason: str = "") -> pb.MailInfo:
    return pb.MailInfo(
        mail_id=mail.id,
        from_agent=mail.from_agent,
        from_goal=mail.from_goal,
        to_agent=mail.to_agent,
        goal_id=mail.goal_id,
        body=clean(mail.body),
        sent_at=mail.sent_at,
        correlation_id=mail.correlation_id,
        reason=clean(reason),
    )


def first_line(mail: Mail) -> str:
    return clean(mail.body.strip().partition("\n")[0])
