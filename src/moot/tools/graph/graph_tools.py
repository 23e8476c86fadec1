"""All tools on the knowledge graph. Built by daemon/toolset.py."""

from moot.domain.ports.clock import Clock
from moot.domain.ports.graph import Graph
from moot.domain.ports.tool import Tool
from moot.tools.graph import actions, change_tools, import_tools, read_tools


def build_tools(*, graph: Graph, clock: Clock) -> list[Tool]:
    plans = (*read_tools.PLANS, *change_tools.PLANS, *import_tools.PLANS, *actions.PLANS)
    return [plan.build(graph, clock) for plan in plans]
