"""BridgeChecks: checks bridge messages against the mail that was sent before. Used by mail_sender.py and tools.py."""

from collections.abc import Sequence

from moot.domain.bridge import BridgeMessage, find_flaw, parse_bridge
from moot.domain.errors import BadRequest
from moot.domain.goal import MailTarget
from moot.domain.mail import parse_uuid
from moot.domain.ports.mail import MailStore


def read_bridge(body: str, correlation_id: str) -> BridgeMessage | None:
    """Return the bridge message in a body, if it is one. Its id is the correlation id of its mail."""
    message = parse_bridge(body)
    if message is not None and correlation_id and parse_uuid(correlation_id) != message.request_id:
        raise BadRequest("`correlation_id` differs from `request_id`", fix="Leave it out.")
    return message


async def check_bridge(
    message: BridgeMessage, store: MailStore, *, from_goal: str, goals: Sequence[MailTarget], mail_id: str
) -> None:
    """Raise BadRequest for a message that is late, repeated, or from the wrong sender."""
    if not from_goal:
        raise BadRequest(
            f"{message.type} is sent by agents", fix="Stop a run with `moot stop`; answer in `moot inbox`."
        )
    if len(goals) != 1:
        raise BadRequest(
            f"{message.type} is for one goal, and the agent has {len(goals)}", fix="Name it with `goal_id`."
        )
    earlier = await store.list_correlated(message.request_id)
    if flaw := find_flaw(message, mail_id, from_goal, goals[0].id, earlier):
        raise BadRequest(flaw, fix="Nothing was sent.")
