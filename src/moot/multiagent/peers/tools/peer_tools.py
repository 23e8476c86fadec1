"""The tools with which agents find and write to each other: list_peers, send_to_peer, wait_for_peer."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from moot.domain.bridge import BridgeType, parse_bridge
from moot.domain.errors import BadRequest
from moot.domain.events import MailRead
from moot.domain.mail import MAX_BODY_BYTES, parse_uuid
from moot.domain.ports.mail import MailStore
from moot.domain.ports.tool import RunContext, Tool, ToolResult
from moot.domain.prompt import Safety, ToolSpec
from moot.domain.text import clean, defuse
from moot.multiagent.peers.directory import PeerDirectory, PeerSummary, explain_unknown
from moot.multiagent.peers.letter import DeliveryReport, Letter, check_address, check_letter
from moot.multiagent.peers.mail_causes import MailCauses
from moot.multiagent.peers.mail_sender import MailSender
from moot.multiagent.peers.tools.plans import PlanApprovals
from moot.multiagent.peers.tools.replies import Replies, show_mail

_SEND = "send_to_peer"
# What an agent is told where agents do not write to each other.
_NO_DIRECTORY = "this agent has no PeerDirectory configured"
# How many goals list_peers returns at once, and of how many pages.
_PAGE = 32
_MOST_PAGES = 100
_LONGEST_WAIT = 3600
_DEFAULT_WAIT = 120


def build_tools(
    *,
    directory: PeerDirectory,
    sender: MailSender,
    mail: MailStore,
    causes: MailCauses,
    replies: Replies,
    plans: PlanApprovals,
) -> list[Tool]:
    return [ListPeers(directory, sender), SendToPeer(directory, sender, mail, causes, plans), WaitForPeer(replies)]


class ListPeers:
    spec = ToolSpec(
        name="list_peers",
        safety=Safety.SAFE,
        group="peers",
        repeatable=True,
        description="List the other agents, and which of them you can write to with send_to_peer.",
        parameters={
            "type": "object",
            "properties": {
                "goals_of": {"type": "string", "description": "An agent: list its live goals, newest first."},
                "page": {"type": "integer", "description": f"The page, with {_PAGE} goals each; 1 if not given."},
            },
            "additionalProperties": False,
        },
        fine=frozenset({"goals_of", "page"}),
    )

    def __init__(self, directory: PeerDirectory, sender: MailSender) -> None:
        self._directory = directory
        self._sender = sender

    def line(self, arguments: dict[str, Any]) -> str:
        named = str(arguments.get("goals_of") or "")[:64]
        return f"list the goals of {named}" if named else "list the other agents"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        if not self._directory.is_enabled():
            return ToolResult(content=msgspec.json.encode({"peers": [], "note": _NO_DIRECTORY}).decode())
        # Agents of other daemons are there for the owner alone.
        is_owner = await self._sender.is_of_owner(context.asks_in)
        list_peers = self._directory.list_peers if is_owner else self._directory.list_local_peers
        peers = list_peers(context.speaker)
        if not (named := str(arguments.get("goals_of") or "").strip()):
            return ToolResult(content=defuse(msgspec.json.encode({"peers": peers}).decode()))
        page = arguments.get("page") or 1
        if not 1 <= page <= _MOST_PAGES:
            raise BadRequest(f"`page` must be between 1 and {_MOST_PAGES}", fix="Leave it out for the first page.")
        peer = self._find_named(named, peers)
        goals = await self._list_goals(peer.agent_id, page * _PAGE + 1, context)
        shown = {"peers": [peer], "goals": goals[(page - 1) * _PAGE : page * _PAGE]}
        more = {"next_page": page + 1} if len(goals) > page * _PAGE and page < _MOST_PAGES else {}
        return ToolResult(content=defuse(msgspec.json.encode(shown | more).decode()))

    def _find_named(self, named: str, peers: Sequence[PeerSummary]) -> PeerSummary:
        """Return the agent with this name or address; raise if there is none, or if it cannot be written to."""
        address = self._directory.find_name(named)
        peer = next((peer for peer in peers if peer.agent_id == address), None)
        if peer is None:
            raise BadRequest(explain_unknown(clean(named[:64])), fix="Leave `goals_of` out to list the agents.")
        if not peer.reachable:
            raise BadRequest(f"you cannot write to `{peer.agent_id}`", fix="Name an agent that is reachable.")
        return peer

    async def _list_goals(self, address: str, limit: int, context: RunContext) -> list[dict[str, str]]:
        """Return up to `limit` goals. Of those of other daemons only the newest are known, by their ids."""
        remote = [] if self._directory.find(address) is not None else self._directory.find_remote(address)
        if remote:
            return [{"goal_id": goal_id} for peer in remote for goal_id in peer.agent.goals][:limit]
        return [
            {
                "goal_id": goal.id,
                "kind": goal.kind.value,
                "state": goal.state.value,
                "sender": goal.owner,
                "active_at": datetime.fromtimestamp(goal.active_at, UTC).isoformat(timespec="seconds"),
            }
            for goal in await self._sender.list_goals_of(address, context.asks_in, limit=limit)
        ]


class SendToPeer:
    spec = ToolSpec(
        name=_SEND,
        safety=Safety.MODERATE,
        in_order=True,
        checks_arguments=True,
        group="peers",
        repeatable=True,
        description=(
            "Send a message to another agent. It does not see your other text, only this. It reads the message in its "
            "own time; to wait for an answer, set a correlation_id and call wait_for_peer. Sending to `*` writes to "
            "every agent and is expensive. A message can be JSON with a type: shutdown_request {request_id, reason?} "
            "asks a goal to end, shutdown_response {request_id, approved, reason?} answers it (approving ends your "
            "run), plan_approval_request {request_id, plan} waits for the answer to a plan and plan_approval_response "
            "{request_id, approved, reason} gives it. A request_id is a new UUID, which the response repeats."
        ),
        parameters={
            "type": "object",
            "properties": {
                "to": {"type": "string", "description": "The agent's name, as list_peers shows it, or `*` for all."},
                "message": {"type": "string", "description": f"The whole message, at most {MAX_BODY_BYTES} bytes."},
                "correlation_id": {
                    "type": "string",
                    "description": "A UUID that an answer repeats. When you answer, the one of the message.",
                },
                "goal_id": {
                    "type": "string",
                    "description": "One goal of that agent instead of all its goals.",
                },
            },
            "required": ["to", "message"],
            "additionalProperties": False,
        },
        fine=frozenset({"correlation_id", "goal_id"}),
    )

    def __init__(
        self,
        directory: PeerDirectory,
        sender: MailSender,
        mail: MailStore,
        causes: MailCauses,
        plans: PlanApprovals,
    ) -> None:
        self._directory = directory
        self._plans = plans
        self._sender = sender
        self._mail = mail
        self._causes = causes

    def line(self, arguments: dict[str, Any]) -> str:
        return f"to {arguments.get('to') or '?'}: {str(arguments.get('message', ''))[:200]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        try:
            _check_arguments(arguments, context.speaker)
            report = await self._send(arguments, context)
        except BadRequest as error:
            raise BadRequest(f"{_SEND}: {error.message}", fix=error.fix) from error
        # What waits in the outbox is as good as sent: it is not forgotten, whatever happens.
        is_sent = bool(report.delivered_to or report.queued_for)
        to = str(arguments["to"]).strip()
        bridge = parse_bridge(str(arguments["message"])) if is_sent else None
        if bridge is not None and bridge.type is BridgeType.PLAN_REQUEST:
            return await self._plans.wait(bridge, to, (*report.delivered_to, *report.queued_for)[0], context)
        is_stopped = bridge is not None and bridge.type is BridgeType.SHUTDOWN_RESPONSE and bridge.approved
        content = {
            "delivered_to": report.delivered_to,
            "unreachable_reasons": report.unreachable_reasons,
            **({"stopped_for": to} if is_stopped else {}),
        }
        return ToolResult(content=msgspec.json.encode(content).decode(), is_error=not is_sent, delivers=report.reported)

    async def _send(self, arguments: dict[str, Any], context: RunContext) -> DeliveryReport:
        letter = await self._write_letter(arguments, context)
        if not self._directory.is_enabled():
            check_letter(letter)
            return DeliveryReport(unreachable_reasons=(_NO_DIRECTORY,))
        return await self._sender.send(letter)

    async def _write_letter(self, arguments: dict[str, Any], context: RunContext) -> Letter:
        goal = await self._mail.find_goal_of(context.key)
        cause = await self._causes.trace(context)
        return Letter(
            origin=(context.run_id, context.call_id),
            from_agent=context.speaker,
            from_goal=goal.id if goal is not None else "",
            root=context.asks_in,
            to=arguments["to"].strip(),
            body=arguments["message"],
            goal_id=arguments.get("goal_id") or "",
            correlation_id=arguments.get("correlation_id") or "",
            thread=cause.thread,
            hops=cause.hops,
            taint=context.taint,
            emit=context.emit,
        )


def _check_arguments(arguments: dict[str, Any], speaker: str) -> None:
    """Raise BadRequest for arguments that are missing or no text. What is in them is checked when it is sent."""
    to, message = arguments.get("to"), arguments.get("message")
    if not isinstance(to, str):
        raise BadRequest("`to` is required", fix="Name an agent; list_peers shows them.")
    if not isinstance(message, str):
        # Who it is for is checked before what it says.
        check_address(to.strip(), speaker)
        raise BadRequest("`message` is required", fix="Write what the peer should know.")
    known = SendToPeer.spec.parameters["properties"]
    for name, value in arguments.items():
        if name not in known:
            raise BadRequest(f"there is no parameter {clean(name[:64])!r}", fix=f"It has {', '.join(known)}.")
        if not isinstance(value, str):
            raise BadRequest(f"`{name}` must be a string", fix="Nothing was sent.")


class WaitForPeer:
    spec = ToolSpec(
        name="wait_for_peer",
        safety=Safety.SAFE,
        group="peers",
        repeatable=True,
        description=(
            "Wait for the answer to a message that you sent with a correlation_id. If the time is up first, the answer "
            "is shown to you when it comes."
        ),
        parameters={
            "type": "object",
            "properties": {
                "correlation_id": {"type": "string", "description": "The one you gave to send_to_peer."},
                "timeout": {"type": "integer", "description": f"Seconds to wait; {_DEFAULT_WAIT} if not given."},
            },
            "required": ["correlation_id"],
            "additionalProperties": False,
        },
    )

    def __init__(self, replies: Replies) -> None:
        self._replies = replies

    def line(self, arguments: dict[str, Any]) -> str:
        return f"wait for the answer to {str(arguments.get('correlation_id', ''))[:8]}"

    async def __call__(self, arguments: dict[str, Any], context: RunContext) -> ToolResult:
        correlation_id = parse_uuid(str(arguments["correlation_id"]))
        if correlation_id is None:
            raise BadRequest("`correlation_id` is not a UUID", fix="Use the one you gave to send_to_peer.")
        given = arguments.get("timeout")
        seconds = _DEFAULT_WAIT if given is None else min(int(given), _LONGEST_WAIT)
        if seconds < 1:
            raise BadRequest("`timeout` must be at least 1 second", fix=f"Leave it out for {_DEFAULT_WAIT}.")
        with context.attending():
            mails = await self._replies.wait(context.key, context.run_id, correlation_id, seconds)
        for mail in mails:
            context.emit(MailRead(mail))
        if not mails:
            return ToolResult(content=f"No answer came within {seconds} seconds.", waited=True)
        return show_mail(mails)
