"""All tools on the knowledge graph. Built by daemon/toolset.py."""

from moot.domain.ports.clock import Clock
from moot.domain.ports.graph import Graph
from moot.domain.ports.tool import RunContext, Tool
from moot.tools.graph import actions, change_tools, import_tools, read_tools
from moot.tools.graph.graph_tool import GraphCall


def build_tools(*, graph: Graph, clock: Clock) -> list[Tool]:
    plans = (*read_tools.PLANS, *change_tools.PLANS, *import_tools.PLANS, *actions.PLANS)

    def make_call(context: RunContext) -> GraphCall:
        return GraphCall(graph=graph, now=clock.now(), context=context)

    return [plan.build(make_call) for plan in plans]
