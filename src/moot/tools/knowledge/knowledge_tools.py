"""All tools on knowledge and learnings. Built by daemon/toolset.py."""

from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import Inquiries, KnowledgeStore, Learnings
from moot.domain.ports.tool import RunContext, Tool
from moot.tools.knowledge import entry_tools, learning_tools
from moot.tools.knowledge.inquiry_tools import DismissInquiry, PendingInquiries
from moot.tools.knowledge.knowledge_tool import KnowledgeCall


def build_tools(*, knowledge: KnowledgeStore, learnings: Learnings, clock: Clock) -> list[Tool]:
    def make_call(context: RunContext) -> KnowledgeCall:
        return KnowledgeCall(knowledge=knowledge, learnings=learnings, now=clock.now(), context=context)

    return [plan.build(make_call) for plan in (*entry_tools.PLANS, *learning_tools.PLANS)]


def build_inquiry_tools(*, inquiries: Inquiries, clock: Clock) -> list[Tool]:
    return [PendingInquiries(inquiries), DismissInquiry(inquiries, clock)]
