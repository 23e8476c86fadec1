"""Bridge messages: mail whose body is JSON with a `type`: it asks for a shutdown or for approval of a plan. Pure.

Checked by multiagent/peers/bridge.py when they are sent, and when they arrive from another daemon; the loop ends a run
that has approved its shutdown.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from moot.domain.errors import BadRequest
from moot.domain.mail import Mail, make_mail_id, parse_uuid
from moot.domain.message import Entry, Role

MAX_PLAN_BYTES = 8 * 1024
MAX_REASON = 2_000
SEND_TO_PEER = "send_to_peer"
# The authors of an answer that a person gave, and of mail that the daemon itself writes. No agent can have these names,
# and no person sends mail under the second one.
OWNER, DAEMON = "@owner", "@moot"
_PREFIXES = ("shutdown_", "plan_approval_")
_FIX = "See the types in the description of send_to_peer."


class BridgeType(StrEnum):
    SHUTDOWN_REQUEST = "shutdown_request"
    SHUTDOWN_RESPONSE = "shutdown_response"
    PLAN_REQUEST = "plan_approval_request"
    PLAN_RESPONSE = "plan_approval_response"

    @property
    def is_request(self) -> bool:
        return self in (BridgeType.SHUTDOWN_REQUEST, BridgeType.PLAN_REQUEST)

    @property
    def response(self) -> "BridgeType":
        return BridgeType.SHUTDOWN_RESPONSE if self is BridgeType.SHUTDOWN_REQUEST else BridgeType.PLAN_RESPONSE


class BridgeMessage(Struct, frozen=True, kw_only=True):
    type: BridgeType
    # A UUID, which the response repeats. It is the correlation id of the mail.
    request_id: str
    approved: bool = False
    reason: str = ""
    plan: str = ""


# The fields of each type besides `type` and `request_id`: their kind, and whether they are required.
_FIELDS: dict[BridgeType, dict[str, tuple[type, bool]]] = {
    BridgeType.SHUTDOWN_REQUEST: {"reason": (str, False)},
    BridgeType.SHUTDOWN_RESPONSE: {"approved": (bool, True), "reason": (str, False)},
    BridgeType.PLAN_REQUEST: {"plan": (str, True)},
    BridgeType.PLAN_RESPONSE: {"approved": (bool, True), "reason": (str, False)},
}


def may_be_bridge(body: str) -> bool:
    """Whether a body may be a bridge message: most are none, which shows at their first character."""
    return body.startswith("{") or (body[:1].isspace() and body.lstrip().startswith("{"))


def parse_bridge(body: str) -> BridgeMessage | None:
    """Return the bridge message in a body; None for any other text. Raise BadRequest for a malformed one."""
    if not may_be_bridge(body):
        return None
    try:
        data: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # Text that only looks like JSON, or is nested too deeply: no bridge message is nested.
        return None
    kind = data.get("type") if isinstance(data, dict) else None
    if not isinstance(kind, str) or not kind.startswith(_PREFIXES):
        return None
    if kind not in list(BridgeType):
        raise BadRequest(f"unknown type `{kind[:64]}`; it must be one of {', '.join(BridgeType)}", fix=_FIX)
    return _read(BridgeType(kind), {name: value for name, value in data.items() if name != "type"})


def is_bridge(body: str) -> bool:
    """Whether a body is a bridge message, even a malformed one."""
    try:
        return parse_bridge(body) is not None
    except BadRequest:
        return True


def is_bridge_request(body: str) -> bool:
    """Whether a body is a bridge message that is to be answered."""
    try:
        message = parse_bridge(body)
    except BadRequest:
        return False
    return message is not None and message.type.is_request


def _read(kind: BridgeType, data: dict[str, Any]) -> BridgeMessage:
    request_id = data.pop("request_id", None)
    parsed = parse_uuid(request_id) if isinstance(request_id, str) else None
    if parsed is None:
        raise BadRequest(f"`request_id` of {kind} must be a UUID", fix="A response repeats that of the request.")
    fields = _FIELDS[kind]
    if unknown := sorted(set(data) - set(fields)):
        raise BadRequest(f"{kind} has no `{unknown[0][:64]}`", fix=_FIX)
    for name, (wanted, is_required) in fields.items():
        if name not in data and is_required:
            raise BadRequest(f"{kind} needs `{name}`", fix=_FIX)
        if name in data and type(data[name]) is not wanted:
            raise BadRequest(f"`{name}` of {kind} must be {'true or false' if wanted is bool else 'text'}", fix=_FIX)
    message = BridgeMessage(type=kind, request_id=parsed, **data)
    _check_texts(message)
    return message


def _check_texts(message: BridgeMessage) -> None:
    kind = message.type
    if kind is BridgeType.PLAN_REQUEST and not 0 < len(message.plan.strip().encode()) <= MAX_PLAN_BYTES:
        raise BadRequest(f"`plan` must have 1 to {MAX_PLAN_BYTES} bytes", fix="Put the details into a file.")
    if kind is BridgeType.PLAN_RESPONSE and not message.approved and not message.reason.strip():
        raise BadRequest("a rejection needs a `reason`", fix="Say what must change.")
    if len(message.reason) > MAX_REASON:
        raise BadRequest(f"`reason` has more than {MAX_REASON} characters", fix="Send the rest as a message.")


def render_response(request: BridgeMessage, *, approved: bool, reason: str) -> str:
    """Return the body of the response to a request."""
    data = {"type": request.type.response, "request_id": request.request_id, "approved": approved}
    return msgspec.json.encode(data | ({"reason": reason} if reason else {})).decode()


def make_refusal(mail: Mail, reason: str, now: float, earlier: Sequence[Mail]) -> Mail | None:
    """Return the mail that tells the sender of a bridge message why its receiver has not got it; None for other mail.

    A request gets a response that rejects it, so that a call which waits for one ends; not if there was one before.
    `earlier` is the mail with the same correlation id.
    """
    message = _parse_stored(mail)
    if message is None or (message.type.is_request and _has_response(message, earlier)):
        return None
    reason = f"{mail.to_agent} has not got the {message.type}: {reason}"[:MAX_REASON]
    body = render_response(message, approved=False, reason=reason) if message.type.is_request else reason
    return Mail(
        id=make_mail_id(mail.id, "refusal", mail.from_goal),
        goal_id=mail.from_goal,
        from_agent=DAEMON,
        from_goal="",
        to_agent=mail.from_agent,
        body=body,
        sent_at=now,
        correlation_id=message.request_id,
        thread=mail.thread,
        hops=mail.hops + 1,
    )


def find_flaw(message: BridgeMessage, mail_id: str, from_goal: str, to_goal: str, earlier: Sequence[Mail]) -> str:
    """Return why a message is not accepted; empty if it is. `earlier` is the mail with the same correlation id."""
    others = [(mail, parsed) for mail in earlier if mail.id != mail_id and (parsed := _parse_stored(mail)) is not None]
    if message.type.is_request:
        return f"`request_id` {message.request_id} was used before" if others else ""
    requests = [mail for mail, parsed in others if parsed.type.is_request and parsed.type.response is message.type]
    if not any(mail.goal_id == from_goal and mail.from_goal == to_goal for mail in requests):
        return f"no such request {message.request_id} was sent to you by that goal"
    if any(parsed.type is message.type for _, parsed in others):
        return f"the request {message.request_id} was answered before"
    return ""


def _has_response(request: BridgeMessage, earlier: Sequence[Mail]) -> bool:
    parsed = map(_parse_stored, earlier)
    return any(each is not None and each.type is request.type.response for each in parsed)


def _parse_stored(mail: Mail) -> BridgeMessage | None:
    try:
        return parse_bridge(mail.body)
    except BadRequest:
        return None


def is_plan_response(mail: Mail, request_id: str, from_goal: str) -> bool:
    """Whether a mail answers the plan that was sent to a goal: from there, from the owner, or that it came back."""
    parsed = _parse_stored(mail)
    is_answer = parsed is not None and parsed.type is BridgeType.PLAN_RESPONSE and parsed.request_id == request_id
    return is_answer and (mail.from_goal == from_goal or (not mail.from_goal and mail.from_agent in (OWNER, DAEMON)))


def find_shutdown(entries: Sequence[Entry]) -> str:
    """Return the peer whose request to shut down the last calls have approved; empty if they have not.

    It is read from the results of the calls, so that a run that is resumed ends as well.
    """
    results: dict[str, str] = {}
    for entry in reversed(entries):
        message = entry.message
        if message.role is Role.TOOL:
            if not message.is_error:
                results[message.tool_call_id] = message.content
        elif not results:
            return ""
        else:
            made = [results[call.id] for call in message.tool_calls if call.name == SEND_TO_PEER and call.id in results]
            return next(filter(None, map(_read_ending, made)), "")
    return ""


def _read_ending(result: str) -> str:
    try:
        data: Any = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ""
    peer = data.get("stopped_for") if isinstance(data, dict) else ""
    return peer if isinstance(peer, str) else ""
