"""No module takes the runs and asks in this process for all there are: the store has those of every node."""

import ast

import pytest

from tests.architecture.sources import FILES, SOURCE, nodes

# For each set of this node's runs or asks: the modules that may read it, and why it need not be all of them.
ALLOWED = {
    "local_lanes": {
        "daemon/app.py": "closes models that no run of this daemon uses",
        "daemon/requests/run_lookup.py": "adds to stored runs what this node does in them, and work that is no run",
        "daemon/requests/conversations.py": "adds to stored runs what this node does in their conversation",
    },
    "local_runs": {
        "daemon/requests/run_lookup.py": "adds to stored runs what this node does in them",
        "daemon/requests/runs.py": "follows and waits for runs that RunLookup.find_here has found here",
    },
    "has_local_work": {
        "daemon/requests/records.py": "after Runs.require_here: no other node works on the conversation",
        "multiagent/peers/wakes.py": "an active run of this node is shown the mail; elsewhere a second one is refused",
    },
    "list_local_of_run": {
        "engine/lanes.py": "whether the active run of a lane waits for a person",
        "multiagent/teammates/teammates.py": "what blocks a teammate of this node",
    },
    "list_local_of_conversation": {
        "engine/asks.py": "the waiting runs of this node that have lost their conversation",
        "engine/lanes.py": "what the active run of a lane waits for",
    },
    "LiveRuns": {
        "multiagent/runtime.py": "builds it",
        "multiagent/teammates/briefing.py": "the tree of a run is on one node",
        "multiagent/teammates/dependencies.py": "hands it to the teammates",
        "multiagent/teammates/parent.py": "before the stored run that spawned another, whose tree is on this node",
        "multiagent/teammates/snapshot.py": "hands it to parent.py",
        "multiagent/teammates/teammate_text.py": "whether a run of this node has begun; else the stored history",
        "multiagent/teammates/workers.py": "before the stored runs of a worker, whose tree is on this node",
        "multiagent/teammates/grants.py": "the run that calls a tool is on this node",
    },
}


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    return [node.attr] if isinstance(node, ast.Attribute) else []


@pytest.mark.parametrize("name", ALLOWED)
def test_what_only_this_node_has_is_read_where_that_is_meant(name: str) -> None:
    """Whoever wants all live runs or open asks reads Store.list_live_runs or Asks.list_pending."""
    readers = {path.relative_to(SOURCE).as_posix() for path in FILES for node in nodes(path) if name in _names(node)}
    assert readers == set(ALLOWED[name])
