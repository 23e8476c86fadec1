"""The tools on inquiries: librarian_pending_inquiries, librarian_dismiss_inquiry. Built by knowledge_tools.py."""

from typing import Any

from moot.domain.inquiry import Inquiry, InquiryStatus, make_unknown_error
from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import Inquiries
from moot.domain.ports.tool import RunContext, ToolResult
from moot.domain.senders import owner_of
from moot.tools.knowledge.knowledge_tool import format_time, get_text, make_spec
from moot.tools.store_tool import Arguments, answer, join_taint

_LIMIT = 5
_MOST = 100


class PendingInquiries:
    spec = make_spec(
        "librarian_pending_inquiries",
        "List the questions of a conversation that are not answered yet.",
        {},
        {
            "session_key": "Another conversation with this person, as agent:sender; default: this one.",
            "limit": {"type": "integer", "description": f"How many at most; default {_LIMIT}."},
        },
    )

    def __init__(self, inquiries: Inquiries) -> None:
        self._inquiries = inquiries

    def line(self, arguments: Arguments) -> str:
        return "list pending inquiries"

    async def __call__(self, arguments: Arguments, context: RunContext) -> ToolResult:
        found = await self._inquiries.list_all(
            owner_of(context.asks_in.sender),
            # Only the agent can be another one: nobody sees the inquiries of other people.
            agent=get_text(arguments, "session_key").partition(":")[0] or context.asks_in.agent,
            status=InquiryStatus.PENDING,
            limit=max(1, min(_MOST, int(arguments.get("limit") or _LIMIT))),
        )
        data = {"inquiries": [_dump_inquiry(each) for each in found], "count": len(found)}
        return answer(data, join_taint(each.taint for each in found))


class DismissInquiry:
    spec = make_spec(
        "librarian_dismiss_inquiry",
        "Dismiss a question that the person does not want to answer. It is not asked again.",
        {"inquiry_id": "The id of the inquiry, as librarian_pending_inquiries lists it."},
        changes=True,
    )

    def __init__(self, inquiries: Inquiries, clock: Clock) -> None:
        self._inquiries = inquiries
        self._clock = clock

    def line(self, arguments: Arguments) -> str:
        return f"dismiss inquiry {arguments.get('inquiry_id', '')}"

    async def __call__(self, arguments: Arguments, context: RunContext) -> ToolResult:
        owner, number = owner_of(context.asks_in.sender), get_text(arguments, "inquiry_id")
        inquiry = await self._inquiries.find(owner, number)
        # A call that is made again after a restart finds it dismissed.
        if inquiry is None or inquiry.status is InquiryStatus.RESOLVED:
            raise make_unknown_error(number, [])
        await self._inquiries.close(owner, number, InquiryStatus.DISMISSED, now=self._clock.now())
        return answer({"status": "dismissed", "message": "It will not be asked again."})


def _dump_inquiry(inquiry: Inquiry) -> dict[str, Any]:
    return {
        "ID": inquiry.id,
        "SessionKey": f"{inquiry.key.agent}:{inquiry.key.sender}",
        "Topic": inquiry.topic,
        "Question": inquiry.question,
        "Context": inquiry.context,
        "Priority": inquiry.priority,
        "Status": inquiry.status,
        "CreatedAt": format_time(inquiry.created_at),
        "AskedAt": format_time(inquiry.asked_at) if inquiry.asked_at else "",
    }
