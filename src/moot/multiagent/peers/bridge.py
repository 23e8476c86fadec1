"""Checks bridge messages against the mail that was sent before. Used by mail_sender.py, and by receiver.py for others.

A daemon knows the mail its goals received, and the bridge messages they sent to goals of other daemons.
"""

from collections.abc import Sequence

from moot.domain.bridge import BridgeMessage, find_flaw, is_bridge, make_refusal, parse_bridge
from moot.domain.errors import BadRequest
from moot.domain.mail import Mail, parse_uuid
from moot.domain.outbox import ReturnedMail
from moot.domain.peer_address import PERSON
from moot.domain.ports.mail import MailStore


def read_bridge(body: str, correlation_id: str) -> BridgeMessage | None:
    """Return the bridge message in a body, if it is one. Its id is the correlation id of its mail."""
    message = parse_bridge(body)
    if message is not None and correlation_id and parse_uuid(correlation_id) != message.request_id:
        raise BadRequest("`correlation_id` differs from `request_id`", fix="Leave it out.")
    return message


async def check_bridge(
    message: BridgeMessage, store: MailStore, *, from_goal: str, goal_ids: Sequence[str], mail_id: str
) -> None:
    """Raise BadRequest for a message that is late, repeated, or from the wrong sender."""
    if not from_goal:
        raise BadRequest(
            f"{message.type} is sent by agents", fix="Stop a run with `moot stop`; answer in `moot inbox`."
        )
    if len(goal_ids) != 1:
        raise BadRequest(
            f"{message.type} is for one goal, and the agent has {len(goal_ids)}", fix="Name it with `goal_id`."
        )
    earlier = await store.list_correlated(message.request_id)
    if flaw := find_flaw(message, mail_id, from_goal, goal_ids[0], earlier):
        raise BadRequest(flaw, fix="Nothing was sent.")


async def find_arrival_flaw(mail: Mail, store: MailStore, accepted: Sequence[Mail], *, is_verified: bool) -> str:
    """Return why a bridge message of another daemon is not accepted; empty for one that is, and for other mail.

    `accepted` is the mail that is about to be stored with it.
    """
    try:
        message = read_bridge(mail.body, mail.correlation_id)
    except BadRequest as error:
        return error.message
    if message is None:
        return ""
    if not is_verified:
        return f"{message.type} must be signed by a daemon"
    if mail.from_agent.startswith(PERSON):
        return f"{message.type} is sent by agents"
    if mail.correlation_id != message.request_id:
        return "`correlation_id` must be the `request_id`"
    earlier = await store.list_correlated(message.request_id)
    earlier += [each for each in accepted if each.correlation_id == message.request_id]
    return find_flaw(message, mail.id, mail.from_goal, mail.goal_id, earlier)


async def find_refusal(returned: ReturnedMail, store: MailStore, now: float) -> Mail | None:
    """Return the mail that tells the sender of a bridge message why it came back; None if this store has sent none.

    What comes back from another daemon may be hostile; what is lost here is answered by `make_local_refusal`.
    """
    correlated = await store.list_correlated(returned.mail.correlation_id)
    sent = [mail for mail in correlated if (mail.id, mail.goal_id) == (returned.mail.id, returned.mail.goal_id)]
    return make_refusal(sent[0], returned.reason, now, correlated) if sent else None


async def make_local_refusal(returned: ReturnedMail, store: MailStore, now: float) -> Mail | None:
    """Return the mail that tells a goal of this store why nobody will read its bridge message; None for other mail."""
    if not returned.mail.correlation_id or not is_bridge(returned.mail.body):
        return None
    return make_refusal(returned.mail, returned.reason, now, await store.list_correlated(returned.mail.correlation_id))
