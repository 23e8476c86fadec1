"""All tools on knowledge and learnings. Built by daemon/toolset.py."""

from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import Inquiries, KnowledgeStore, Learnings
from moot.domain.ports.tool import Tool
from moot.tools.knowledge import entry_tools, learning_tools
from moot.tools.knowledge.inquiry_tools import DismissInquiry, PendingInquiries


def build_tools(*, knowledge: KnowledgeStore, learnings: Learnings, clock: Clock) -> list[Tool]:
    return [plan.build(knowledge, learnings, clock) for plan in (*entry_tools.PLANS, *learning_tools.PLANS)]


def build_inquiry_tools(*, inquiries: Inquiries, clock: Clock) -> list[Tool]:
    return [PendingInquiries(inquiries), DismissInquiry(inquiries, clock)]
