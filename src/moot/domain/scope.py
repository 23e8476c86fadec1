"""Which tools a run may use. A scope can be narrowed and never widened. Pure."""

from fnmatch import fnmatchcase

from msgspec import Struct

from moot.domain.user_message import SEND_USER_MESSAGE


class Scope(Struct, frozen=True):
    """A set of allowed tools.

    A name is allowed if every layer has a pattern for it and none denies it; no layers allow all.
    """

    layers: tuple[tuple[str, ...], ...] = ()
    denied: tuple[str, ...] = ()

    def __and__(self, other: "Scope") -> "Scope":
        if other is ALL_TOOLS:
            return self
        if self is ALL_TOOLS:
            return other
        return Scope(self.layers + other.layers, self.denied + other.denied)

    def allows(self, name: str) -> bool:
        if any(fnmatchcase(name, pattern) for pattern in self.denied):
            return False
        return all(any(fnmatchcase(name, pattern) for pattern in layer) for layer in self.layers)


ALL_TOOLS = Scope()
NO_TOOLS = Scope(((),))


def only(*patterns: str) -> Scope:
    return Scope((patterns,))


# The tool that finds the others, if not all of them fit.
TOOL_SEARCH = "tool_search"
# Tools that belong to no role: every run that has tools has these.
SHARED = ("ask_user", "set_title", "recall", "task_*", "tool_output_*", TOOL_SEARCH)
# The tools of an agent's own memory. They belong to chronicler; with [agentMemory] every agent that has tools has them.
OWN_MEMORY = ("memory_agent_save", "memory_agent_recall", "memory_agent_forget")
# The tool that escalates a task; only spawned runs have it.
TEAMMATE = ("agent_escalate",)
# The tool that messages the person; only runs of an assistant have it, unless they were spawned.
ASSISTANT = (SEND_USER_MESSAGE,)
NOT_SPAWNED = Scope(denied=(*TEAMMATE, *ASSISTANT))
# The scope of an assistant that was not spawned.
ASSISTING = Scope(denied=TEAMMATE)
# The tools that message other agents; spawned runs do not have them, because they report to the run that spawned them.
PEERS = ("list_peers", "send_to_peer", "wait_for_peer")
SPAWNED = Scope(denied=(*PEERS, *ASSISTANT))
# The tools that direct teammates. Only a coordinator is offered the last one, and any other agent is refused by it.
SPAWN = "agent_spawn"
CONTINUE = "send_message_to_worker"
_DIRECT_TEAMMATES = (SPAWN, "agent_wait", "agent_stop")
DIRECT = (*_DIRECT_TEAMMATES, CONTINUE)
NOT_COORDINATING = Scope(denied=(CONTINUE,))
# Without teammates there is nobody to direct.
ALONE = Scope(denied=(*_DIRECT_TEAMMATES, *TEAMMATE, *ASSISTANT))
ASSISTING_ALONE = Scope(denied=(*_DIRECT_TEAMMATES, *TEAMMATE))
# Tools that direct or message other agents; they belong to no role either.
CONTROL = (*DIRECT, *PEERS)
# The tools that start runs in the background, at a time or as steps: also of the agent that the worker works for, which
# has more tools than the worker.
START_RUNS = ("bg_submit", "cron_add", "cron_resume", "workflow_run", "workflow_save")
# A worker neither starts, directs nor messages others, whatever its file or its spawn allows.
WORKING = Scope(denied=(*CONTROL, *START_RUNS))
# The scope of automator as a worker: it is started so that it schedules something.
WORKING_AS_AUTOMATOR = Scope(denied=CONTROL)
# Tools a run cannot do without: working with others, asking, remembering, and reading what was cut. If the window has
# no room for all tools, these are left out last.
LEFT_OUT_LAST = frozenset({*CONTROL, *TEAMMATE, *ASSISTANT, "ask_user", "recall", "tool_output_get", TOOL_SEARCH})
