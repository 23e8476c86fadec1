"""PlanApprovals: waits for the answer to a plan, from the goal it was sent to or from the owner. Used by send_to_peer.

The owner is asked as by ask_user (engine/asks.py). Their answer is mailed as that of a goal is; the first one counts.
After a restart the call is made again: it sends nothing twice and resumes the same question.
"""

import asyncio
import logging

from moot.domain.ask import Option, Question
from moot.domain.bridge import OWNER, BridgeMessage, is_plan_response, render_response
from moot.domain.errors import MootError
from moot.domain.mail import Mail, make_mail_id
from moot.domain.ports.clock import Clock
from moot.domain.ports.mail import MailStore
from moot.domain.ports.tool import RunContext, ToolResult
from moot.multiagent.peers.mail_sender import MailSender
from moot.multiagent.peers.tools.replies import Replies, show_mail

logger = logging.getLogger(__name__)

_APPROVE, _REJECT = "Approve", "Reject"
_NO_REASON = "The owner gave no reason."
# How long a goal may take to answer if nobody can be asked here.
_WAIT_SECONDS = 3600.0


class PlanApprovals:
    def __init__(self, *, mail: MailStore, sender: MailSender, replies: Replies, clock: Clock) -> None:
        self._mail = mail
        self._sender = sender
        self._replies = replies
        self._clock = clock

    async def wait(self, request: BridgeMessage, to: str, goal_id: str, context: RunContext) -> ToolResult:
        """Return the response to a plan that was sent to a goal of an agent, as mail that the run is shown."""
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._ask_owner(request, to, context), name=f"plan {request.request_id}")
            with context.attending():
                mails = await self._replies.wait(
                    context.key,
                    context.run_id,
                    request.request_id,
                    _WAIT_SECONDS,
                    # Anybody can write with the same correlation id.
                    lambda mail: is_plan_response(mail, request.request_id, goal_id),
                )
            asking.cancel()
        if not mails:
            return ToolResult(content="Nobody has answered the plan yet. The answer is shown to you when it comes.")
        return show_mail(mails)

    async def _ask_owner(self, request: BridgeMessage, to: str, context: RunContext) -> None:
        """Ask the owner, and mail their answer to the goal that waits."""
        question = Question(
            question=f"Approve the plan of {context.speaker}, which was sent to {to}?\n\n{request.plan}",
            header="Plan",
            options=(
                Option(label=_APPROVE, description="it may go ahead"),
                Option(label=_REJECT, description="or write what must change"),
            ),
        )
        try:
            await self._mail_answer(request, context, (await context.ask([question])).strip())
        except MootError as error:
            # Nobody can be asked, or nobody answered in time; the goal may still answer.
            logger.info("no answer of the owner to plan %s: %s", request.request_id, error.message)

    async def _mail_answer(self, request: BridgeMessage, context: RunContext, answer: str) -> None:
        own = await self._mail.find_goal_of(context.key)
        if own is None:
            return
        approved = answer.casefold() == _APPROVE.casefold()
        reason = "" if approved else _NO_REASON if answer.casefold() == _REJECT.casefold() else answer
        mail = Mail(
            id=make_mail_id(context.run_id, context.call_id, f"owner/{own.id}"),
            goal_id=own.id,
            from_agent=OWNER,
            from_goal="",
            to_agent=context.speaker,
            body=render_response(request, approved=approved, reason=reason),
            sent_at=self._clock.now(),
            correlation_id=request.request_id,
        )
        await self._sender.deliver(own, mail)
