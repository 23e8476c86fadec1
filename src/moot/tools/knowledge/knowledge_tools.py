"""All tools on knowledge and learnings. Built by daemon/toolset.py."""

from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import KnowledgeStore, Learnings
from moot.domain.ports.tool import Tool
from moot.tools.knowledge import entry_tools, learning_tools


def tools(*, knowledge: KnowledgeStore, learnings: Learnings, clock: Clock) -> list[Tool]:
    return [plan.build(knowledge, learnings, clock) for plan in (*entry_tools.PLANS, *learning_tools.PLANS)]
